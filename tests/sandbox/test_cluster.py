"""What the handle on a sandbox says when a program or a component is not as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import files
from gpuyard.sandbox.cluster import Cluster
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.spec import Spec

from tests.sandbox.workshop import install

if TYPE_CHECKING:
    from pathlib import Path


def cluster(folder: Path, kubectl: str = "") -> Cluster:
    programs = {"kubectl": install(folder / "bin", "kubectl", f"#!/bin/sh\n{kubectl}\n")}
    return Cluster(folder, Record(Spec(name="mine"), {}, programs, files.new_tokens()))


def test_kubectl_is_led_to_the_sandbox_and_keeps_its_cache_there(tmp_path: Path) -> None:
    made = cluster(tmp_path, kubectl='echo "$HOME" "$@"')
    assert made.kubectl("get", "pods") == f"{tmp_path} --kubeconfig={tmp_path / 'kubeconfig'} get pods\n"


def test_what_kubectl_refuses_is_told_in_its_words_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as failure:
        cluster(tmp_path, kubectl="echo no such thing >&2; exit 1").kubectl("get", "things")
    assert str(failure.value) == (
        "kubectl get things: failed\n"
        "  | no such thing\n"
        "`gpuyard sandbox status --name mine` tells whether every process runs; `up` mends it."
    )


def test_a_component_that_does_not_run_cannot_be_paused(tmp_path: Path) -> None:
    with pytest.raises(
        SandboxError, match="SIGSTOP to etcd: it is not running\n`gpuyard sandbox up --name mine` starts"
    ):
        cluster(tmp_path).pause("etcd")
