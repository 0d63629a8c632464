"""Prometheus and promtool, to see what a scrape makes of our metrics: those at hand, else Debian's."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox.binaries import SETTING
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import debian
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.tools import architecture

if TYPE_CHECKING:
    from gpuyard.sandbox.releases import Say

PROGRAMS = ("prometheus", "promtool")


def programs(folders: Folders, say: Say) -> dict[str, Path]:
    """Both programs: in the folder that `$GPUYARD_BIN` names, on the PATH, in the cache, else from Debian's package.

    Raises SandboxError, with the remedy, on a machine that has neither them nor apt.
    """
    return _at_hand() or _cached(folders, say)


def _at_hand() -> dict[str, Path]:
    path = os.pathsep.join(filter(None, (os.environ.get(SETTING), os.environ.get("PATH"))))
    found = {name: Path(place) for name in PROGRAMS if (place := shutil.which(name, path=path))}
    return found if len(found) == len(PROGRAMS) else {}


def _cached(folders: Folders, say: Say) -> dict[str, Path]:
    slot = folders.binaries / f"prometheus-debian-linux-{architecture()}"
    with held(slot.with_name(f"{slot.name}.lock"), lambda: say("another gpuyard is getting Prometheus: waiting")):
        if not slot.exists():
            say("getting Prometheus from Debian's packages")
            _get(slot)
    return {name: slot / name for name in PROGRAMS}


def _get(slot: Path) -> None:
    partial = slot.with_name(f"{slot.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        debian.unpack("prometheus", partial)
        (partial / "usr" / "bin").rename(slot)
    except SandboxError as error:
        remedy = f"Put prometheus and promtool on the PATH, or into the folder that {SETTING} names."
        raise SandboxError(error.step, error.problem, log=error.log, remedy=remedy) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def main() -> None:
    """Become Prometheus, with the arguments that it takes."""
    try:
        program = programs(Folders.of_user(), Progress())["prometheus"]
    except SandboxError as error:
        sys.exit(str(error))
    os.execv(program, [str(program), *sys.argv[1:]])  # noqa: S606 - it takes our place


if __name__ == "__main__":
    main()
