"""Where room is scarce: gangs count with all that they start, and what can never start counts not at all."""

from tests.extender.builders import Bench, Json, group, node, pod, queue
from tests.extender.test_precedence import bench, first, lined_up, second, waiting


def gang(name: str, team: str, count: int, gpus: int = 1, **more: object) -> list[Json]:
    marks = {"pod-group-name": name}
    return [waiting(f"{name}-{n}", team, gpus, annotations=marks, **more) for n in range(count)]  # type: ignore[arg-type]


def test_a_gang_has_to_leave_enough_for_who_goes_first_with_all_that_it_starts() -> None:
    members = gang("g", "second", 2)
    of = bench(*first(1), group("g", 2, "second"), *members, gpus=2)
    assert [of.passes(one) for one in members] == [False, False]
    assert set(of.refusals) == {"Outranked"}


def test_a_gang_whose_own_nodes_have_not_enough_room_holds_nobody_back() -> None:
    members = gang("g", "first", 2, nodeSelector={"zone": "b"})
    (other,) = second(1)
    of = Bench(node("n1", 1), node("n2", 1, zone="b"), queue("first", quota=4), queue("second", quota=0))
    of.put(group("g", 2, "first"), *members, other)
    assert lined_up(of).passes(other)


def test_above_its_minimum_a_gang_goes_after_those_of_its_queue_that_wait() -> None:
    members = gang("old", "first", 3, age=90)
    of = bench(group("old", 2, "first"), *members, *first(2))
    assert [of.passes(one) for one in members] == [False, True, False]
    assert of.refusals[-1] == "Outranked"


def test_who_can_never_start_takes_no_turn_of_its_queue() -> None:
    never = [waiting("huge", "even", 9, age=9), waiting("nowhere", "even", 1, age=9, nodeSelector={"zone": "x"})]
    rival, other = waiting("rival", "odd", 4), waiting("other", "even", 4, age=5)
    even = queue("even", quota=10)
    even["spec"]["priority"] = 200
    of = lined_up(Bench(node("n1", 4), even, queue("odd", quota=4), *never, rival, other))
    assert not of.passes(rival)
    assert of.passes(other)


def test_who_would_pass_a_bound_on_the_smaller_gpus_holds_nobody_back_there() -> None:
    """12288 MiB count 0.15 GPUs on the large node, where there is no room, and 0.75 on the small one."""
    memory = "nvidia.com/gpu.memory"
    small, large = node("small", 2, **{memory: "16384"}), node("large", 1, **{memory: "81920"})
    part = waiting("part", "first", 0, annotations={"gpu-memory": "12288"})
    (other,) = second(1, gpus=2)
    first_queue = queue("first", quota=4, limit=0.5)
    of = lined_up(Bench(small, large, first_queue, queue("second", quota=0), pod("x", on="large"), part, other))
    assert not of.passes(part, "small")
    assert of.passes(other, "small")
