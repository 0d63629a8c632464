"""What users hear."""

from typing import TYPE_CHECKING, cast

from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.result import Gap, Reason, Waiting
from gpuyard.extender.planner.plans import Event
from gpuyard.extender.planner.telling import REASONS, Teller

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
        self.heard.append((f"{regarding.namespace}/{regarding.name}", reason, f"{kind} {action}", note))


def teller() -> tuple[Teller, Ear]:
    ear = Ear()
    return Teller(cast("Recorder", ear)), ear


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
