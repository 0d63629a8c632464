"""Room that plans keep: for one pod, against all others."""

from typing import Any

import pytest
from gpuyard.engine.model import Promise, Shape
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.rules.promises import inherits
from gpuyard.engine.stepwise import at_once
from gpuyard.extender.http.wire import WireError
from gpuyard.extender.ledger import kept_room
from gpuyard.extender.verbs.node_room import NodeRoom
from msgspec.structs import replace

from tests.extender.builders import Bench, Json, broken_call, group, node, pod, queue

BEING_MADE = "room is being made for it on n1 by plan plan-1"
PROMISED = "the room is promised to others"


def owned(name: str, owner: str, gpus: int = 8, **more: object) -> Json:
    made = pod(name, "team", gpus, **more)  # type: ignore[arg-type]
    made["metadata"]["ownerReferences"] = [{"kind": "Job", "name": owner, "uid": owner, "controller": True}]
    return made


def promise(to: str, on: str = "n1", *, owner: str = "", gpus: int = 8) -> Promise:
    return Promise(plan="plan-1", pod=f"ns/{to}", owner=owner, shape=Shape(gpus=gpus), node=on, queue="team")


@pytest.fixture
def of() -> Bench:
    made = Bench(node("n1"), node("n2"), queue("team"), pod("x", "team", 8), pod("y", "team", 8))
    made.ledger.put_promises([promise("x")])
    return made


X, Y = pod("x", "team", 8), pod("y", "team", 8)


@pytest.mark.row("E-28", case="other")
def test_a_promised_node_is_not_for_others(of: Bench) -> None:
    assert of.filter(Y).node_names == ["n2"]
    assert set(of.filter(Y, "n1").failed_and_unresolvable_nodes.values()) == {PROMISED}


@pytest.mark.row("E-28", case="other")
def test_in_a_burst_a_promised_node_is_not_for_others_either() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("x", gpus=4)])
    assert of.filter(pod("a", "team", 4)).node_names == ["n1", "n2"], "beside the promise there is room for one"
    assert of.filter(pod("b", "team", 4)).node_names == ["n2"], "which may have been taken by now"


@pytest.mark.row("E-28", case="owner")
def test_the_owner_gets_its_node_and_no_other(of: Bench) -> None:
    assert of.filter(X).node_names == ["n1"]


@pytest.mark.row("E-28", case="owner")
def test_the_owner_waits_while_its_node_is_not_offered(of: Bench) -> None:
    assert of.filter(X, "n2").failed_and_unresolvable_nodes == {"n2": BEING_MADE}


def test_the_owner_may_go_as_soon_as_kube_scheduler_sees_the_victim_gone(of: Bench) -> None:
    of.put(pod("victim", "team", 8, on="n1"))
    assert of.filter(X).node_names == ["n1"]


@pytest.mark.row("E-28", case="owner-gone")
def test_without_the_owner_and_its_promise_the_node_is_for_all(of: Bench) -> None:
    of.drop(X)
    assert of.filter(Y).node_names == ["n2"], "a new one of that name may come"
    of.ledger.put_promises([])
    assert of.filter(Y).node_names == ["n1", "n2"]


def test_an_ungoverned_pod_is_kept_away_as_well(of: Bench) -> None:
    assert of.filter(pod("z", gpus=8)).node_names == ["n2"]


def test_what_the_owner_was_granted_counts_instead_of_its_promise(of: Bench) -> None:
    of.put(node("n1", 9))
    assert of.passes(X)
    assert of.filter(pod("small", "team", 1), "n1").node_names == ["n1"]
    of.now = 60
    assert of.filter(pod("large", "team", 8), "n1").node_names == [], "the grant has lapsed, the promise stands"


def test_a_promise_is_met_once_its_owner_runs_there(of: Bench) -> None:
    of.put(node("n1", 9), pod("x", "team", 8, on="n1"))
    assert of.filter(pod("small", "team", 1), "n1").node_names == ["n1"]


def test_the_pod_that_moves_is_not_its_own_heir() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"), pod("x", "team", 8, on="n2"))
    of.ledger.put_promises([promise("x")])
    assert not of.passes(Y, "n1")


def test_the_first_pod_of_the_same_owner_inherits() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("old", owner="job")])
    assert of.filter(owned("other", "another-job")).node_names == ["n2"]
    of.put(first := owned("first", "job"), owned("second", "job"))
    assert of.filter(first).node_names == ["n1"]
    assert of.filter(owned("second", "job")).node_names == ["n2"]


@pytest.mark.row("B-06", case="asking")
def test_to_be_looked_at_makes_no_pod_an_heir() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("old", owner="job")])
    of.put(first := owned("first", "job"), owned("second", "job"))
    NodeRoom(of.ledger.snapshot, of.ledger, of.ledger.entries["ns/second"].seen.pod, PACK)
    assert of.ledger.promises.of(of.ledger.entries["ns/second"].seen.pod)
    assert of.filter(first).node_names == ["n1"]


@pytest.mark.row("B-06", case="asking")
def test_to_be_refused_makes_no_pod_an_heir() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("old", owner="job")])
    first, second = owned("first", "job"), owned("second", "job")
    assert not of.passes(first, "n2")
    assert of.filter(second).node_names == ["n1"], "whoever is let through first takes the place"
    assert of.filter(first).node_names == ["n2"]


@pytest.mark.row("B-06", case="several")
def test_of_several_promises_a_pod_takes_the_one_whose_node_it_is_offered() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    two = [promise("old", "n1", owner="job"), promise("older", "n2", owner="job")]
    of.ledger.put_promises(two)
    assert of.filter(owned("first", "job"), "n2").node_names == ["n2"]
    assert of.filter(owned("second", "job")).node_names == ["n1"]


@pytest.mark.row("B-06", case="several")
def test_pods_that_inherit_together_do_not_inherit_the_same() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"), owned("a", "job"), owned("b", "job"), owned("c", "job"))
    of.ledger.put_promises([promise("old", "n1", owner="job"), promise("older", "n2", owner="job")])
    pods = [of.ledger.entries[f"ns/{name}"].seen.pod for name in "abc"]
    assert {key: one.node for key, one in of.ledger.promises.matched(pods).items()} == {"ns/a": "n1", "ns/b": "n2"}


def test_a_named_pod_that_asks_for_something_else_by_now_leaves_the_place_to_another_of_its_owner() -> None:
    changed = owned("old", "job", 1)
    of = Bench(node("n1"), node("n2"), queue("team"), changed)
    of.ledger.put_promises([promise("old", owner="job")])
    assert of.filter(owned("new", "job")).node_names == ["n1"]


@pytest.mark.row("B-06", case="several")
def test_many_pods_and_promises_of_one_owner_are_matched_by_looking_at_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 300
    of = Bench(queue("team"), *(owned(f"new-{number}", "job") for number in range(count)))
    of.ledger.put_promises([promise(f"old-{number}", f"n{number}", owner="job") for number in range(count)])
    asked: list[int] = []

    def counted(*question: Any) -> bool:  # noqa: ANN401 - what `inherits` takes
        asked.append(1)
        return inherits(*question)

    monkeypatch.setattr(kept_room, "inherits", counted)
    pods = [of.ledger.entries[f"ns/new-{number}"].seen.pod for number in range(count)]
    assert len(of.ledger.promises.matched(pods)) == count
    assert len(asked) <= 3 * count


def test_a_call_that_cannot_be_read_to_its_end_makes_nobody_an_heir() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("old", owner="job")])
    of.put(first := owned("first", "job"), second := owned("second", "job"))
    with pytest.raises(WireError):
        of.verbs.filter(broken_call(first))
    assert of.filter(second).node_names == ["n1"]


def test_a_pod_of_another_shape_does_not_inherit() -> None:
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("old", owner="job")])
    assert of.filter(owned("small", "job", 1)).node_names == ["n2"]


def test_nobody_is_evicted_by_kube_scheduler_for_whom_a_plan_makes_room(of: Bench) -> None:
    of.put(pod("low", "team", 8, on="n2", labels={"priorityClassName": "train"}))
    of.put(claimant := pod("x", "team", 8, labels={"priorityClassName": "build"}))
    victims = {"n2": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}
    assert not of.preempt(claimant, victims).node_name_to_meta_victims
    of.ledger.put_promises([])
    assert of.preempt(claimant, victims).node_name_to_meta_victims


def test_nobody_dies_for_room_that_is_promised_to_others(of: Bench) -> None:
    of.put(pod("low", "team", 8, on="n1", labels={"priorityClassName": "train"}))
    claimant = pod("p", "team", 8, labels={"priorityClassName": "build"})
    of.ledger.put_promises([replace(promise("x"), priority=100)])
    victims = {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}
    assert not of.preempt(claimant, victims).node_name_to_meta_victims


# --- a higher priority of the same queue -----------------------------------------------------------------------------

URGENT = pod("urgent", "team", 8, labels={"priorityClassName": "build"})


@pytest.mark.row("B-92", case="filter")
def test_promised_room_is_for_a_higher_priority_of_its_queue_first(of: Bench) -> None:
    assert of.filter(URGENT, "n1").node_names == ["n1"]


@pytest.mark.row("B-92", case="filter")
def test_promised_room_is_kept_from_the_same_priority_of_its_queue(of: Bench) -> None:
    of.ledger.put_promises([replace(promise("x"), priority=100)])
    assert set(of.filter(URGENT, "n1").failed_and_unresolvable_nodes.values()) == {PROMISED}


@pytest.mark.row("B-92", case="other-queue")
def test_promised_room_is_kept_from_a_higher_priority_of_another_queue(of: Bench) -> None:
    of.put(queue("other"))
    elsewhere = pod("urgent", "other", 8, labels={"priorityClassName": "build"})
    assert set(of.filter(elsewhere, "n1").failed_and_unresolvable_nodes.values()) == {PROMISED}


@pytest.mark.row("B-92", case="preempt")
def test_victims_that_leave_for_a_lower_priority_may_be_nominated_over(of: Bench) -> None:
    leaving = pod("low", "team", 8, on="n1", labels={"priorityClassName": "train"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    of.put(leaving)
    victims = {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}
    assert of.preempt(URGENT, victims).node_name_to_meta_victims


@pytest.mark.row("B-92", case="parts")
def test_a_promised_part_of_a_gpu_is_kept_from_everybody(of: Bench) -> None:
    half = Shape(fraction=500, devices=1)
    of.put(node("n1", 1))
    of.ledger.put_promises([replace(promise("x"), shape=half)])
    one = pod("urgent", "team", 1, labels={"priorityClassName": "build"})
    assert set(of.filter(one, "n1").failed_and_unresolvable_nodes.values()) == {PROMISED}


@pytest.mark.row("B-92", case="gang")
def test_a_gang_of_higher_priority_is_placed_on_promised_room(of: Bench) -> None:
    a, b = (pod(name, "", 8, annotations={"pod-group-name": "g"}) for name in "ab")
    gang = group("g", 2, "team")
    gang["spec"]["priorityClassName"] = "build"
    of.put(gang, a, b)
    assert not of.passes(a)
    assert of.passes(b)
    assert of.passes(a)


def test_heirs_of_a_gang_go_when_each_has_been_offered_its_node() -> None:
    a, b = (pod(name, "", 8, annotations={"pod-group-name": "g"}) for name in "ab")
    of = Bench(node("n1"), node("n2"), queue("team"), group("g", 2, "team"), a, b)
    of.ledger.put_promises([promise("a"), promise("b", "n2")])
    assert of.filter(a, "n1").failed_and_unresolvable_nodes == {"n1": BEING_MADE}
    assert of.filter(b).node_names == ["n2"]
    assert of.ledger.take_called() == {"ns/a"}
    assert of.filter(a).node_names == ["n1"]


def test_a_gang_is_not_placed_on_what_is_promised_to_others(of: Bench) -> None:
    a, b = (pod(name, "", 4, annotations={"pod-group-name": "g"}) for name in "ab")
    of.put(group("g", 2, "team"), a, b)
    assert not of.passes(a)
    assert of.filter(b).node_names == ["n2"]
    assert {place for key, place in of.ledger.kept.items()} == {"n2"}


def limited(limit: float, *things: Json, promises: tuple[Promise, ...] = ()) -> Bench:
    made = Bench(node("n1"), node("n2"), queue("team", limit), *things)
    made.ledger.put_promises(promises)
    return made


def test_what_is_promised_counts_in_the_bound_of_its_queue() -> None:
    of = limited(8, pod("x", "team", 4), promises=(promise("x", gpus=4),))
    assert not of.passes(pod("large", "team", 5), "n2")
    assert of.refusals == ["OverLimit"]
    assert of.passes(pod("y", "team", 4), "n2")
    assert not of.passes(pod("z", "team", 1), "n2")
    assert of.passes(pod("x", "team", 4), "n1"), "its own promise does not stand in its way"
    of.ledger.put_promises([])
    assert not of.passes(pod("z", "team", 1), "n2")


def test_what_is_promised_counts_in_the_bound_of_the_department() -> None:
    of = Bench(node("n1"), node("n2"), queue("dept", 8), queue("team", parent="dept"), queue("other", parent="dept"))
    of.ledger.put_promises([promise("x", gpus=8)])
    assert not of.passes(pod("p", "other"), "n2")
    assert of.refusals == ["OverLimit"]


def test_what_is_promised_to_a_pod_that_runs_as_yet_counts_once() -> None:
    of = limited(8, pod("x", "team", 4, on="n2"), promises=(promise("x", gpus=4),))
    assert of.passes(pod("y", "team", 4), "n2")


def test_what_is_promised_counts_from_when_the_moved_pod_leaves() -> None:
    moved = pod("x", "team", 4, on="n2")
    of = limited(8, moved, promises=(promise("x", gpus=4),))
    of.drop(moved)
    assert not of.passes(pod("y", "team", 5), "n2")
    of.put(heir := pod("x", "team", 4) | {"metadata": pod("x", "team")["metadata"] | {"uid": "uid-new"}})
    assert of.passes(heir, "n1")
    assert of.passes(pod("y", "team", 4), "n2"), "what it was granted counts instead of its promise"


def test_only_what_is_not_preemptible_counts_against_the_quota() -> None:
    fixed = promise("x", gpus=4)
    of = Bench(node("n1"), node("n2"), queue("team", -1, 4))
    of.ledger.put_promises([fixed])
    assert of.passes(pod("a", "team", 4, fixed=True), "n2")
    of = Bench(node("n1"), node("n2"), queue("team", -1, 4), pod("x", "team", 4, fixed=True))
    of.ledger.put_promises([replace(fixed, workload="ns/x")])
    assert not of.passes(pod("a", "team", 1, fixed=True), "n2")
    assert of.passes(pod("b", "team", 1), "n2")


def test_heirs_of_one_owner_do_not_stand_in_each_others_way() -> None:
    note = {"annotations": {"kai.scheduler/batch-min-member": "2"}}
    heirs = [owned(name, "job", 4) for name in ("a", "b")]
    for heir in heirs:
        heir["metadata"] |= note
    of = limited(8, *heirs, promises=tuple(promise(name, owner="job", gpus=4) for name in ("old-1", "old-2")))
    assert not of.passes(heirs[0], "n1")
    assert of.passes(heirs[1], "n1"), "both have been offered their nodes"
    assert of.passes(heirs[0], "n1")
    assert of.used("team") == 8
    assert "OverLimit" not in of.refusals


@pytest.mark.parametrize("lapsed", [False, True])
def test_what_is_promised_is_known_without_a_look_at_each_promise(*, lapsed: bool) -> None:
    of = limited(-1, *(pod(f"x{n}", "team") for n in range(8)))
    of.ledger.put_promises([promise(f"x{n}", gpus=1) for n in range(8)])
    for number in range(4):
        assert of.passes(pod(f"x{number}", "team"), "n1")
    of.now = 61 if lapsed else 0
    at_once(of.ledger.expire_all(of.now))
    counted = {queue: amounts.gpu for (queue, _), amounts in of.ledger.promises.use.items()}
    assert counted == {"team": 8000 if lapsed else 4000}


def test_a_place_that_an_heir_has_taken_is_inherited_by_no_other_one() -> None:
    """Else the next pod of that owner would wait for it, although there is room elsewhere."""
    of = Bench(node("n1"), node("n2"), queue("team"))
    of.ledger.put_promises([promise("gone", owner="job")])
    assert of.filter(owned("a", "job")).node_names == ["n1"]
    of.put(owned("a", "job", on="n1"))
    assert of.filter(owned("b", "job"), "n2").node_names == ["n2"]
