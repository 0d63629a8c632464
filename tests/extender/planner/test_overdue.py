"""Who should have left long ago, on a machine whose clock may jump."""

import pytest
from gpuyard.engine.model import STUCK_AFTER, Pod, Shape, State
from gpuyard.extender.planner.look.overdue import OverduePods

TODAY = 1_800_000_000
HOUR = 3600


def pod(name: str = "p", *, due: int = TODAY) -> Pod:
    key, uid = f"ns/{name}", f"uid-{name}"
    return Pod(key=key, uid=uid, shape=Shape(gpus=1), state=State.TERMINATING, node="n1", deleted_at=due)


def watched(*pods: Pod, at: float = 0) -> OverduePods:
    """Who is watched leaving since then, and nobody was before."""
    made = OverduePods()
    made.look((), at)
    made.look(pods, at)
    return made


@pytest.mark.parametrize(("after", "stuck"), [(STUCK_AFTER, False), (STUCK_AFTER + 1, True)])
def test_who_has_been_watched_for_too_long_is_stuck(after: int, *, stuck: bool) -> None:
    of = watched(pod())
    of.look([pod()], after / 2)
    assert of.is_stuck(pod(), after, TODAY + after) is stuck


def test_a_clock_that_jumps_makes_nobody_stuck() -> None:
    assert not watched(pod()).is_stuck(pod(), 1, TODAY + HOUR)


def test_who_has_time_left_by_the_clock_on_the_wall_is_not_stuck() -> None:
    assert not watched(late := pod(due=TODAY + HOUR)).is_stuck(late, HOUR, TODAY + HOUR)


def test_of_those_who_are_leaving_at_first_the_clock_on_the_wall_tells() -> None:
    of = OverduePods()
    of.look([pod()], 7)
    assert of.is_stuck(pod(), 7, TODAY + HOUR)


def test_who_has_not_been_seen_leaving_yet_is_not_stuck() -> None:
    assert not OverduePods().is_stuck(pod(), 1, TODAY + HOUR)
    assert not watched().is_stuck(pod(), 1, TODAY + HOUR)


def test_who_only_looks_stuck_is_due_to_leave_by_now() -> None:
    old, new = pod("old"), pod("new")
    of = watched(old)
    of.look([old, new], HOUR)
    found = list(of.in_time([old, new, pod("soon", due=TODAY + HOUR)], HOUR, TODAY + HOUR))
    assert [(one.key, one.deleted_at) for one in found] == [("ns/new", TODAY + HOUR)]
