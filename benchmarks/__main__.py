"""Runs the benchmarks and prints their figures: `python -m benchmarks [PART OF A NAME ...]`.

A benchmark is a module here with a function `figures() -> list[Figure]`. Each runs in a process of its own, one after
the other, so that none meets the memory of another. Ends with 1 if a figure misses its bar or a module fails.
"""

import multiprocessing
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.measure import Figure, figures_of

HOME = Path(__file__).parent
COLUMNS = "{:<58} {:>10} {:>9}  {:<10} {}"


def modules(wanted: Sequence[str]) -> Iterator[str]:
    """Name the benchmarks, all or those that contain one of the words."""
    for path in sorted(HOME.rglob("*.py")):
        name = ".".join(("benchmarks", *path.relative_to(HOME).with_suffix("").parts))
        if "def figures(" in path.read_text() and path != Path(__file__) and matches(name, wanted):
            yield name


def matches(name: str, wanted: Sequence[str]) -> bool:
    """Say whether a module was asked for."""
    return not wanted or any(word in name for word in wanted)


def measured_apart(module: str) -> list[Figure]:
    """Run one benchmark in a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(figures_of, module).result()


def rows(figures: Iterable[Figure]) -> Iterator[str]:
    """Write figures as lines of the table."""
    for figure in figures:
        missed = "" if figure.kept else "MISSED  "
        yield COLUMNS.format(
            figure.name, f"{figure.value:.4g}", str(figure.bar or ""), figure.unit, f"{missed}{figure.how}"
        )


def main(wanted: Sequence[str]) -> int:
    """Run and print; the exit code."""
    found: list[Figure] = []
    failed = 0
    print(COLUMNS.format("figure", "value", "bar", "unit", "how"), flush=True)
    for module in modules(wanted):
        try:
            figures = measured_apart(module)
        except Exception:  # noqa: BLE001 - whatever a benchmark fails of, the others still run
            failed += 1
            print(f"{module} failed:\n{traceback.format_exc()}", flush=True)
            continue
        found += figures
        print("\n".join(rows(figures)), flush=True)
    missed = sum(not figure.kept for figure in found)
    print(f"\n{len(found)} figures, {missed} missed, {failed} benchmarks failed")
    return int(bool(missed or failed or not found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
