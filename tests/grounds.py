"""Gets what the ground "processes" is made of before its tests ask for it: `python -m tests.grounds`.

Also knows which sandboxes belong to a test run, so that none outlives it: a run's sandboxes carry its process id.
"""

import os
import sys
from collections.abc import Callable, Iterable

from gpuyard.sandbox import SandboxError, binaries, down, names
from gpuyard.sandbox.components import PROGRAMS
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import cluster as kind
from gpuyard.sandbox.progress import Progress

PREFIX = "tests"


def main() -> int:
    """Find, fetch or build the programs; 1 and one sentence if they cannot be had."""
    try:
        found = binaries.ensure(PROGRAMS, Folders.of_user(), Progress())
    except SandboxError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"{error}; XDG_CACHE_HOME names another place")
    for name, program in sorted(found.items()):
        sys.stdout.write(f"{name:<24} {program.version:<10} {program.source}\n")
    return 0


def _refused(why: str) -> int:
    sys.stderr.write(f"ground processes cannot be had: {why}\n")
    return 1


def sweep() -> list[str]:
    """Remove the sandboxes of test runs that are over; their names."""
    return [
        *(name for name in leftovers(names()) if down(name)),
        *(name for name in leftovers(kind.names()) if kind.down(name)),
    ]


def leftovers(sandboxes: Iterable[str], runs: Callable[[int], bool] | None = None) -> list[str]:
    """Choose the sandboxes whose test run is no more."""
    runs = runs or _runs
    return [name for name in sandboxes if (owner := _owner(name)) is not None and not runs(owner)]


def _owner(name: str) -> int | None:
    prefix, _, rest = name.partition("-")
    owner = rest.partition("-")[0]
    return int(owner) if prefix == PREFIX and owner.isdigit() else None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main())
