"""The line of those who wait: what is asked for before any place in it, at each event."""

import random

from gpuyard.engine.model import GPU, Pod, Shape
from gpuyard.extender.precedence.waiting_line import AT_ONCE, Demand, Line, demand


def pod(name: str, gpus: int = 1, fraction: int = 0) -> Pod:
    return Pod(key=name, workload=name, shape=Shape(gpus=gpus, fraction=fraction))


def line(*names: str, gpus: int = 1) -> Line:
    """These workloads in line, each with one pod that has its name, none of them alive."""
    made = Line()
    for name in names:
        made.add((name, False), [pod(name, gpus)])
    return made


def ahead(of: Line, name: str, *, alive_only: bool = False, most: int = 8) -> int:
    """The GPUs that are asked for before this workload by requests of at most so many."""
    place = of.place_of((name, False))
    return of.asked_before(place, lambda shape, _: shape.gpus <= most, alive_only=alive_only).whole // GPU


def test_before_each_are_those_who_stand_before_it() -> None:
    assert [ahead(line("a", "b", "c"), name) for name in "abc"] == [0, 1, 2]


def test_requests_that_do_not_fit_are_passed_over() -> None:
    assert ahead(line("a", "b", gpus=4), "b", most=2) == 0


def test_whole_gpus_and_parts_are_told_apart() -> None:
    assert demand([pod("a", 2), pod("b", 0, 500)], 0) == Demand(2 * GPU, 500)


def test_who_leaves_is_asked_for_no_more_and_keeps_its_place() -> None:
    of = line("a", "b", "c")
    of.sign_of_life("b", 5)
    of.leave("b")
    of.leave("nobody")
    assert [ahead(of, name) for name in "abc"] == [0, 1, 1]
    assert ahead(of, "c", alive_only=True) == 0
    assert set(of.pods) == {"a", "c"}


def test_who_asks_for_nothing_has_a_place_as_well() -> None:
    of = line("a", "b")
    of.add(("over its limit", False), [])
    of.add(("c", False), [pod("c")])
    assert [ahead(of, name) for name in ("over its limit", "c")] == [2, 2]


def test_who_has_come_since_stands_behind_all() -> None:
    assert ahead(line("a", "b"), "new") == 2


def test_above_its_minimum_a_gang_has_another_place() -> None:
    of = line("a", "b")
    assert (of.place_of(("a", False)), of.place_of(("a", True))) == (0, 2)


def test_only_who_gave_a_sign_of_life_is_alive_and_not_for_ever() -> None:
    of = line("a", "b", "c")
    of.sign_of_life("a", 5)
    of.sign_of_life("a", 9)
    of.sign_of_life("b", 7)
    of.sign_of_life("b", 6)
    of.sign_of_life("nobody", 8)
    assert ahead(of, "c", alive_only=True) == 2
    of.bury(8)
    assert ahead(of, "c", alive_only=True) == 1
    of.bury(10)
    assert (ahead(of, "c", alive_only=True), ahead(of, "c")) == (0, 2)


def test_of_too_many_who_die_at_once_some_are_buried_later() -> None:
    of = line(*(f"w{number}" for number in range(AT_ONCE + 2)))
    for name in of.pods:
        of.sign_of_life(name, 5)
    last = f"w{AT_ONCE + 1}"
    of.bury(6)
    assert ahead(of, last, alive_only=True) in {1, 2}
    of.bury(6)
    assert ahead(of, last, alive_only=True) == 0


def test_who_is_passed_over_counts_again_afterwards() -> None:
    of = line("a", "b", "c")
    of.sign_of_life("a", 5)
    of.pass_over({"a", "stranger"})
    assert (ahead(of, "c"), ahead(of, "c", alive_only=True)) == (1, 0)
    of.pass_over(frozenset())
    assert (ahead(of, "c"), ahead(of, "c", alive_only=True)) == (2, 1)


def test_the_sums_are_those_of_a_count_one_by_one() -> None:
    chance = random.Random(7)
    names = [f"w{number}" for number in range(60)]
    of, standing, alive, mute = line(*names), dict.fromkeys(names, True), dict[str, int](), set[str]()
    for now in range(400):
        name = chance.choice(names)
        match chance.randrange(4):
            case 0:
                of.leave(name)
                standing.pop(name, None)
                alive.pop(name, None)
            case 1:
                of.sign_of_life(name, now)
                alive |= {name: now} if name in standing else {}
            case 2:
                of.bury(now - 50)
                alive = {one: at for one, at in alive.items() if at >= now - 50}
            case _:
                mute = set(chance.sample(names, 5))
                of.pass_over(frozenset(mute))
        before = [one for one in names if one in standing and one not in mute][:20]
        if len(before) == 20:
            assert ahead(of, before[-1]) == 19
            assert ahead(of, before[-1], alive_only=True) == sum(one in alive for one in before[:-1])
