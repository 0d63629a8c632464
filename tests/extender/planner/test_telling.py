"""What users hear, and that they hear it once."""

from typing import TYPE_CHECKING, cast

from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.result import Gap, Reason, Waiting
from gpuyard.extender.planner.telling import REASONS, Teller

from tests.extender.planner.builders import plan, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.events import Recorder
    from gpuyard.common.kube.objects import ObjectReference

PODS = {"ns/a": Pod(key="ns/a", uid="uid-a", shape=Shape(gpus=1))}
OVER = {"ns/a": Waiting(Reason.OVER_LIMIT)}


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


def test_why_a_pod_waits_is_told_with_its_numbers() -> None:
    tell, ear = teller()
    tell.waiting(PODS, {"ns/a": Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=2, needed=3))})
    assert ear.heard[0][1:3] == ("GangDoesNotFit", "Normal Wait")
    assert "found 2 of 3" in ear.heard[0][3]


def test_a_cause_is_told_once_however_its_numbers_change() -> None:
    tell, ear = teller()
    for found in (1, 2):
        tell.waiting(PODS, {"ns/a": Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=found, needed=3))})
    assert len(ear.heard) == 1


def test_another_cause_or_another_pod_of_the_name_is_told_anew() -> None:
    tell, ear = teller()
    tell.waiting(PODS, OVER)
    tell.waiting(PODS, {"ns/a": Waiting(Reason.FRAGMENTED)})
    tell.waiting({"ns/a": Pod(key="ns/a", uid="new", shape=Shape(gpus=1))}, {"ns/a": Waiting(Reason.FRAGMENTED)})
    assert [one[1] for one in ear.heard] == ["OverLimit", "Fragmented", "Fragmented"]


def test_who_waits_again_hears_again() -> None:
    tell, ear = teller()
    for waiting in (OVER, {}, OVER):
        tell.waiting(PODS, waiting)
    assert len(ear.heard) == 2
