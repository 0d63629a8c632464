"""All that the sandbox keeps lies in one folder, the user's cache."""

from pathlib import Path

import pytest
from gpuyard.sandbox.folders import Folders


def test_the_cache_lies_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = Folders.of_user()
    assert folders.root == tmp_path / "gpuyard"
    assert {folders.binaries.parent, folders.go.parent, folders.sandboxes.parent} == {folders.root}


def test_without_a_wish_it_lies_in_the_home_folders_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Folders.of_user().root == tmp_path / ".cache" / "gpuyard"
