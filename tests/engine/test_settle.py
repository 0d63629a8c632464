"""Several cycles in a row, until nothing changes any more."""

from gpuyard.engine.model import Shape, State
from gpuyard.engine.model.results import Bind, FinalState, Reason, Until
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.settle import after, rounds

from tests.engine.builders import NOW, Yard, yard


def borrowed() -> Yard:
    """A full node; one pod of `b` has to go for `a`."""
    return yard().nodes(1, gpus=2).queue("a", quota=1).queue("b", quota=1).running("b", 2).pending("a")


def test_after_a_cycle_the_promised_run_and_the_evicted_wait() -> None:
    first = next(rounds(borrowed().snapshot(), Settings()))
    pods = after(first).pods
    assert (pods["ns/a-1"].state, pods["ns/a-1"].node, pods["ns/a-1"].started) == (State.RUNNING, "node-1", NOW)
    assert (pods["ns/b-2"].state, pods["ns/b-2"].node) == (State.PENDING, "")
    assert (pods["ns/b-1"].state, pods["ns/b-1"].node) == (State.RUNNING, "node-1")


def test_who_was_tried_as_a_victim_and_stayed_is_what_it_was() -> None:
    """The first victim tried is too small alone, the second is enough: the first comes home."""
    some = yard().nodes(1, gpus=5).queue("a", quota=4).queue("b", limit=5)
    some.running("b", gpus=4, name="large").running("b", gpus=1, name="small").pending("a", gpus=4)
    first = next(rounds(some.snapshot(), Settings()))
    assert after(first).pods["ns/small"].started == first.snapshot.pods["ns/small"].started


def test_the_delay_of_a_workload_starts_anew_when_it_is_evicted() -> None:
    """Without it `delayed` would take the place of `humble` in the second cycle, as it ranks before it."""
    some = yard().node("east", gpus=1, labels={"zone": "east"}).node("west", gpus=1)
    some.queue("a", quota=1).queue("b", quota=1)
    some.running("b", name="delayed", on="east", priority=75, preemption_delay=600).running(
        "b", name="humble", on="west"
    )
    told = some.pending("a", shape=Shape(gpus=1, selector=(("zone", "east"),))).plan()
    assert told.evicted == ["delayed"]
    assert told.reason("delayed") is Reason.PREEMPTION_DELAY
    assert told.facts("delayed") == Until(until=NOW + 600, who="ns/delayed")


def test_a_budget_stays_spent_while_who_was_evicted_waits() -> None:
    some = yard().nodes(1, gpus=4).queue("a", quota=2).queue("b", quota=2).running("b", 4).pending("a", 2)
    told = some.budget("b", allowed=1, pods=["b-1", "b-2", "b-3", "b-4"]).plan()
    assert told.evicted == ["b-4"]
    assert told.reason("a-2") is Reason.PROTECTED_BY_BUDGET


def test_a_budget_is_itself_again_once_who_was_evicted_runs() -> None:
    some = yard().nodes(1).queue("b").pending("b", 2).running("b").budget("b", allowed=0, pods=["b-1", "b-2", "b-3"])
    cycle = Cycle(some.snapshot(), Settings(), spared=["ns/b-1"])
    cycle.run()
    assert after(cycle).budgets["ns/b"].allowed == 1


def test_who_moves_does_not_spend_a_budget_for_longer_than_the_move() -> None:
    some = yard().nodes(2).queue("a", quota=16).running("a", on="node-1", gpus=4).running("a", on="node-2", gpus=4)
    first = next(rounds(some.pending("a", gpus=8).budget("a", allowed=1, pods=["a-1", "a-2"]).snapshot(), Settings()))
    assert len(first.record.evictions) == 1
    assert after(first).budgets["ns/a"].allowed == 1


def test_a_plan_ends_with_a_cycle_in_which_nothing_happens() -> None:
    told = borrowed().plan()
    assert [bool(cycle.actions) for cycle in told.outcome.cycles] == [True, False]
    assert told.settled


def test_one_cycle_tells_what_was_decided_not_what_becomes_of_it() -> None:
    final = borrowed().plan(cycles=1).outcome.final
    assert [final[f"ns/{pod}"].state for pod in ("a-1", "b-1", "b-2")] == [
        FinalState.NOMINATED,
        FinalState.RUNNING,
        FinalState.EVICTED,
    ]


def test_a_limit_on_cycles_ends_a_plan_that_is_not_at_rest() -> None:
    assert not borrowed().plan(cycles=1).settled


def test_terminating_pods_are_gone_after_a_cycle_and_stuck_ones_stay() -> None:
    some = yard().nodes(1, gpus=2).queue("a")
    some.running("a", name="leaves", state=State.TERMINATING, pod={"deleted_at": NOW})
    some.running("a", name="stuck", state=State.TERMINATING, pod={"deleted_at": NOW - 200})
    told = some.plan()
    assert told.outcome.final["ns/leaves"].state is FinalState.RUNNING, "it waits, and finds its place anew"
    assert told.outcome.final["ns/stuck"].state is FinalState.TERMINATING


def test_shares_above_one_gpu_are_published_in_whole_ones() -> None:
    some = yard().nodes(1, gpus=3).queue("a").queue("b").pending("a", 2, gpus="0.75").pending("b", 3)
    shares = some.plan().outcome.queues
    assert shares["a"].fair_share.gpu == 1000
    assert yard().nodes(1).queue("a").pending("a", gpus="0.5").plan().outcome.queues["a"].fair_share.gpu == 500


def test_a_pod_ends_on_the_gpus_that_it_was_given_when_it_started() -> None:
    """The GPUs of `a-1` are not named, and it stays on those that it is assumed to have when `a-2` has gone."""
    some = yard().nodes(1, gpus=4).queue("a", quota=4).running("a", name="gone", state=State.TERMINATING)
    told = some.pod("gone", deleted_at=NOW, gated=False).running("a", name="stays").pending("a", name="new").plan()
    [bind] = [action for action in told.outcome.cycles[0].actions if action.pod == "ns/new"]
    assert isinstance(bind, Bind)
    assert bind.gpus == told.outcome.final["ns/new"].gpus == (2,)
    assert told.outcome.final["ns/stays"].gpus == (1,)
