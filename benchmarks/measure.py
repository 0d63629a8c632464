"""What a benchmark is made of: figures with their bars, and times as multiples of the calibration loop."""

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from statistics import median

from benchmarks.calibration import loop

KEEPS = {"≤": operator.le, "≥": operator.ge}


@dataclass(frozen=True)
class Bar:
    """What a figure must not pass."""

    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"

    def kept(self, value: float) -> bool:
        """Say whether a value is on the right side."""
        return bool(KEEPS[self.sign](value, self.limit))


def at_most(limit: float) -> Bar:
    """Make a bar that a figure has to stay below."""
    return Bar("≤", limit)


def at_least(limit: float) -> Bar:
    """Make a bar that a figure has to reach."""
    return Bar("≥", limit)


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark found: what it is, its bar if it has one, its unit, how it was found."""

    name: str
    value: float
    bar: Bar | None
    unit: str
    how: str

    @property
    def kept(self) -> bool:
        """Say whether the figure keeps its bar."""
        return self.bar is None or self.bar.kept(self.value)


def figures_of(module: str) -> list[Figure]:
    """Run the benchmark of this name."""
    return list(import_module(module).figures())


def seconds(work: Callable[[], object]) -> float:
    """Run a piece of work once; the seconds it took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_loops(work: Callable[[], object], runs: int = 5) -> float:
    """Give the time of a piece of work in calibration loops: medians of runs that take turns with the loop."""
    loops: list[float] = []
    works: list[float] = []
    for _ in range(runs):
        loops.append(loop())
        works.append(seconds(work))
    return median(works) / median(loops)


def ratio(work: Callable[[], object], other: Callable[[], object], runs: int = 5) -> float:
    """Give the time of one piece of work over that of another: medians of runs that take turns."""
    times = [(seconds(work), seconds(other)) for _ in range(runs)]
    return median(first for first, _ in times) / median(second for _, second in times)
