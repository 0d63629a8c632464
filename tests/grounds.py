"""Gets what a ground is made of before its tests ask for it: `python -m tests.grounds processes | kind`.

Also knows which sandboxes belong to a test run, so that none outlives it: a run's sandboxes carry its process id.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpuyard.sandbox import SandboxError, binaries, down, kind, names
from gpuyard.sandbox.components import PROGRAMS
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import engines, images, product
from gpuyard.sandbox.progress import Progress

PREFIX = "tests"


def main(arguments: Sequence[str]) -> int:
    """Find, fetch or build what a ground needs; 1 and one sentence if it cannot be had."""
    [ground] = arguments
    try:
        for line in NEEDED[ground](Folders.of_user(), Progress()):
            sys.stdout.write(f"{line}\n")
    except SandboxError as error:
        return _refused(ground, str(error))
    except OSError as error:
        return _refused(ground, f"{error}; XDG_CACHE_HOME names another place")
    return 0


def _refused(ground: str, why: str) -> int:
    sys.stderr.write(f"ground {ground} cannot be had: {why}\n")
    return 1


def _programs(folders: Folders, say: Progress) -> Iterator[str]:
    """Have the programs of the control plane; each with its version and where it was found."""
    for name, program in sorted(binaries.ensure(PROGRAMS, folders, say).items()):
        yield f"{name:<24} {program.version:<10} {program.source}"


def _images(folders: Folders, say: Progress) -> Iterator[str]:
    """Have the images of a node and of the product, in the engine that the tests will use."""
    with engines.borrowed(folders, say, lambda: kind.names(folders=folders)) as engine:
        yield images.node(engine, folders, say)
        yield product.build(engine.docker, folders, say)


NEEDED: dict[str, Callable[[Folders, Progress], Iterable[str]]] = {"processes": _programs, "kind": _images}


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
    """The process id in a name that a test run gave; None for any other name, which may be a user's."""
    ours = re.fullmatch(rf"{PREFIX}-([0-9]+)-[0-9]+", name)
    return int(ours[1]) if ours else None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
