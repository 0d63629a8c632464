"""What users hear."""

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from gpuyard.common.plans.plan import Event
from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.model.results import Bound, Facts, Gap, NoQueue, Reason, Share, Waiting
from gpuyard.extender.planner.tell.pod_events import REASONS, Teller

from tests.extender.planner.builders import place, plan, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.events import Recorder
    from gpuyard.common.kube.objects import ObjectReference

POD = Pod(key="ns/a", uid="uid-a", shape=Shape(gpus=1))


class Ear:
    """Takes down what is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str, str]] = []

    def emit(self, regarding: "ObjectReference", reason: str, note: str, *, action: str, kind: str = "Normal") -> None:
        assert reason in REASONS
        name = regarding.name if regarding.kind == "Queue" else f"{regarding.namespace}/{regarding.name}"
        self.heard.append((name, reason, f"{kind} {action}", note))


def teller(*queues: str) -> tuple[Teller, Ear]:
    """A teller that knows these queues; all pods are of the first one."""
    ear = Ear()
    return Teller(cast("Recorder", ear), dict.fromkeys(queues, "uid"), lambda _: next(iter(queues), "")), ear


def test_a_victim_hears_for_whom_and_which_plan() -> None:
    tell, ear = teller()
    tell.evicted(plan(), victim("b"))
    assert ear.heard == [("ns/b", "Evicted", "Warning reclaim", "reclaim for ns/a; plan reclaim-1")]


def test_a_moved_pod_hears_whence_and_whither() -> None:
    tell, ear = teller()
    tell.moved(plan(), victim("b"), "n2")
    assert ear.heard[0][:2] == ("ns/b", "Moved")
    assert ear.heard[0][3].startswith("made anew for n2, since it had to leave n1")


def test_a_claimant_hears_that_its_plan_came_to_nothing() -> None:
    tell, ear = teller()
    of = plan(victim("b"), places=[place("a"), place("b", "n2")]).ended(Event.OVERDUE, "nobody took the place", "now")
    tell.withdrawn(of)
    note = "its place on n1 is kept no longer: nobody took the place; plan reclaim-1"
    assert ear.heard == [("ns/a", "PlanWithdrawn", "Warning reclaim", note)]


def test_why_a_pod_waits_is_told_with_its_numbers() -> None:
    tell, ear = teller()
    tell.waits(POD, Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=2, needed=3)))
    assert ear.heard[0][1:3] == ("GangDoesNotFit", "Normal Wait")
    assert "found 2 of 3" in ear.heard[0][3]


BOUND = Bound(queue="q", resource="gpu", kind="limit", bound=2000, used=2000, asked=1000)
SHARE = Share(queue="q", resource="gpu", fair_share=0, quota=2000, allocated=0, asked=1000)


@pytest.mark.parametrize(
    ("reason", "facts", "said"),
    [
        (Reason.OVER_LIMIT, BOUND, "pods wait: queue q has a limit of 2 GPUs"),
        (Reason.RECLAIM_NOT_ALLOWED, SHARE, "pods wait: queue q has a quota of 2 GPUs and may not take more"),
        (
            Reason.QUEUE_DOES_NOT_EXIST,
            NoQueue(label="q", why="orphan", parent="p"),
            "pods wait: queue q hangs below p, which does not exist",
        ),
    ],
)
def test_a_queue_hears_why_its_pods_wait_where_that_is_its_own_affair(reason: Reason, facts: Facts, said: str) -> None:
    tell, ear = teller("q")
    tell.waits(POD, Waiting(reason, facts))
    [_, (name, why, kind, note)] = ear.heard
    assert (name, why, kind) == ("q", reason.value, "Normal Wait")
    assert note.startswith(said)


def test_what_a_queue_hears_has_no_number_of_the_moment_so_that_it_is_one_event() -> None:
    tell, ear = teller("q")
    for used in (1000, 2000):
        tell.waits(POD, Waiting(Reason.OVER_LIMIT, msgspec.structs.replace(BOUND, used=used)))
    assert len({heard[3] for heard in ear.heard if heard[0] == "q"}) == 1


def test_a_queue_hears_nothing_of_what_others_are_the_cause_of() -> None:
    tell, ear = teller("q")
    tell.waits(POD, Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=2, needed=3)))
    tell.waits(POD, Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="unknown", why="unknown")))
    assert {heard[0] for heard in ear.heard} == {"ns/a"}


def test_the_queue_of_a_victim_hears_for_whom_its_pods_leave() -> None:
    tell, ear = teller("lender")
    tell.evicted(plan(), victim("b"))
    note = "pods of it have to leave: reclaim for ns/a; plan reclaim-1"
    assert ear.heard[1] == ("lender", "Evicted", "Warning reclaim", note)


def test_a_queue_hears_that_room_is_made_for_it() -> None:
    tell, ear = teller("team")
    tell.begun(plan(victim("b"), victim("c")))
    note = "room is made for ns/a: 2 to leave by reclaim; plan reclaim-1"
    assert ear.heard == [("team", "ReclaimInProgress", "Normal reclaim", note)]
    tell.begun(plan())
    assert len(ear.heard) == 1
