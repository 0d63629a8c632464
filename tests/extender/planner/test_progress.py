"""How far a plan has come, from the pods as they are."""

import pytest
from gpuyard.common.plans.plan import Plan
from gpuyard.engine.model import Pod, Shape, State
from gpuyard.engine.placing.scratch import is_stuck
from gpuyard.extender.planner.look.progress import NONE_TAKEN, Progress, Taken, progress
from msgspec.structs import replace

from tests.extender.planner.builders import known, place, plan, victim

SINCE = 1000


def pod(name: str, on: str = "", *, state: State | None = None, uid: str = "", **more: object) -> Pod:
    stands = State.RUNNING if on else State.PENDING
    made: dict[str, object] = {"shape": Shape(gpus=1), "node": on, "created": SINCE, **more}
    return Pod(key=f"ns/{name}", uid=uid or f"uid-{name}", state=state or stands, **made)  # type: ignore[arg-type]


def look(of: Plan, *pods: Pod, now: int = SINCE, before: Taken = NONE_TAKEN, queue: str = "") -> Progress:
    at: dict[str, tuple[Pod, ...]] = {}
    for one in pods:
        if one.holds:
            at[one.node] = (*at.get(one.node, ()), one)
    by_key = {one.key: one for one in pods}
    return progress(of, by_key, at, SINCE, lambda pod: is_stuck(pod, now), lambda _: queue, before)


def names(found: object) -> list[str]:
    return [one.pod.removeprefix("ns/") for one in found]  # type: ignore[attr-defined]


RECLAIM = plan(victim("b"), victim("c"), places=[place("a")])


def test_at_first_everybody_is_due_and_every_place_is_open() -> None:
    found = look(RECLAIM, pod("a"), pod("b", "n1"), pod("c", "n1"))
    assert (names(found.left), names(found.due), names(found.open)) == (["b", "c"], ["b", "c"], ["a"])
    assert found.claimed


def test_who_was_told_or_is_terminating_is_left_but_not_due() -> None:
    told = plan(victim("b"), victim("c"), places=[place("a")], evicted=["b"])
    found = look(told, pod("a"), pod("b", "n1"), pod("c", "n1", state=State.TERMINATING))
    assert (names(found.left), names(found.due)) == (["b", "c"], [])


def test_a_later_pod_of_the_same_name_is_not_the_victim() -> None:
    assert look(RECLAIM, pod("a"), pod("b", "n1", uid="new")).left == ()


def test_who_should_have_been_gone_long_ago_is_stuck() -> None:
    slow = pod("b", "n1", state=State.TERMINATING, deleted_at=SINCE)
    assert names(look(RECLAIM, pod("a"), slow, now=SINCE + 121).stuck) == ["b"]
    assert look(RECLAIM, pod("a"), slow, now=SINCE + 120).stuck == ()


def test_a_place_is_taken_once_its_pod_stands_wherever_that_is() -> None:
    assert look(RECLAIM, pod("a", "n7")).open == ()


def test_a_later_pod_of_the_same_name_is_not_the_claimant() -> None:
    of = plan(victim("b"), places=[known(place("a"))])
    assert names(look(of, pod("a"), pod("b", "n1")).open) == ["a"]
    assert not look(of, pod("a", uid="later"), pod("b", "n1")).claimed
    assert not look(of, pod("a", "n1", uid="later"), pod("b", "n1")).claimed


def test_a_later_pod_of_the_same_name_inherits_from_its_like() -> None:
    of = plan(places=[known(place("a", owner="set"))])
    assert names(look(of, pod("a", uid="later", owner="set")).open) == ["a"]
    other = pod("a", uid="later", owner="set", shape=Shape(gpus=2))
    assert not look(of, other).claimed


def test_a_claimant_that_is_gone_claims_nothing() -> None:
    found = look(RECLAIM, pod("b", "n1"))
    assert (found.open, found.claimed) == ((), False)


def test_another_pod_of_the_same_owner_inherits() -> None:
    owned = plan(places=[place("a", owner="job")])
    assert names(look(owned, pod("a2", owner="job")).open) == ["a"]
    assert look(owned, pod("a2", "n1", owner="job")).open == ()


@pytest.mark.row("X-07", case="name")
@pytest.mark.row("X-07", case="owner")
def test_a_pod_in_another_queue_inherits_neither_by_its_name_nor_by_its_owner() -> None:
    owned = plan(places=[place("a", owner="job")])
    assert not look(owned, pod("a"), queue="other").claimed
    assert not look(owned, pod("a2", owner="job"), queue="other").claimed
    assert not look(owned, pod("a2", "n1", owner="job"), queue="other").taken


@pytest.mark.row("X-07", case="owner")
def test_a_pod_of_another_namespace_that_names_the_same_owner_does_not_inherit() -> None:
    owned = plan(places=[place("a", owner="job")])
    stranger = replace(pod("a2", "n1", owner="job"), key="elsewhere/a2")
    assert not look(owned, stranger).taken


def test_an_older_pod_of_the_owner_has_a_place_already() -> None:
    owned = plan(places=[place("a", owner="job")])
    found = look(owned, pod("a"), pod("a0", "n1", owner="job", created=SINCE - 1))
    assert names(found.open) == ["a"]


def test_nobody_takes_two_places() -> None:
    owned = plan(places=[place("a", owner="job"), place("b", owner="job")])
    found = look(owned, pod("a"), pod("b"), pod("c", "n1", owner="job"))
    assert len(found.open) == 1


def test_the_place_of_who_is_moved_stays_until_he_is_back() -> None:
    move = plan(victim("b"), places=[place("a"), place("b", "n2")])
    assert names(look(move, pod("a", "n1"), pod("b", "n1")).open) == ["b"]
    assert names(look(move, pod("a", "n1")).open) == ["b"]
    assert names(look(move, pod("a", "n1"), pod("b", uid="new")).open) == ["b"]
    assert look(move, pod("a", "n1"), pod("b", "n2", uid="new")).open == ()


def test_who_has_come_back_and_is_sent_away_by_another_plan_is_not_waited_for_again() -> None:
    move = plan(victim("b"), places=[place("a"), place("b", "n2")], evicted=["b"])
    came = look(move, pod("a"), pod("b", "n2", uid="new"))
    again = look(move, pod("a"), before=came.taken)
    assert (names(came.open), names(again.open)) == (["a"], ["a"])
    assert (set(came.deserted), set(again.deserted)) == (set(), {"ns/b"})


TWO = plan(victim("x"), victim("y"), places=[place("x", "n2", owner="job"), place("y", "n2", owner="job")])


def test_the_place_of_who_came_and_went_again_is_not_taken_by_the_next_one() -> None:
    came = look(TWO, pod("x2", "n2", owner="job"))
    assert names(came.open) == ["y"]
    assert look(TWO, pod("y2", "n2", owner="job"), before=came.taken).open == ()


def test_who_comes_back_under_his_name_takes_his_own_place_and_nobody_elses() -> None:
    found = look(TWO, pod("y", "n2", uid="new", owner="job"))
    assert names(found.open) == ["x"]


def test_a_plan_for_nobody_needs_no_claim() -> None:
    assert look(plan(victim("b")), pod("b", "n1")).claimed
