"""How long the planner keeps a verb waiting while it finds out which disruption budgets are about which pods."""

import time
from collections.abc import Callable, Generator, Iterator
from statistics import median

from gpuyard.common.cluster.budget_index import BudgetIndex
from gpuyard.engine.model import Pod
from gpuyard.engine.model.persistent import PersistentMap
from gpuyard.extender.planner.look.covered_pods import CoveredPods

from benchmarks.engine.affinity import MOST
from benchmarks.engine.stepping import calibration
from benchmarks.measure import Figure, at_most
from tests.extender.test_budget_index import Shelf, budget, pod

HOW = "benchmarks.extender.budgets"
Pods = PersistentMap[str, Pod]


def longest(steps: Generator[None, None, None]) -> float:
    """The seconds of processor time of the longest step."""
    return max(_steps(steps))


def _steps(steps: Generator[None, None, None]) -> Iterator[float]:
    start = time.thread_time()
    for _ in steps:
        yield time.thread_time() - start
        start = time.thread_time()
    yield time.thread_time() - start


def seconds(work: Callable[[], object]) -> float:
    """Processor time of work that is done at once."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def figures_for(budgets: int, count: int) -> list[Figure]:
    """So many budgets, each about a part of so many pods; then one pod and one budget change."""
    shelf, found = Shelf(), []
    for n in range(budgets):
        shelf.show(budget(f"b{n}", {"matchLabels": {"app": f"app-{n}"}}))
    pods = Pods().changed({f"ns/p{n}": pod(f"p{n}", app=f"app-{n % budgets}", pod=f"p{n}") for n in range(count)})
    for _ in range(3):
        unit, covered = calibration(), CoveredPods(BudgetIndex(shelf))
        first = longest(covered.renew(pods))
        later = pods.changed({"ns/p7": pod("p7", app="app-1")})
        shelf.show(budget("b1", {"matchLabels": {"app": "app-1"}}, allowed=0))
        found.append((unit, first, seconds(lambda: covered.now(later))))  # noqa: B023 - called at once
    unit, first, change = (median(column) for column in zip(*found, strict=True))
    what = f"{budgets:,} budgets, {count:,} pods"
    return [
        Figure(f"{what}: longest step", first / unit, at_most(MOST), "loops", HOW),
        Figure(f"{what}: longest step here", first * 1000, None, "ms", HOW),
        Figure(f"{what}: one pod and one budget change", change / unit, at_most(MOST), "loops", HOW),
        Figure(f"{what}: the same here", change * 1000, None, "ms", HOW),
    ]


def figures() -> list[Figure]:
    """The size at which a step once took 314 ms, and the largest that is served."""
    return [*figures_for(200, 3_000), *figures_for(1_000, 50_000)]
