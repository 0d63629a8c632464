"""The rules between queues hold for every queue on the way up, not only for those that hold pods."""

from gpuyard.engine.model import SCALE, Amounts
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.reclaim import fair_to_all, may_take
from gpuyard.engine.stepwise import at_once

from tests.engine.builders import Yard, yard

GPU = Amounts(gpu=1000)


def accounts(of: Yard) -> Accounts:
    return Accounts.of(of.snapshot(), Settings().fairshare_k)


def test_what_is_not_preemptible_stays_within_the_quota_of_every_queue_above() -> None:
    some = yard().nodes(1).queue("d", quota=1).queue("a", quota=4, parent="d").queue("b", quota=4)
    some.running("a", preemptible=False).running("b", 7).pending("a", preemptible=False)
    books = accounts(some)
    assert may_take(books, "a", GPU, preemptible=False)
    assert not at_once(fair_to_all(books, "a", GPU, {}, preemptible=False))
    assert at_once(fair_to_all(books, "a", GPU, {}, preemptible=True))


def test_a_queue_that_is_due_nothing_is_fuller_than_any_that_is_due_something() -> None:
    some = yard().nodes(1).queue("a", weight=0).queue("b", quota=4).queue("c", quota=4)
    some.running("b", 8).pending("c", 4).pending("a")
    books = accounts(some)
    assert books.by_name["a"].fair_share.gpu == 0
    assert at_once(fair_to_all(books, "c", GPU, {"b": [GPU]}, preemptible=True))
    assert not at_once(fair_to_all(books, "a", GPU, {"b": [GPU]}, preemptible=True))


def test_who_passes_his_own_share_must_stay_emptier_than_who_loses() -> None:
    """Four queues of two each are due 2 of 8 GPUs; with 3 of 2 `a` is as full as `b` with 3 left."""
    some = yard().nodes(1).queue("a").queue("b").queue("c").queue("d")
    some.running("a", 2).running("b", 5).running("c").pending("a", 2).pending("c").pending("d", 2)
    books = accounts(some)
    assert [books.by_name[name].fair_share.gpu for name in "abcd"] == [2000] * 4
    assert not at_once(fair_to_all(books, "a", Amounts(gpu=4000), {"b": [GPU] * 3}, preemptible=True))
    assert at_once(fair_to_all(books, "a", Amounts(gpu=1000), {"b": [GPU]}, preemptible=True))


def test_a_multiplier_makes_the_taker_count_as_fuller() -> None:
    some = yard().nodes(1).queue("a").queue("b").queue("c").queue("d")
    some.running("a", 2).running("b", 5).running("c").pending("a", 2).pending("c").pending("d", 2)
    losses = {"b": [GPU]}
    assert at_once(fair_to_all(accounts(some), "a", GPU, losses, preemptible=True, multiplier=SCALE))
    assert not at_once(fair_to_all(accounts(some), "a", GPU, losses, preemptible=True, multiplier=2 * SCALE))
