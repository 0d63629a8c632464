"""What kube-scheduler does not offer is not counted on, for a while."""

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.plans.plan import Event
from gpuyard.engine.kube.times import written
from gpuyard.engine.model import Pod, Shape, State
from gpuyard.extender.ledger import Entry, Phase
from gpuyard.extender.planner.decide.refusals import FORGET, LONGEST, Refusals, recall

from tests.extender.planner.builders import place, plan

TODAY = 1_800_000_000
ENDED = TODAY - 100
GRACE = 10


def known(uid: str = "uid-a", verdict: str | None = None, *, created: int = 0) -> dict[str, Entry]:
    """The ledger's word on a pod that waits."""
    pod = Pod(key="ns/a", uid=uid, shape=Shape(gpus=1), state=State.PENDING, created=created)
    return {"ns/a": Entry(Phase.PENDING, Sighting(pod=pod, verdict=verdict))}


def struck(*moments: float) -> Refusals:
    """A pod to which a place was refused at each of these."""
    refusals = Refusals()
    for number, at in enumerate(moments):
        refusals.strike("ns/a", "uid-a", f"n{number}", at)
    return refusals


def test_a_place_that_was_refused_is_not_tried_again_for_a_while() -> None:
    offer = struck(0).offers(FORGET - 1, GRACE, today=TODAY)["ns/a"]
    assert offer.refused == {"n0"}
    assert offer.nodes is None
    assert offer.since == TODAY - FORGET + 1
    assert struck(0).offers(FORGET, GRACE, today=TODAY) == {}


def test_whoever_is_refused_two_places_is_blocked_for_twice_as_long() -> None:
    refusals = struck(0, 100)
    assert refusals.offers(101, GRACE, today=TODAY)["ns/a"].nodes == frozenset()
    assert refusals.blocked(100 + 2 * FORGET - 1, 10) == {"ns/a"}
    assert refusals.blocked(100 + 2 * FORGET, 10) == frozenset()
    assert refusals.next_change(101, 10) == 100 + 2 * FORGET


def test_no_pod_is_blocked_for_longer_than_an_hour_at_a_time() -> None:
    refusals = struck(*range(40))
    assert refusals.blocked(39 + LONGEST - 1, 10) == {"ns/a"}
    assert refusals.blocked(39 + LONGEST, 10) == frozenset()


def test_who_is_refused_again_after_his_time_is_blocked_longer() -> None:
    refusals = struck(0, 100)
    refusals.renew(known(), 100 + 2 * FORGET)
    refusals.strike("ns/a", "uid-a", "n9", 1000)
    assert refusals.next_change(1001, 10) == 1000 + 4 * FORGET


def test_after_a_long_time_all_is_forgotten() -> None:
    refusals = struck(0, 100)
    refusals.renew(known(), 100 + 2 * FORGET + LONGEST)
    refusals.strike("ns/a", "uid-a", "n9", 10_000)
    assert refusals.blocked(10_001, 10) == frozenset()


def test_another_pod_of_that_name_begins_anew() -> None:
    refusals = struck(0, 100)
    refusals.strike("ns/a", "another", "n9", 101)
    assert refusals.offers(102, GRACE, today=TODAY)["ns/a"].refused == {"n9"}
    refusals.renew(known("a third"), 103)
    assert refusals.offers(103, GRACE, today=TODAY) == {}


def test_who_cannot_be_evicted_is_spared_for_longer_and_longer() -> None:
    refusals = Refusals()
    refusals.spare("ns/a", "uid-a", 0)
    assert refusals.spared(FORGET - 1) == {"ns/a"}
    assert refusals.next_change(1, GRACE) == FORGET
    refusals.spare("ns/a", "uid-a", FORGET)
    refusals.renew(known(), FORGET)
    assert refusals.spared(3 * FORGET - 1) == {"ns/a"}
    assert refusals.spared(3 * FORGET) == frozenset()
    refusals.renew(known("another"), FORGET)
    assert refusals.spared(FORGET) == frozenset()


def test_whom_no_eviction_helps_waits_for_another_word_of_kube_scheduler() -> None:
    refusals = Refusals()
    refusals.bar("ns/a", "uid-a", "no volume")
    entries = known(verdict="no volume")
    refusals.renew(entries, 0)
    assert refusals.blocked(10 * LONGEST, 10) == {"ns/a"}
    assert refusals.offers(1, GRACE, today=TODAY)["ns/a"].in_vain == "no volume"
    assert not refusals.has_news(entries)
    said = known(verdict="no room")
    assert refusals.has_news(said)
    refusals.renew(said, 1)
    assert refusals.offers(1, GRACE, today=TODAY) == {}


def idle(*moments: float, asked: bool = False) -> Refusals:
    """A pod for which the engine has room at each of these."""
    refusals = Refusals()
    for at in moments:
        refusals.count_on({"ns/a": "uid-a"}, {"ns/a"} if asked else set(), at, GRACE)
    return refusals


def test_whom_nobody_asks_about_though_there_is_room_fits_nowhere() -> None:
    assert idle(0, 9).offers(9, GRACE, today=TODAY) == {}
    assert idle(0, 9).offers(10, GRACE, today=TODAY)["ns/a"].nodes == frozenset()


def test_the_engine_has_no_room_for_whom_is_blocked_and_blocked_he_stays() -> None:
    refusals = idle(0)
    refusals.count_on({}, set(), GRACE, GRACE)
    assert refusals.blocked(GRACE + 1, GRACE) == {"ns/a"}
    refusals.count_on({}, {"ns/a"}, GRACE + 2, GRACE)
    assert refusals.blocked(GRACE + 3, GRACE) == frozenset(), "kube-scheduler has asked"


def test_for_whom_there_is_no_room_any_more_nobody_has_to_ask() -> None:
    refusals = idle(0)
    refusals.count_on({}, set(), 5, GRACE)
    assert refusals.idle == {}


def test_after_a_while_it_gets_another_chance_and_then_another_grace() -> None:
    assert idle(0).offers(FORGET, GRACE, today=TODAY) == {}
    again = idle(0, FORGET)
    assert again.blocked(FORGET + GRACE - 1, GRACE) == frozenset()
    assert again.blocked(FORGET + GRACE, GRACE) == {"ns/a"}


def test_a_word_of_kube_scheduler_a_new_pod_or_none_begins_anew() -> None:
    assert idle(0, 5, asked=True).idle == {}
    refusals = idle(0)
    refusals.count_on({"ns/a": "another"}, set(), 10, GRACE)
    assert refusals.idle == {"ns/a": 10}
    refusals.renew({}, 11)
    assert refusals.idle == {}


def recalled(*refused: str, created: int = 0) -> Refusals:
    """What is known, at 1000 by a clock of its own, of a plan that ended a while ago."""
    ended = plan(places=[place("a", "n1"), place("b", "n2")]).ended(Event.HOPELESS, "refused", written(ENDED))
    refusals = Refusals()
    recall(refusals, [ended.with_status(refused=refused)], known(created=created), 1000, TODAY)
    return refusals


def test_a_new_leader_knows_from_plans_which_places_were_refused_and_when() -> None:
    offers = recalled("ns/a").offers(1000, GRACE, today=TODAY)
    assert offers["ns/a"].refused == {"n1"}
    assert offers["ns/a"].since == ENDED
    assert recalled("ns/a").offers(1000 + FORGET - 100, GRACE, today=TODAY) == {}


def test_of_pods_that_are_gone_or_came_later_plans_say_nothing() -> None:
    assert recalled("ns/b").offers(1000, GRACE, today=TODAY) == {}
    assert recalled("ns/a", created=ENDED + 1).offers(1000, GRACE, today=TODAY) == {}
