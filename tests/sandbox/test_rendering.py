"""What kubectl refuses is told in its words; the real kustomizations are in tests/cluster/test_install.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import rendering
from gpuyard.sandbox.binaries import SETTING
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders

from tests.sandbox.workshop import install

if TYPE_CHECKING:
    from pathlib import Path

ASKED_ITS_VERSION = '[ "$1" = kustomize ] || { echo v1.36.4; exit; }'


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(SETTING, str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_each_file_says_where_it_comes_from(tmp_path: Path, kubectl: Path) -> None:
    install(kubectl, "kubectl", f'#!/bin/sh\n{ASKED_ITS_VERSION}\necho "kind: $(basename $2)"\n')
    rendered = rendering.render(Folders(tmp_path), lambda _: None)
    assert rendered["install-mock.yaml"] == (
        "# Rendered from manifests/base/mock by `make manifests`; change it there.\nkind: mock\n"
    )
    assert set(rendered) == set(rendering.SOURCES)


def test_a_refusal_is_told_in_kubectls_words(tmp_path: Path, kubectl: Path) -> None:
    install(kubectl, "kubectl", f"#!/bin/sh\n{ASKED_ITS_VERSION}\necho no such field >&2\nexit 1\n")
    with pytest.raises(SandboxError, match=r"kubectl kustomize manifests/\S+: failed\n  \| no such field"):
        rendering.render(Folders(tmp_path), lambda _: None)
