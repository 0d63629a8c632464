"""What starts and what is evicted together."""

import pytest
from gpuyard.engine.model import Gang, Pod, Shape, State, TopologyConstraint, Workload
from gpuyard.engine.rules.gangs import Stand, Team, evicting_chunk, shortfall, starting_chunk

from tests.engine.builders import Yard, yard


def gang(*args: int, **also: object) -> Yard:
    return yard().nodes(1).queue("a", quota=8).gang("a", *(args or (0,)), name="g", **also)  # type: ignore[arg-type]


def goes_next(some: Yard) -> list[str]:
    """The pods that would be evicted next."""
    scratch = some.cycle(phases=()).scratch
    return [pod.key.removeprefix("ns/") for pod in evicting_chunk(scratch.team("ns/g"), scratch.active)]


def starts_next(some: Yard) -> list[str]:
    """The pods that would start next."""
    scratch = some.cycle(phases=()).scratch
    return [pod.key.removeprefix("ns/") for pod in starting_chunk(scratch.team("ns/g"), scratch.waits)]


def stand(some: Yard) -> Stand:
    return some.cycle(phases=()).scratch.team("ns/g").stand


def nested(**active: int) -> Team:
    """Two racks of which one must stand, each of a leader and at least two workers, with these pods."""
    racks = tuple(
        Gang(name=rack, minimum=2, parts=(Gang(name=f"{rack}l"), Gang(name=f"{rack}w", minimum=2))) for rack in "xy"
    )
    pods = [
        Pod(key=f"ns/{group}{n}", group=group, shape=Shape(gpus=1), state=State.RUNNING)
        for group, many in active.items()
        for n in range(many)
    ]
    return Team(Workload(key="ns/g", gang=Gang(parts=racks)), pods, active)


# --- starting


def test_below_its_minimum_a_gang_starts_with_all_that_is_missing() -> None:
    assert starts_next(gang(4, minimum=3)) == ["g-0", "g-1", "g-2"]


def test_pods_that_run_already_are_not_missing() -> None:
    assert starts_next(gang(5, minimum=3, running=1)) == ["g-1", "g-2"]


def test_at_its_minimum_a_gang_grows_by_one_pod() -> None:
    assert starts_next(gang(4, minimum=2, running=2)) == ["g-2"]


def test_a_gang_with_too_few_pods_starts_with_none() -> None:
    assert starts_next(gang(2, minimum=3)) == []


def test_a_single_pod_that_is_enough_starts() -> None:
    assert starts_next(gang(1)) == ["g"]


def test_the_only_pod_of_a_sub_group_that_needs_two_does_not_start() -> None:
    assert starts_next(gang(parts={"x": (1, 2)})) == []


def test_a_single_pod_that_is_not_enough_alone_does_not_start() -> None:
    assert starts_next(gang(1, minimum=2)) == []


def test_sub_groups_start_together() -> None:
    assert starts_next(gang(parts={"x": (2, 1), "y": (2, 2)})) == ["g-0", "g-2", "g-3"]


def test_a_sub_group_that_stands_is_not_missing() -> None:
    assert starts_next(gang(parts={"x": (1, 1), "y": (2, 2)}, running=1)) == ["g-1", "g-2"]


def test_of_sub_groups_as_many_start_as_must_stand() -> None:
    assert starts_next(gang(parts={"x": (2, 2), "y": (2, 2)}, needs=1)) == ["g-0", "g-1"]


def test_a_gang_whose_sub_group_is_short_starts_with_none() -> None:
    assert starts_next(gang(parts={"x": (2, 2), "y": (1, 2)})) == []


def test_a_gang_that_stands_completes_a_further_sub_group_before_it_grows_the_others() -> None:
    assert starts_next(gang(parts={"x": (3, 2), "y": (2, 2)}, needs=1, running=2)) == ["g-3", "g-4"]


# --- evicting


def test_a_surplus_pod_goes_first_and_alone() -> None:
    assert goes_next(gang(3, minimum=2, running=3)) == ["g-2"]


def test_at_its_minimum_a_gang_goes_as_a_whole_last_pod_first() -> None:
    assert goes_next(gang(3, running=3)) == ["g-2", "g-1", "g-0"]


def test_pods_that_wait_are_not_evicted() -> None:
    assert goes_next(gang(3, minimum=1, running=1)) == ["g-0"]
    assert goes_next(gang(3)) == []


def test_a_surplus_pod_of_a_sub_group_goes_before_any_sub_group() -> None:
    assert goes_next(gang(parts={"x": (3, 2), "y": (2, 2)}, needs=1, running=5)) == ["g-2"]


def test_without_a_surplus_pod_a_surplus_sub_group_goes_together() -> None:
    assert goes_next(gang(parts={"x": (2, 2), "y": (2, 2)}, needs=1, running=4)) == ["g-3", "g-2"]


def test_sub_groups_that_are_all_needed_go_together() -> None:
    assert goes_next(gang(parts={"x": (1, 1), "y": (2, 2)}, running=3)) == ["g-0", "g-2", "g-1"]


def test_what_is_left_of_a_gang_without_one_satisfied_sub_group_goes_together() -> None:
    assert goes_next(gang(parts={"x": (2, 2), "y": (2, 2)}, running=1)) == ["g-0"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({"xl": 1, "xw": 3}, ["xw2"], id="a surplus worker"),
        pytest.param({"xl": 1, "xw": 2, "yl": 1, "yw": 2}, ["yl0", "yw1", "yw0"], id="a surplus rack"),
        pytest.param({"xl": 1, "xw": 2}, ["xl0", "xw1", "xw0"], id="the only rack"),
    ],
)
def test_groups_of_groups_shrink_from_the_inside_out(pods: dict[str, int], expected: list[str]) -> None:
    assert [pod.key.removeprefix("ns/") for pod in evicting_chunk(nested(**pods), lambda _: True)] == expected


# --- where a gang stands


@pytest.mark.parametrize(("running", "expected"), [(1, Stand.BELOW), (2, Stand.EXACT), (3, Stand.ABOVE)], ids=str)
def test_a_gang_stands_below_at_or_above_its_minimum(running: int, expected: Stand) -> None:
    assert stand(gang(3, minimum=2, running=running)) is expected


@pytest.mark.parametrize(("running", "expected"), [(1, Stand.BELOW), (2, Stand.EXACT), (3, Stand.ABOVE)], ids=str)
def test_a_surplus_pod_in_a_sub_group_puts_the_whole_gang_above(running: int, expected: Stand) -> None:
    assert stand(gang(parts={"x": (1, 1), "y": (2, 1)}, running=running)) is expected


# --- is it whole


def test_a_gang_with_enough_pods_is_short_of_nothing() -> None:
    assert shortfall(nested(xl=1, xw=2), lambda _: True) is None


def test_the_first_sub_group_that_is_short_is_named() -> None:
    assert shortfall(nested(xl=1, xw=1), lambda _: True) == (1, 2, "xw")


# --- topologies


def test_a_gang_has_a_topology_if_one_of_its_parts_has() -> None:
    rack = Gang(topology=TopologyConstraint("site", "rack", ""))
    assert rack.has_topology
    assert Gang(parts=(Gang(), Gang(parts=(rack,)))).has_topology
    assert not Gang(parts=(Gang(),)).has_topology
