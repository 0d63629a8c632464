"""Where room is scarce, the better-ranked go first, as long as they are alive."""

from datetime import UTC, datetime

import pytest
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.ledger import Grant
from gpuyard.extender.precedence.free_room import is_scarce
from gpuyard.extender.precedence.precedence import FEW
from msgspec.structs import replace

from tests.extender.builders import Bench, Json, group, node, pod, queue

TODAY = 1_800_000_000


def born(seconds_ago: float) -> str:
    return datetime.fromtimestamp(TODAY - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(name: str, queue: str, gpus: int = 1, *, age: float = 0, **more: object) -> Json:
    return pod(name, queue, gpus, created=born(age), **more)  # type: ignore[arg-type]


def first(count: int, **more: object) -> list[Json]:
    return [waiting(f"first-{number}", "first", **more) for number in range(count)]  # type: ignore[arg-type]


def second(count: int, **more: object) -> list[Json]:
    return [waiting(f"second-{number}", "second", **more) for number in range(count)]  # type: ignore[arg-type]


def bench(*things: Json, gpus: int = 4) -> Bench:
    """Four GPUs, and two queues of which the first has a quota."""
    return lined_up(Bench(node("n1", gpus), queue("first", quota=4), queue("second", quota=0), *things))


def lined_up(of: Bench) -> Bench:
    """The planner has looked."""
    for _ in of.verbs.precedence.line_up(of.ledger.snapshot, of.config.engine):
        pass
    return of


def test_whoever_is_asked_first_waits_for_who_ranks_first() -> None:
    firsts, seconds = first(4), second(4)
    of = bench(*firsts, *seconds)
    assert not any(of.passes(one) for one in seconds)
    assert set(of.refusals) == {"Outranked"}
    assert all(of.passes(one) for one in firsts)


def test_the_refusal_is_the_same_sentence_each_time() -> None:
    seconds = second(4)
    of = bench(*first(4), *seconds)
    texts = {text for one in seconds for text in of.filter(one).failed_and_unresolvable_nodes.values()}
    assert texts == {"others rank before it"}


def test_with_enough_for_all_nobody_is_held_back() -> None:
    seconds = second(4)
    of = bench(*first(4), *seconds, gpus=8)
    assert all(of.passes(one) for one in seconds)


def test_what_the_better_ranked_leave_goes_to_the_others() -> None:
    seconds = second(4)
    of = bench(*first(3), *seconds)
    assert [of.passes(one) for one in seconds] == [True, False, False, False]


def test_who_waits_for_long_without_being_offered_anything_holds_nobody_back() -> None:
    (other,) = seconds = second(1)
    of = bench(*first(4, age=60), *seconds)
    of.now = 60  # the room has been free for long
    of.verbs.precedence._free = 4
    assert of.passes(other)


def test_who_was_offered_nodes_a_moment_ago_is_alive() -> None:
    firsts, (other,) = first(4, age=60), second(1)
    of = bench(*firsts, other)
    of.now = 60
    of.verbs.precedence._free = 4
    for one in firsts:
        of.ledger.offer(of.ledger.snapshot.pods[f"ns/{one['metadata']['name']}"], ["n1"], 55)
    assert not of.passes(other)
    of.now = 66
    assert of.passes(other)


@pytest.mark.row("X-08", case="rank")
def test_where_anybody_may_call_to_have_been_offered_nodes_is_no_sign_of_life() -> None:
    firsts, (other,) = first(4, age=60), second(1)
    of = bench(*firsts, other)
    of.ledger.callers_are_known = False
    of.now = 60
    of.verbs.precedence._free = 4
    for one in firsts:
        of.ledger.offer(of.ledger.snapshot.pods[f"ns/{one['metadata']['name']}"], ["n1"], 55)
    assert of.passes(other)


def test_when_room_becomes_free_whoever_waits_is_alive() -> None:
    old, firsts, (other,) = pod("old", "second", 4, on="n1"), first(4, age=60), second(1, age=60)
    of = bench(old, *firsts, other)
    of.now = 60
    of.passes(other)
    of.drop(old)
    assert not of.passes(other)


@pytest.mark.parametrize("age", [0, 60])
def test_room_that_kube_scheduler_sees_before_us_goes_to_who_ranks_first_too(age: int) -> None:
    leaving = pod("old", "", 1, on="n1")
    leaving["metadata"] |= {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    (one,), (other,) = first(1, age=age), second(1, age=age)
    of = bench(leaving, one, other, gpus=1)
    of.now = age
    assert not of.passes(other), "kube-scheduler offers the node: it knows that the old one has gone"
    assert of.passes(one)


def leaving(on: str) -> Json:
    """A pod with one GPU that is on its way out."""
    old = pod("old", "", 1, on=on)
    old["metadata"] |= {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    return old


def test_a_node_that_somebody_leaves_has_no_room_for_parts_of_gpus_because_it_is_offered() -> None:
    """kube-scheduler does not count those, so that it offers every node."""
    (one,), half = first(1), waiting("half", "second", 0, annotations={"gpu-fraction": "0.5"})
    of = Bench(
        node("n1", 1), node("n2", 1), queue("first", quota=4), queue("second", quota=0), leaving("n2"), one, half
    )
    assert not lined_up(of).filter(half, "n1", "n2").node_names
    assert of.filter(one, "n1").node_names


def test_a_node_that_somebody_leaves_has_no_room_because_of_a_place_that_is_kept_there() -> None:
    """kube-scheduler does not know that it is kept, and offers it."""
    (one,), (other,), member = first(1), second(1), waiting("member", "first")
    of = Bench(node("n1", 1), node("n2", 2), queue("first", quota=4), queue("second", quota=0), leaving("n2"))
    of.put(one, other, member)
    of.ledger.promise("ns/member", Grant("n2"), now=0, until=60)
    assert not lined_up(of).filter(other, "n1", "n2").node_names
    assert of.filter(one, "n1").node_names


def test_what_is_promised_of_the_room_that_somebody_leaves_is_taken_from_there() -> None:
    one, other = second(2)
    of = Bench(node("n1", 2), node("n2", 1), queue("first", quota=4), queue("second", quota=0), leaving("n2"))
    of.put(*first(1), one, other)
    of.ledger.put_promises([Promise(plan="plan", pod="ns/heir", shape=Shape(gpus=1), node="n2", queue="first")])
    lined_up(of)
    assert not of.filter(other, "n1", "n2").node_names
    assert of.filter(one, "n1", "n2").node_names == ["n1"]


def test_for_whom_room_is_kept_elsewhere_holds_nobody_back() -> None:
    """What is kept is taken off what is free already."""
    (heir,), (other,) = first(1), second(1)
    of = Bench(node("n1", 1), node("n2", 1), queue("first", quota=4), queue("second", quota=0), leaving("n1"))
    of.put(heir, other)
    assert not lined_up(of).filter(other, "n2").node_names
    of.ledger.put_promises([Promise(plan="plan", pod="ns/first-0", shape=Shape(gpus=1), node="n1", queue="first")])
    assert lined_up(of).filter(other, "n2").node_names == ["n2"]


@pytest.mark.parametrize("event", ["nothing", "somebody comes", "somebody ends", "the planner looks"])
def test_those_who_are_on_their_way_leave_no_room_for_who_ranks_after_others(event: str) -> None:
    firsts, (other,), busy = first(4), second(1), pod("busy", "second", on="n2")
    of = bench(*firsts, other, node("n2", 1), busy)
    assert all(of.filter(one, "n1").node_names for one in firsts[:2])
    if event == "somebody comes":
        of.put(waiting("late", "second"))
    elif event == "somebody ends":
        of.put(gone := pod("gone", "second", 0, on="n1"))
        of.drop(gone)
    elif event == "the planner looks":
        lined_up(of)
    assert not of.filter(other, "n1").node_names
    assert all(of.filter(one, "n1").node_names for one in firsts[2:])


def test_whom_kube_scheduler_never_asks_about_holds_nobody_back() -> None:
    firsts, (other,) = first(4), second(1)
    of = bench(*firsts, other)
    of.verbs.precedence.blocked = {f"ns/{one['metadata']['name']}" for one in firsts}
    assert of.passes(other)


def test_who_could_not_take_the_room_holds_nobody_back() -> None:
    large, elsewhere = waiting("large", "first", 8), waiting("elsewhere", "first", 4, nodeSelector={"zone": "b"})
    (other,) = second(1)
    assert bench(large, elsewhere, other).passes(other)


def test_a_gang_for_which_there_is_not_enough_room_in_all_holds_nobody_back() -> None:
    members = [waiting(f"m{n}", "first", 2, annotations={"pod-group-name": "g"}) for n in range(2)]
    (other,) = second(1)
    assert bench(group("g", 2, "first"), *members, other, gpus=3).passes(other)
    assert not bench(group("g", 2, "first"), *members, other, gpus=4).passes(other)


def test_who_is_over_the_limit_is_not_in_line() -> None:
    (other,) = second(1)
    of = bench(*first(4), other)
    of.put(queue("first", limit=0, quota=4))
    lined_up(of)
    assert of.passes(other)


def test_who_comes_within_its_limit_when_another_ends_stands_in_line_at_once() -> None:
    old, (other,) = pod("old", "first", 4, on="n1"), second(1)
    of = Bench(node("n1", 4), queue("first", limit=4, quota=4), queue("second", quota=0), old, *first(5), other)
    assert of.passes(other), "the first queue is at its limit"
    of.ledger.lapse("ns/second-0", "uid-second-0")
    of.drop(old)
    assert not of.passes(other)


def test_those_of_one_queue_go_in_their_order() -> None:
    firsts = first(6)
    of = bench(*firsts)
    assert all(of.passes(one) for one in firsts[:4])


def test_room_is_scarce_when_more_is_asked_for_than_is_free() -> None:
    assert not is_scarce(bench(*first(4)).ledger.snapshot)
    assert is_scarce(bench(*first(5)).ledger.snapshot)


def test_where_few_wait_who_has_come_since_the_last_look_stands_in_line_at_once() -> None:
    (early,) = second(1)
    of = bench(early)
    of.put(*(firsts := first(4)))
    assert not of.passes(early)
    assert all(of.passes(one) for one in firsts)


def crowd(*more: Json, gpus: int = 20) -> Bench:
    """More than are lined up within an answer: 20 of each queue, while the planner looks once."""
    return bench(*first(20, age=5), *second(20, age=5), *more, gpus=gpus)


def test_in_a_crowd_who_has_come_waits_for_all_in_line_until_the_next_look() -> None:
    of = crowd(queue("idle", quota=40), gpus=20)
    better = waiting("better", "second", labels={"priorityClassName": "build-preemptible"})
    of.put(better, one := waiting("one", "idle"))
    assert not of.passes(better)
    assert not of.passes(one)
    assert set(of.refusals) == {"Outranked"}
    lined_up(of)
    assert of.passes(better)
    assert of.passes(one)


def test_in_a_crowd_with_room_for_all_in_line_who_has_come_goes_at_once() -> None:
    of = Bench(node("n1", 8), queue("first", quota=4, limit=4), queue("second", quota=0), *first(20))
    lined_up(of).put(*(come := second(5)))
    assert [of.passes(one) for one in come] == [True, True, True, True, False]


def test_in_a_crowd_who_was_over_its_limit_has_its_place_when_another_of_its_queue_ends() -> None:
    old = pod("old", "full", on="n1")
    of = Bench(node("n1", 20), queue("full", quota=2, limit=1), queue("second", quota=0), old)
    of.put(over := waiting("over", "full", age=5), *second(20))
    lined_up(of).drop(old)
    assert of.passes(over)


def test_in_a_crowd_a_gang_has_its_place_until_the_last_of_those_who_start_together() -> None:
    members = [waiting(f"m{n}", "first", age=9, annotations={"pod-group-name": "g"}) for n in range(3)]
    of = crowd(group("g", 3, "first"), *members, gpus=20)
    assert [of.passes(one) for one in (*members, *members)][3:] == [True] * 3


def test_when_room_becomes_scarce_a_few_are_lined_up_at_once_and_many_by_the_planner() -> None:
    for each, goes in ((FEW // 2, False), (FEW, True)):
        of = Bench(node("n1", each), queue("first", quota=each), queue("second", quota=0), *first(each), *second(each))
        assert of.passes(waiting("second-0", "second")) is goes
        of.ledger.lapse("ns/second-0", "uid-second-0")
        assert not lined_up(of).passes(waiting("second-0", "second"))


def test_where_few_wait_nobody_is_lined_up_anew_for_a_pod_that_takes_nothing_from_anybody() -> None:
    (other,), plain = second(1), pod("plain", "", 0, on="n1")
    of = bench(*first(4), other, plain)
    assert not of.passes(other)
    line = of.verbs.precedence._line
    of.drop(plain)
    assert not of.passes(other)
    assert of.verbs.precedence._line is line


def test_in_a_crowd_who_is_gone_holds_nobody_back() -> None:
    of = crowd(gpus=20)
    late = pod("second-19", "second", created=born(5))
    assert not of.passes(late)
    of.drop(*first(20))
    assert of.passes(late)


def test_what_happens_while_a_line_is_made_is_not_lost() -> None:
    of = crowd(gpus=20)
    steps = of.verbs.precedence.line_up(of.ledger.snapshot, of.config.engine)
    for _ in range(30):
        next(steps)
    of.drop(*first(20))
    late = pod("second-19", "second", created=born(5))
    assert of.passes(late), "the old line knows"
    of.ledger.lapse("ns/second-19", "uid-second-19")
    for _ in steps:
        pass
    assert of.passes(late), "and so does the new one"


def test_a_look_that_is_broken_off_leaves_the_line_as_it_was() -> None:
    of = crowd(gpus=20)
    steps = of.verbs.precedence.line_up(of.ledger.snapshot, of.config.engine)
    next(steps)
    steps.close()
    assert not of.passes(pod("second-19", "second", created=born(5)))
    assert of.passes(pod("first-19", "first", created=born(5)))


def test_parts_of_gpus_are_asked_for_as_well() -> None:
    halves = [waiting(f"half-{n}", "first", 0, annotations={"gpu-fraction": "0.5"}) for n in range(8)]
    (other,) = second(1)
    of = bench(*halves, other)
    assert not of.passes(other)
    assert bench(*halves[:6], other).passes(other)


def test_parts_go_first_to_gpus_that_others_share_already() -> None:
    on = {"annotations": {"gpu-fraction": "0.5"}, "labels": {"runai-gpu-group": "g"}}
    halves = [waiting(f"half-{n}", "first", 0, annotations={"gpu-fraction": "0.5"}) for n in range(6)]
    (other,) = second(1)
    of = bench(pod("shares", "second", 0, on="n1", **on), *halves[:5], other)  # type: ignore[arg-type]
    assert of.passes(other), "three GPUs are free, of which those who share need two"
    assert not lined_up(bench(pod("shares", "second", 0, on="n1", **on), *halves[:6], other)).passes(other)  # type: ignore[arg-type]


def test_of_too_many_changes_nothing_is_followed_until_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.extender.ledger.ledger.TOUCHED", 30)
    of, late = crowd(gpus=20), waiting("second-19", "second", age=5)
    of.put(*(waiting(f"more-{n}", "second", age=4) for n in range(31)))
    assert of.passes(late)
    of.ledger.lapse("ns/second-19", "uid-second-19")
    assert not lined_up(of).passes(late)


def test_its_own_reservation_does_not_stand_in_its_way() -> None:
    (other,) = second(1)
    of = bench(*first(3), other)
    assert [of.passes(other) for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_wall_clock_that_jumps_neither_revives_nor_kills_anybody_in_line(seconds: int) -> None:
    of, late = crowd(gpus=20), waiting("second-19", "second", age=5)
    assert not of.passes(late)
    of.today += seconds
    of.now += 1
    assert not of.passes(late)
    assert of.passes(waiting("first-19", "first", age=5))


# --- preempt ---

LOW, HIGH = {"labels": {"priorityClassName": "train"}}, {"labels": {"priorityClassName": "build-preemptible"}}


def full(*things: Json, gpus: int = 4) -> Bench:
    """A node that a pod of the second queue has to itself; one of higher priority in that queue may take it."""
    return bench(pod("low", "second", gpus, on="n1", **LOW), *things, gpus=gpus)  # type: ignore[arg-type]


def clears(of: Bench, gpus: int = 4, **more: object) -> bool:
    """Whether the low pod is evicted for one that has just come."""
    claimant = waiting("urgent", "second", gpus, **HIGH | more)  # type: ignore[arg-type]
    return bool(of.preempt(claimant, {"n1": {"Pods": [{"UID": "uid-low"}]}}).node_name_to_meta_victims)


def test_nobody_is_evicted_for_room_that_would_go_to_who_ranks_first() -> None:
    assert clears(full())
    assert not clears(full(*first(1)))


def test_with_room_for_both_where_the_victim_stood_it_goes() -> None:
    assert not clears(full(*first(3), gpus=4), gpus=2)
    assert clears(full(*first(2), gpus=4), gpus=2)


def test_who_ranks_after_it_hinders_nobody_from_making_room() -> None:
    assert clears(full(*second(1, **LOW)))


def test_who_has_not_been_offered_anything_for_long_hinders_nobody_from_making_room() -> None:
    of = full(*first(1, age=60))
    of.now, of.verbs.precedence._freed = 60, 0
    assert clears(of)


def test_for_whom_victims_left_already_more_may_leave() -> None:
    assert clears(full(*first(1)), status={"phase": "Pending", "nominatedNodeName": "n1"})


def test_where_nobody_is_outranked_by_setting_nobody_is_when_room_is_made() -> None:
    of = full(*first(1))
    of.config = replace(of.config, outrank=replace(of.config.outrank, grace=0))
    assert clears(of)


@pytest.mark.parametrize(
    "other",
    [
        waiting("elsewhere", "first", nodeSelector={"zone": "b"}),
        waiting("large", "first", 8),
        waiting("shared", "first", 0, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "8"}),
    ],
    ids=lambda other: str(other["metadata"]["name"]),
)
def test_who_could_not_take_the_room_hinders_nobody_from_making_it(other: Json) -> None:
    assert clears(full(other))


def test_a_gang_hinders_others_from_making_room_only_where_there_is_enough_for_all_of_it() -> None:
    members = [waiting(f"m{n}", "first", 4, annotations={"pod-group-name": "g"}) for n in range(2)]
    of = full(group("g", 2, "first"), *members)
    assert clears(of)
    of.ledger.lapse("ns/urgent", "uid-urgent")
    of.put(node("n2", 4))
    assert not clears(lined_up(of))


def test_a_part_of_a_gpu_would_be_taken_as_well() -> None:
    half = waiting("half", "first", 0, annotations={"gpu-fraction": "0.5"})
    assert not clears(full(half))
    assert clears(full(half), gpus=3)
