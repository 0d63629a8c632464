"""Plan objects that have ended go after a while, a few at a time."""

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from gpuyard.common.extender_config import Keep
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.objects import Meta
from gpuyard.common.plans.plan import Event, Kept, Plan
from gpuyard.common.plans.store import Store
from gpuyard.common.settings import Span
from gpuyard.engine.kube.times import written
from gpuyard.extender.planner.act.pruning import AT_ONCE, INTERVAL, Pruner, surplus

from tests.extender.planner.builders import Api, error, plan

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

TODAY = 1_800_000_000
PLANS = "/apis/gpuyard.io/v1alpha1/plans"


def ended(name: str, ago: int) -> Plan:
    return under_way(name).ended(Event.SETTLED, "done", written(TODAY - ago))


def under_way(name: str) -> Plan:
    return msgspec.structs.replace(plan(), metadata=Meta(name=name, uid=f"uid-{name}"))


def gone(keep: Keep, *plans: Plan) -> list[str]:
    return [one.name for one in surplus({one.name: one for one in plans}, keep, TODAY)]


class Shelf:
    """An API server with plans, and whoever prunes them."""

    def __init__(self, *plans: Plan) -> None:
        self.api = Api()
        self.known = {one.name: one for one in plans}
        for one in plans:
            self.api.put(f"{PLANS}/{one.name}", msgspec.to_builtins(one))
        self.pruner = Pruner(Store(cast("Client", self.api)), lambda: self.known)

    async def look(self, now: float, keep: Keep | None = None) -> list[str]:
        """What is there after one look."""
        await self.pruner.look(keep or Keep(count=0), now, TODAY)
        return sorted(path.rpartition("/")[2] for path in self.api.objects)


@pytest.mark.row("B-75", case="number")
def test_the_oldest_of_too_many_go() -> None:
    assert gone(Keep(count=2), ended("a", 30), ended("b", 10), ended("c", 20), under_way("d")) == ["a"]
    assert gone(Keep(count=0), ended("a", 30), ended("b", 10)) == ["b", "a"]


@pytest.mark.row("B-75", case="age")
def test_those_that_are_too_old_go_however_few_they_are() -> None:
    assert gone(Keep(age=Span(20)), ended("old", 21), ended("new", 20)) == ["old"]


@pytest.mark.row("B-75", case="age")
def test_one_that_does_not_say_when_it_ended_is_old() -> None:
    assert gone(Keep(), under_way("odd").with_status(state="Kept")) == ["odd"]


def test_a_plan_under_way_stays_however_old_it_is() -> None:
    assert gone(Keep(count=0, age=Span(1)), under_way("a")) == []


@pytest.mark.row("B-75", case="bounded")
async def test_a_few_go_at_each_look() -> None:
    shelf = Shelf(*(ended(f"p-{number}", number) for number in range(AT_ONCE + 2)))
    assert await shelf.look(0) == ["p-0", "p-1"], "the oldest go first"
    assert await shelf.look(1) == []


@pytest.mark.row("B-75", case="bounded")
async def test_it_looks_for_more_once_a_minute() -> None:
    shelf = Shelf(ended("a", 1))
    assert await shelf.look(0) == []
    later = Shelf(ended("b", 1))
    shelf.known, shelf.api.objects = later.known, later.api.objects
    assert await shelf.look(INTERVAL - 1) == ["b"]
    assert await shelf.look(INTERVAL) == []


async def test_one_that_is_gone_or_was_written_anew_is_not_missed() -> None:
    shelf = Shelf(ended("gone", 1), ended("again", 2))
    del shelf.api.objects[f"{PLANS}/gone"]
    shelf.api.objects[f"{PLANS}/again"]["metadata"]["uid"] = "another"
    assert await shelf.look(0) == ["again"]


async def test_one_that_cannot_be_deleted_is_tried_again() -> None:
    shelf = Shelf(ended("a", 1))
    shelf.api.errors["delete", f"{PLANS}/a"] = error(500, "InternalError")
    with pytest.raises(ApiError):
        await shelf.look(0)
    shelf.api.errors.clear()
    assert await shelf.look(1) == []


def kept_of_a_moved_pod(name: str, ago: int) -> Plan:
    """A plan that ended while the spec of a moved pod was still kept beside it."""
    one = ended(name, ago)
    kept = (Kept(uid="uid-x", revision="uid-r", digest="d"),)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, kept=kept))


@pytest.mark.row("B-75", case="moved")
def test_one_by_which_a_moved_pod_can_be_created_again_stays() -> None:
    assert gone(Keep(count=0, age=Span(1)), kept_of_a_moved_pod("moved", 1000), ended("old", 1000)) == ["old"]


@pytest.mark.row("B-75", case="others")
def test_plans_of_other_writers_do_not_push_ours_out() -> None:
    theirs = [ended(f"elastic-{n}", n) for n in range(3)]
    theirs = [msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, phase="elastic")) for one in theirs]
    assert gone(Keep(count=1), *theirs, ended("ours", 100)) == ["elastic-1", "elastic-2"]


@pytest.mark.row("B-75", case="age")
def test_a_time_that_cannot_be_read_is_old() -> None:
    one = ended("odd", 0)
    odd = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, finished="0001-01-01T00:00:00Z"))
    assert gone(Keep(), odd, ended("new", 1)) == ["odd"]
