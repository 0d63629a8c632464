"""What is removed is the folder of one sandbox, never another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import removal
from gpuyard.sandbox.folders import Folders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("place", ["", "sandboxes", "sandboxes/..", "sandboxes/a/b", "elsewhere/mine"])
def test_a_folder_that_is_not_directly_below_sandboxes_is_refused(tmp_path: Path, place: str) -> None:
    victim = tmp_path / place
    (tmp_path / "sandboxes").mkdir()
    victim.mkdir(parents=True, exist_ok=True)
    (victim / "precious").touch()
    with pytest.raises(ValueError, match="not the folder of a sandbox"):
        removal.remove(victim)
    assert (victim / "precious").exists()


def test_the_folder_of_a_sandbox_goes_and_its_neighbour_stays(tmp_path: Path) -> None:
    home = Folders(tmp_path).sandboxes
    for name in ("mine", "other"):
        (home / name).mkdir(parents=True)
    assert removal.remove(home / "mine")
    assert [path.name for path in home.iterdir()] == ["other"]
