"""Room that was promised before the cycle began: who gets it, and who does not get it meanwhile."""

import pytest
from gpuyard.engine.model import Offer, Pod, PodTerm, Promise, Requirement, Shape, State
from gpuyard.engine.model.reporter import Silent
from gpuyard.engine.model.results import Clearing, Kept, Reason
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.rules.promises import inherits
from gpuyard.engine.search import reasons
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import Teller, waiting_reasons
from gpuyard.engine.search.settle import settle

from tests.engine.builders import NOW, Told, Yard, with_offer, yard


def one_free_gpu() -> Yard:
    return yard().nodes(1, gpus=2).queue("a", quota=2).queue("b", quota=2).running("a")


def test_a_promised_place_is_taken_even_where_another_packs_better() -> None:
    some = (
        yard()
        .node("small", gpus=1)
        .node("large")
        .queue("a", quota=8)
        .pending("a")
        .promise("large", to="a-1", queue="a")
    )
    assert some.plan().started == {"a-1": "large"}


def test_a_nomination_of_kube_scheduler_is_a_promise() -> None:
    some = yard().node("small", gpus=1).node("large").queue("a", quota=8).pending("a", pod={"nominated": "large"})
    assert some.plan().started == {"a-1": "large"}


def test_a_promise_to_a_pod_that_is_to_come_keeps_others_out() -> None:
    some = one_free_gpu().promise("node-1", to="moved", queue="a").pending("a", name="other")
    told = some.plan()
    assert told.waits() == ["other"]
    assert told.reason("other") is Reason.PROMISED_TO_OTHER
    facts = told.facts("other")
    assert isinstance(facts, Kept)
    assert facts.node == "node-1"


def test_who_ranks_before_the_promise_may_take_the_place() -> None:
    some = one_free_gpu().promise("node-1", to="moved", queue="a", priority=50)
    assert some.pending("a", name="urgent", priority=75).plan().placed() == ["a-1", "urgent"]


def test_the_first_pod_of_the_same_owner_and_shape_inherits_the_promise() -> None:
    some = yard().node("small", gpus=1).node("large").queue("a", quota=8)
    some.pending("a", name="stranger").pending("a", name="heir", pod={"owner": "set-1"})
    some.promise("large", to="gone", queue="a", owner="set-1")
    assert some.plan().started == {"stranger": "small", "heir": "large"}


@pytest.mark.row("X-07", case="name")
@pytest.mark.parametrize(
    ("pod", "queue", "may"),
    [
        (Pod(key="ns/x", shape=Shape(gpus=2)), "team", True),
        (Pod(key="ns/x", shape=Shape(gpus=2)), "other", False),
        (Pod(key="ns/x", shape=Shape(gpus=1)), "team", False),
    ],
)
def test_the_pod_that_is_named_inherits_in_its_queue_and_with_its_shape(pod: Pod, queue: str, *, may: bool) -> None:
    promise = Promise(plan="p", pod="ns/x", shape=Shape(gpus=2), node="n1", queue="team")
    assert inherits(promise, pod, queue) is may


@pytest.mark.row("X-07", case="owner")
@pytest.mark.parametrize(
    ("key", "owner", "may"),
    [("ns/y", "job", True), ("elsewhere/y", "job", False), ("ns/y", "another", False), ("ns/y", "", False)],
)
def test_another_pod_inherits_in_the_namespace_of_the_owner(key: str, owner: str, *, may: bool) -> None:
    promise = Promise(plan="p", pod="ns/x", owner="job", shape=Shape(gpus=2), node="n1", queue="team")
    assert inherits(promise, Pod(key=key, owner=owner, shape=Shape(gpus=2)), "team") is may


def test_of_a_promise_without_an_owner_only_the_pod_that_is_named_is_an_heir() -> None:
    promise = Promise(plan="p", pod="ns/x", shape=Shape(gpus=2), node="n1", queue="team")
    assert not inherits(promise, Pod(key="ns/y", shape=Shape(gpus=2)), "team")


@pytest.mark.row("X-07", case="name")
def test_a_named_pod_that_is_in_another_queue_by_now_does_not_get_the_room() -> None:
    some = yard().nodes(1, gpus=2).queue("a", quota=2).queue("b", quota=0).running("a")
    some.pending("b", name="x").promise("node-1", to="x", queue="a")
    assert some.plan().waits() == ["x"]


def test_a_pod_of_another_shape_does_not_inherit() -> None:
    some = yard().node("small", gpus=1).node("large").queue("a", quota=8)
    some.pending("a", name="thin", shape=Shape(gpus=1, cpu=1), pod={"owner": "set-1"})
    assert some.promise("large", to="gone", queue="a", owner="set-1").plan().started == {"thin": "small"}


def test_room_is_kept_while_victims_are_still_on_their_way_out() -> None:
    some = yard().nodes(1, gpus=3).queue("a", quota=2).queue("b", quota=1)
    some.running("b", 2, preemptible=False).pending("a", name="big", gpus=2, pod={"nominated": "node-1"})
    told = some.pending("b", name="small").plan()
    assert told.placed() == ["b-1", "b-2"]
    assert told.waits() == ["big", "small"]


def test_a_promise_of_a_queue_that_is_gone_keeps_nothing() -> None:
    some = one_free_gpu().promise("node-1", to="moved", queue="gone").pending("b", name="other")
    assert "other" in some.plan().placed()


def test_a_promise_on_a_node_that_is_gone_is_none() -> None:
    some = one_free_gpu().pending("b", name="other", pod={"nominated": "nowhere"})
    assert some.plan().node("other") == "node-1"


def test_who_keeps_room_that_he_cannot_take_yet_may_still_have_others_evicted() -> None:
    some = yard().nodes(1, gpus=2).queue("a", quota=2).queue("b", quota=0).running("b", 2)
    told = some.pending("a", name="big", gpus=2, pod={"nominated": "node-1"}).plan()
    assert told.placed() == ["big"]


def offered(some: Yard, offer: Offer) -> Told:
    return Told(settle(with_offer(some.snapshot(), "ns/a-1", offer), Settings()))


def test_kube_scheduler_s_fresh_list_is_its_verdict() -> None:
    some = yard().nodes(2).queue("a", quota=8).pending("a")
    assert offered(some, Offer(nodes=frozenset({"node-2"}))).started == {"a-1": "node-2"}


def test_a_node_refused_again_and_again_is_struck_out() -> None:
    some = yard().nodes(2).queue("a", quota=8).pending("a")
    assert offered(some, Offer(refused=frozenset({"node-1"}))).started == {"a-1": "node-2"}


def test_a_promise_that_kube_scheduler_refuses_is_told_as_such() -> None:
    some = yard().nodes(1).queue("a", quota=8).pending("a", pod={"nominated": "node-1"})
    told = offered(some, Offer(refused=frozenset({"node-1"}), since=NOW - 30))
    assert told.reason("a-1") is Reason.REFUSED_BY_SCHEDULER
    assert told.facts("a-1") == Kept(node="node-1", since=NOW - 30)


def test_a_pod_whose_place_is_being_cleared_is_told_how_many_are_still_to_go() -> None:
    some = yard().nodes(1, gpus=2).queue("a", quota=2).running("a", 2)
    some.pod("a-1", state=State.TERMINATING, deleted_at=NOW).pod("a-2", state=State.TERMINATING, deleted_at=NOW)
    some.pending("a", name="big", gpus=2)
    cycle = Cycle(some.snapshot(), Settings())
    cycle.run()
    why = Teller(cycle).why(cycle.snapshot.pods["ns/big"])
    assert (why.reason, why.facts) == (Reason.RECLAIM_IN_PROGRESS, Clearing(node="node-1", left=2))


@pytest.mark.parametrize(("age", "placed"), [(10, ["waiter"]), (500, [])])
def test_nobody_counts_on_the_place_of_a_pod_that_is_stuck(age: int, placed: list[str]) -> None:
    some = yard().nodes(1, gpus=1).queue("a", quota=1).running("a", name="leaver")
    some.pod("leaver", state=State.TERMINATING, deleted_at=NOW - age).pending("a", name="waiter")
    assert some.plan(cycles=1).placed("waiter") == placed


def reason_beside(holder: Yard) -> Reason:
    """Why a pod waits on a full cluster beside somebody with a promise."""
    return holder.pending("a", name="other").plan().reason("other")


def full_node() -> Yard:
    return yard().nodes(1).queue("a", quota=8).queue("shut", limit=0).running("a", gpus=8, preemptible=False)


def test_whom_a_gate_holds_back_keeps_no_room() -> None:
    nominated = {"nominated": "node-1"}
    assert reason_beside(full_node().pending("shut", gpus=8, pod=nominated)) is Reason.NO_NODE_FITS
    assert reason_beside(full_node().pending(None, gpus=8, pod=nominated)) is Reason.NO_NODE_FITS
    assert reason_beside(full_node().pending("a", gpus=8, pod=nominated | {"gated": True})) is Reason.NO_NODE_FITS


def test_nobody_waits_for_the_room_that_he_holds_himself() -> None:
    alone = Shape(gpus=1, pod_anti_affinity=(PodTerm("zone", (Requirement("app", "Exists"),)),))
    some = yard().nodes(1, labels={"zone": "z"}).queue("a", quota=8).running("a", pod={"labels": {"app": "x"}})
    told = some.pending("a", name="choosy", shape=alone, pod={"nominated": "node-1"}).plan()
    assert told.reason("choosy") is Reason.NO_NODE_FITS


def crowd(count: int) -> Cycle:
    """So many pods alike that wait, each with a promise of a full node."""
    some = yard().nodes(1).queue("a", quota=8).running("a", gpus=8, preemptible=False)
    return some.pending("a", count, gpus=2, pod={"nominated": "node-1"}).cycle()


def test_the_holders_of_promises_are_looked_through_once_for_all_pods_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Pod] = []
    monkeypatch.setattr(reasons, "_would_fit", lambda _room, _shape, holder: tries.append(holder))
    assert len(waiting_reasons(crowd(50))) == 50
    assert len(tries) == 50


def test_the_reasons_of_very_many_pods_are_looked_for_within_the_time_limit() -> None:
    class Watch(Silent):
        looks = 0

        def paused(self) -> None:
            self.looks += 1

    watch = Watch()
    cycle = Cycle(crowd(50).snapshot, Settings(), watch)
    cycle.run()
    before = watch.looks
    waiting_reasons(cycle)
    assert watch.looks - before == 50
