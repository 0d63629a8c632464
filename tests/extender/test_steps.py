"""What may keep a verb waiting: the calls of functions between two pauses, in a mixed cluster of two sizes."""

import gc
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType, ModuleType
from typing import NamedTuple

import gpuyard.extender.ledger
import gpuyard.extender.planner
import gpuyard.extender.waker
import pytest
from gpuyard.extender.http.server import Verb, decided
from gpuyard.extender.http.wire import CANDIDATES, Candidates, FilterAnswer
from gpuyard.extender.ledger.ledger import AT_ONCE

from tests.engine.work import most_calls
from tests.extender.builders import Bench, node, pod, queue
from tests.extender.walks import Yard, walks
from tests.mixed_cluster import Size

SMALL, LARGE = Size(100), Size(400)
BOUND = 5_000
"""Calls in one step: one or two milliseconds of processor time."""

GROWTH = 1.3
FEW = 600
"""What makes so few calls may take more in the larger cluster: some kinds hardly exist in the smaller one."""


class Grows(NamedTuple):
    """A step that is not bounded: the calls that each node of the cluster adds, and why it stays so."""

    each: float
    why: str


_CROWD = "all pods of a gang say the same of it, and count as one; a gang of 1,000 pods takes 10 to 12 ms"
_SHARED = "`precedence` adds up all GPUs that are shared, about 5 ms for 1,000 nodes that have some"

GROWS: dict[str, Grows] = {
    "a node's event": Grows(4, "all nodes are added up anew, 1.5 ms for 5,000"),
    "the event of the largest gang's PodGroup": Grows(25, _CROWD),
    "a pod's event in the largest gang": Grows(4, "what a gang says is made of all its pods, 0.6 ms for 1,000"),
    "a relist of all pods": Grows(30, "what a gang says is made of all its pods, for each of eight in one batch"),
    "other settings": Grows(4, "what a gang says is made of all its pods"),
    "a plan's end": Grows(2, "all promises are put anew, 0.8 ms for 83"),
    "filter and prioritize": Grows(60, _SHARED),
    "the line": Grows(35, _SHARED),
    "the planner's first look": Grows(35, _SHARED),
    "the planner's look after an event": Grows(180, _SHARED),
    "a waker's look after them": Grows(6, "a snapshot of what changed, and a look at the sleepers"),
    "dips": Grows(6, "which nodes have changed is asked of each, 0.5 ms for 5,000"),
}


def counted(size: Size) -> dict[str, int]:
    """The most calls in one step of each walk."""
    yard = Yard(size)
    return {name: most_calls(walk(yard)) for name, walk in walks(size).items()}


@pytest.mark.row("B-60")
async def test_no_step_makes_more_calls_than_its_bound_and_none_more_in_a_larger_cluster_but_those_named() -> None:
    few, many = counted(SMALL), counted(LARGE)
    for name, most in many.items():
        grows = GROWS.get(name)
        if grows is not None:
            assert most <= FEW + grows.each * LARGE.nodes, (name, most)
        else:
            assert most <= BOUND, (name, most)
            assert most <= max(FEW, GROWTH * few[name]), (name, few[name], most)
    assert GROWS.keys() <= many.keys()


@pytest.mark.row("B-62")
def test_grants_that_end_together_end_a_few_at_a_time() -> None:
    bench = Bench(node("n1"), queue("team"), *(pod(f"p{n}", "team") for n in range(7)))
    bench.feed.adopt(lambda _: 60)
    left = [len(bench.ledger.granted) for _ in bench.ledger.expire_all(60)]
    assert left == [5, 3, 1]
    assert 7 - left[0] == AT_ONCE
    assert not bench.ledger.granted


# --- the list of walks


def modules(of: ModuleType) -> Iterator[ModuleType]:
    """A module, and those in it."""
    yield of
    for found in pkgutil.walk_packages(getattr(of, "__path__", ()), f"{of.__name__}."):
        yield import_module(found.name)


def pausing(of: ModuleType) -> dict[CodeType, str]:
    """The functions and methods of a module that pause, by their code."""
    owners = [of, *(one for one in vars(of).values() if inspect.isclass(one) and one.__module__ == of.__name__)]
    functions = [one for owner in owners for one in vars(owner).values() if inspect.isfunction(one)]
    pauses: tuple[Callable[[object], bool], ...] = (
        inspect.isgeneratorfunction,
        inspect.iscoroutinefunction,
        inspect.isasyncgenfunction,
    )
    return {
        one.__code__: f"{of.__name__.removeprefix('gpuyard.extender.')}.{one.__qualname__}"
        for one in functions
        if one.__module__ == of.__name__ and any(is_one(one) for is_one in pauses)
    }


def gone_through(size: Size) -> set[CodeType]:
    """The functions that run while all walks are gone."""
    found, yard = set[CodeType](), Yard(size)
    sys.setprofile(lambda frame, _event, _arg: found.add(frame.f_code))
    try:
        for walk in walks(size).values():
            for _ in walk(yard):
                pass
    finally:
        sys.setprofile(None)
    return found


_SLEEPS = "a loop that sleeps between two looks, each of which is gone through"
_ASKS = "pauses only for the API server, after each pod of a plan"
_ELASTIC = "once for each elastic plan: over its promises, the pods of its workloads and those that start next"
NOT_WALKED = {
    "ledger.arrivals.Arrivals.wait": "waits for the watch and does nothing else",
    "ledger.feed.Feed.wait_for_owners": _SLEEPS,
    "ledger.metrics.UnreadableCollector.collect": "counts a handful of kinds",
    "planner.act.elastic_plans.ElasticPlans._bound": _ELASTIC,
    "planner.act.elastic_plans.ElasticPlans._tell": _ASKS,
    "planner.act.elastic_plans.ElasticPlans.look": _ELASTIC,
    "planner.act.elastic_plans.ElasticPlans.run": _SLEEPS,
    "planner.act.execution.Executor._all_others_stay": _ASKS,
    "planner.act.execution.Executor._end": _ASKS,
    "planner.act.execution.Executor._forget": _ASKS,
    "planner.act.execution.Executor._keep": _ASKS,
    "planner.act.execution.Executor._made_anew": _ASKS,
    "planner.act.execution.Executor._put_off": _ASKS,
    "planner.look.capacity.keep_watch": _SLEEPS,
    "planner.look.elastic_room._ahead": _ELASTIC,
    "planner.look.elastic_room.leaving": _ELASTIC,
    "planner.loop.Planner._bar_hopeless": "the verbs have their turn after `A_FEW` pods",
    "planner.loop.Planner.run": _SLEEPS,
    "planner.loop._waiting": "part of the one above, and of `_are_in_line`, which a cluster with plans does not reach",
    "waker.Waker._poke": _ASKS,
    "waker.Waker.run": _SLEEPS,
}


@pytest.mark.row("B-63")
async def test_every_generator_and_coroutine_beside_the_verbs_is_gone_through_or_named_with_the_reason() -> None:
    rooms = (gpuyard.extender.ledger, gpuyard.extender.planner, gpuyard.extender.waker)
    known = {code: name for room in rooms for one in modules(room) for code, name in pausing(one).items()}
    seen = gone_through(SMALL)
    assert sorted(name for code, name in known.items() if code not in seen) == sorted(NOT_WALKED)


# --- garbage


class Piled:
    """Something that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.row("B-64")
def test_no_garbage_is_collected_while_a_verb_is_answered() -> None:
    collected: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        collected.extend([about["generation"]] * (phase == "start"))

    def pile_up() -> list[int]:
        """Make garbage; the generations that were collected meanwhile."""
        collected.clear()
        for _ in range(50_000):
            Piled()
        return list(collected)

    def answer(_: Candidates) -> FilterAnswer:
        return FilterAnswer(error=str(pile_up()))

    body = b'{"Pod":{"metadata":{"name":"a"}}}'
    before = gc.get_threshold()
    gc.set_threshold(100, 1, 1)
    gc.callbacks.append(note)
    try:
        found = decided(Verb("filter", CANDIDATES, answer, lambda why: FilterAnswer(error=why)), body)
        without_a_verb = pile_up()
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert isinstance(found, FilterAnswer)
    assert found.error == "[]"
    assert without_a_verb
    assert gc.isenabled()
