"""Where room is scarce, the better-ranked go first, as long as they are alive."""

from datetime import UTC, datetime

from gpuyard.extender.outrank import is_scarce, line_up

from tests.extender.builders import Bench, Json, node, pod, queue

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
    turns = line_up(of.ledger.snapshot, of.config.engine)
    of.verbs.outrank.line = tuple(turn for turn in turns if turn is not None)
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
    of.verbs.outrank._free = 4
    assert of.passes(other)


def test_who_was_offered_nodes_a_moment_ago_is_alive() -> None:
    firsts, (other,) = first(4, age=60), second(1)
    of = bench(*firsts, other)
    of.now = 60
    of.verbs.outrank._free = 4
    for one in firsts:
        of.ledger.offer(of.ledger.snapshot.pods[f"ns/{one['metadata']['name']}"], ["n1"], 55)
    assert not of.passes(other)
    of.now = 66
    assert of.passes(other)


def test_when_room_becomes_free_whoever_waits_is_alive() -> None:
    old, firsts, (other,) = pod("old", "second", 4, on="n1"), first(4, age=60), second(1, age=60)
    of = bench(old, *firsts, other)
    of.now = 60
    of.passes(other)
    of.drop(old)
    assert not of.passes(other)


def test_whom_kube_scheduler_never_asks_about_holds_nobody_back() -> None:
    firsts, (other,) = first(4), second(1)
    of = bench(*firsts, other)
    of.verbs.outrank.blocked = {f"ns/{one['metadata']['name']}" for one in firsts}
    assert of.passes(other)


def test_who_could_not_take_the_room_holds_nobody_back() -> None:
    large, elsewhere = waiting("large", "first", 8), waiting("elsewhere", "first", 4, nodeSelector={"zone": "b"})
    (other,) = second(1)
    assert bench(large, elsewhere, other).passes(other)


def test_who_is_over_the_limit_is_not_in_line() -> None:
    (other,) = second(1)
    of = bench(*first(4), other)
    of.put(queue("first", limit=0, quota=4))
    lined_up(of)
    assert of.passes(other)


def test_those_of_one_queue_go_in_their_order() -> None:
    firsts = first(6)
    of = bench(*firsts)
    assert all(of.passes(one) for one in firsts[:4])


def test_room_is_scarce_when_more_is_asked_for_than_is_free() -> None:
    assert not is_scarce(bench(*first(4)).ledger.snapshot)
    assert is_scarce(bench(*first(5)).ledger.snapshot)


def test_who_has_come_since_the_last_look_stands_in_no_line_yet() -> None:
    (late,) = second(1)
    of = bench(*first(3))
    of.put(late)
    assert of.passes(late)
