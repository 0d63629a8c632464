"""What kube-scheduler does not offer is not counted on, for a while."""

from gpuyard.extender.planner.refusals import FORGET, Refusals

TODAY = 1_800_000_000


def test_a_place_that_was_refused_is_not_tried_again_for_a_while() -> None:
    refusals = Refusals()
    refusals.strike("ns/a", "n1", 0)
    refusals.strike("ns/a", "n2", 10)
    assert refusals.offers(11, 10, today=TODAY)["ns/a"].refused == {"n1", "n2"}
    assert refusals.offers(FORGET, 10, today=TODAY)["ns/a"].refused == {"n2"}
    assert refusals.offers(FORGET + 10, 10, today=TODAY) == {}


def test_whom_nobody_asks_about_though_there_is_room_fits_nowhere() -> None:
    refusals = Refusals()
    refusals.count_on({"ns/a": "uid-a"}, set(), 0)
    refusals.count_on({"ns/a": "uid-a"}, set(), 9)
    assert refusals.offers(9, 10, today=TODAY) == {}
    assert refusals.offers(10, 10, today=TODAY)["ns/a"].nodes == frozenset()


def test_after_a_while_it_gets_another_chance() -> None:
    refusals = Refusals()
    refusals.count_on({"ns/a": "uid-a"}, set(), 0)
    assert refusals.offers(FORGET, 10, today=TODAY) == {}


def test_a_word_of_kube_scheduler_or_a_new_pod_begins_anew() -> None:
    refusals = Refusals()
    refusals.count_on({"ns/a": "uid-a", "ns/b": "uid-b"}, set(), 0)
    refusals.count_on({"ns/a": "uid-a", "ns/b": "another"}, {"ns/a"}, 10)
    assert refusals.since("ns/a") is None
    assert refusals.since("ns/b") == 10
    assert refusals.offers(10, 10, today=TODAY) == {}
