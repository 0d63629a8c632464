"""`preempt`: whom kube-scheduler may evict for a pod, and whom never."""

import asyncio

import msgspec
import pytest
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.http.wire import PREEMPTION, MetaPod, MetaVictims, PreemptAnswer

from tests.extender.builders import Bench, Json, at_once, group, node, pod, queue

LOW, HIGH = {"priorityClassName": "train"}, {"priorityClassName": "build-preemptible"}
NOBODY = PreemptAnswer()


def low(name: str, gpus: int = 4, on: str = "n1", queue: str = "team", **more: object) -> Json:
    return pod(name, queue, gpus, on=on, labels=LOW, **more)  # type: ignore[arg-type]


def high(name: str = "p", gpus: int = 4, **more: object) -> Json:
    return pod(name, "team", gpus, labels=HIGH, **more)  # type: ignore[arg-type]


def ask(of: Bench, thing: Json, **victims: list[str] | None) -> PreemptAnswer:
    """Ask for a pod that the watch shows, with the UIDs of victims by node."""
    named = {
        node: {"Pods": None if uids is None else [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        for node, uids in victims.items()
    }
    return of.preempt(thing, named)


def uids(answer: PreemptAnswer) -> dict[str, list[str]]:
    return {node: [one.uid for one in found.pods or ()] for node, found in answer.node_name_to_meta_victims.items()}


def bench(*more: Json, limit: float = -1) -> Bench:
    """A full node n1 with two pods of low priority, and a full node n2 of somebody else."""
    return Bench(
        node("n1"),
        node("n2"),
        queue("team", limit),
        queue("other"),
        low("a"),
        low("b"),
        low("x", 8, "n2", "other"),
        *more,
    )


@pytest.mark.row("E-14")
def test_the_proposed_victims_are_granted_where_all_may_go() -> None:
    of = bench()
    answer = ask(of, high(), n1=["uid-b"], n2=["uid-x"])
    assert answer == PreemptAnswer({"n1": MetaVictims(pods=[MetaPod("uid-b")])})


@pytest.mark.row("E-03", case="preempt")
@pytest.mark.row("E-14")
def test_whole_victims_are_answered_by_uid() -> None:
    of = bench()
    victims = {"n1": {"pods": [low("b")], "numpdbviolations": 0}}
    of.show(asked := high())
    request = PREEMPTION.read(msgspec.json.encode({"pod": asked, "nodenametovictims": victims}))
    assert uids(at_once(of.verbs.preempt(request))) == {"n1": ["uid-b"]}


@pytest.mark.row("E-14")
def test_a_victim_that_is_not_on_the_node_is_never_named() -> None:
    assert ask(bench(), high(), n1=["uid-x"], n2=["uid-a"], n3=["uid-b"]) == NOBODY


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param([], marks=pytest.mark.row("E-15", case="empty")),
        pytest.param(None, marks=pytest.mark.row("E-15", case="null")),
    ],
)
def test_a_proposal_without_victims_gets_the_lowest_and_newest(empty: list[str] | None) -> None:
    of = bench()
    of.put(low("a", created="2026-02-01T00:00:00Z"))
    assert uids(ask(of, high(), n1=empty, n2=empty)) == {"n1": ["uid-a"]}


def test_victims_that_are_filled_in_are_no_more_than_needed_and_the_highest_first() -> None:
    of = Bench(
        node("n1"),
        queue("team"),
        pod("small", "team", 1, on="n1", labels={"priorityClassName": "train"}),
        pod("large", "team", 4, on="n1", labels={"priorityClassName": "middle"}),
        pod("rest", "team", 3, on="n1", labels={"priorityClassName": "middle"}),
        {"kind": "PriorityClass", "metadata": {"name": "middle"}, "value": 60},
    )
    assert uids(ask(of, high(gpus=4), n1=[])) == {"n1": ["uid-rest", "uid-small"]}


def test_a_node_with_room_needs_no_victims() -> None:
    of = Bench(node("n1"), queue("team"), low("a"))
    assert ask(of, high(), n1=[]) == NOBODY


@pytest.mark.parametrize(
    "thing",
    [
        high(gpus=9),
        pod("p", "unknown", 4, labels=HIGH),
        pod("p", "", 0),
    ],
)
def test_nobody_goes_for_a_pod_whose_own_gates_are_shut_or_that_asks_for_no_room(thing: Json) -> None:
    assert ask(bench(limit=16), thing, n1=["uid-a", "uid-b"]) == NOBODY


def test_nobody_goes_for_a_pod_over_its_limit() -> None:
    assert ask(bench(limit=8), high(), n1=["uid-b"]) == NOBODY


def test_nobody_goes_while_the_cluster_is_not_known() -> None:
    of = bench()
    of.unavailable = "starting"
    with pytest.raises(Exception, match="starting"):
        ask(of, high(), n1=["uid-b"])


def test_equal_priority_is_no_reason_to_go() -> None:
    assert ask(bench(), low("p", on=""), n1=["uid-b"]) == NOBODY


def test_what_is_not_preemptible_stays() -> None:
    of = Bench(node("n1"), queue("team"), low("a"), low("b", fixed=True))
    assert ask(of, high(), n1=["uid-b"]) == NOBODY


def test_a_disruption_budget_is_honoured() -> None:
    budget: Json = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": LOW}},
        "status": {"disruptionsAllowed": 1},
    }
    of = bench(budget)
    assert ask(of, high(gpus=8), n1=["uid-a", "uid-b"]) == NOBODY
    assert uids(ask(of, high(), n1=["uid-b"])) == {"n1": ["uid-b"]}
    of.drop(budget)
    assert uids(ask(of, high(gpus=8), n1=["uid-a", "uid-b"])) == {"n1": ["uid-a", "uid-b"]}


def test_a_minimum_run_time_is_honoured() -> None:
    of = bench()
    of.put(queue("team") | {"spec": {"preemptMinRuntime": "10m", "resources": {"gpu": {"limit": -1, "quota": -1}}}})
    of.put(low("b", status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}))
    of.today = 1_767_225_600 + 599
    assert ask(of, high(), n1=["uid-b"]) == NOBODY
    of.today += 1
    assert uids(ask(of, high(), n1=["uid-b"])) == {"n1": ["uid-b"]}


def test_a_gang_goes_whole_or_down_to_its_minimum() -> None:
    members = [pod(name, "", 2, on="n1", annotations={"pod-group-name": "g"}) for name in ("g1", "g2", "g3", "g4")]
    gang = group("g", 3, "team")
    gang["spec"]["priorityClassName"] = "train"
    of = Bench(node("n1"), queue("team"), gang, *members)
    assert uids(ask(of, high(gpus=2), n1=["uid-g4"])) == {"n1": ["uid-g4"]}
    assert ask(of, high(gpus=4), n1=["uid-g3", "uid-g4"]) == NOBODY
    everybody = ["uid-g1", "uid-g2", "uid-g3", "uid-g4"]
    assert uids(ask(of, high(gpus=8), n1=everybody)) == {"n1": everybody}


def test_for_whom_victims_were_granted_counts_at_once() -> None:
    of = bench(limit=12)
    assert uids(ask(of, high("first"), n1=["uid-b"]))
    assert ask(of, high("second"), n1=["uid-a"]) == NOBODY
    assert not of.passes(pod("third", "team"))


@pytest.mark.row("E-31")
def test_the_nominated_node_is_confirmed_as_long_as_the_bound_allows_it() -> None:
    of = bench(limit=8)
    of.drop(low("b"))
    nominated = high(status={"phase": "Pending", "nominatedNodeName": "n1"})
    of.put(nominated)
    assert of.filter(nominated, "n1").node_names == ["n1"]
    of.put(queue("team", limit=4))
    assert of.filter(nominated, "n1").node_names == []


def test_what_is_nominated_is_for_nobody_else_of_the_queue() -> None:
    of = bench(limit=8)
    of.drop(low("b"))
    of.put(high(status={"phase": "Pending", "nominatedNodeName": "n1"}))
    assert not of.passes(pod("other", "team", 1))


# --- victims that are going already ----------------------------------------------------------------------------------


def leaving(thing: Json) -> Json:
    gone = thing["metadata"] | {"deletionTimestamp": "2026-11-20T00:00:00Z"}
    return thing | {"metadata": gone}


@pytest.mark.row("B-11")
def test_a_proposal_with_a_victim_that_is_terminating_keeps_its_node() -> None:
    of = bench()
    of.put(leaving(low("a")))
    assert uids(ask(of, high(gpus=8), n1=["uid-a", "uid-b"])) == {"n1": ["uid-a", "uid-b"]}
    assert uids(ask(of, high("second"), n1=["uid-a"])) == {"n1": ["uid-a"]}


@pytest.mark.row("B-11")
def test_a_terminating_victim_is_not_chosen_where_victims_are_filled_in() -> None:
    of = bench()
    of.put(leaving(low("b")))
    assert uids(ask(of, high(gpus=4), n1=[])) == {"n1": ["uid-a"]}


def test_room_that_a_terminating_victim_leaves_is_counted_once() -> None:
    of = bench()
    of.put(leaving(low("a")))
    kept = Promise(plan="plan", pod="ns/x", shape=Shape(gpus=4), node="n1", queue="team", priority=75)
    of.ledger.put_promises([kept])
    assert ask(of, high(gpus=4), n1=["uid-a"]) == NOBODY
    assert uids(ask(of, high("other", gpus=4), n1=["uid-a", "uid-b"])) == {"n1": ["uid-a", "uid-b"]}


# --- a pod that the watch has not shown ------------------------------------------------------------------------------


@pytest.mark.row("B-91")
@pytest.mark.parametrize("others_wait", [True, False])
async def test_the_answer_waits_for_the_watch_even_where_filter_does_not(*, others_wait: bool) -> None:
    of = bench()
    of.ledger.arrivals.pause(0 if others_wait else float("inf"))
    victims = {"n1": {"Pods": [{"UID": "uid-b"}], "NumPDBViolations": 0}}
    answer = asyncio.ensure_future(of.preempt_unseen(late := high("late"), victims))
    await asyncio.sleep(0)
    assert not answer.done()
    of.put(late)
    assert uids(await answer) == {"n1": ["uid-b"]}


# --- a pod that no queue governs -------------------------------------------------------------------------------------


def free(name: str = "p", gpus: int = 4, priority: str = "system-node-critical") -> Json:
    return pod(name, "", gpus, labels={"priorityClassName": priority})


@pytest.mark.row("B-10", case="passes")
def test_the_proposal_for_a_pod_without_a_queue_passes_through() -> None:
    of = Bench(node("n1"), pod("a", gpus=4, on="n1"), pod("b", gpus=4, on="n1"))
    assert uids(ask(of, free(), n1=["uid-b"])) == {"n1": ["uid-b"]}
    assert not of.ledger.doomed


@pytest.mark.row("B-10", case="passes")
def test_preemptible_pods_of_any_queue_make_room_for_one_without_a_queue_by_priority() -> None:
    assert uids(ask(bench(), free(), n1=["uid-b"], n2=["uid-x"])) == {"n1": ["uid-b"], "n2": ["uid-x"]}


@pytest.mark.row("B-10", case="empty")
def test_a_node_without_victims_is_dropped_for_a_pod_without_a_queue() -> None:
    assert uids(ask(bench(), free(), n1=[], n2=["uid-x"])) == {"n2": ["uid-x"]}


@pytest.mark.row("B-10", case="unseen")
def test_a_node_with_a_victim_that_no_watch_has_shown_is_dropped() -> None:
    assert uids(ask(bench(), free(), n1=["uid-b", "uid-unseen"], n2=["uid-x"])) == {"n2": ["uid-x"]}


@pytest.mark.row("B-10", case="promised")
def test_a_node_whose_room_is_promised_to_others_is_dropped() -> None:
    of = bench()
    of.ledger.put_promises([Promise(plan="plan", pod="ns/x", shape=Shape(gpus=8), node="n1", queue="team")])
    assert uids(ask(of, free(), n1=["uid-b"], n2=["uid-x"])) == {"n2": ["uid-x"]}


@pytest.mark.row("B-10", case="protected")
@pytest.mark.parametrize(
    "victim",
    [
        low("b", fixed=True),
        pod("b", "team", 4, on="n1", labels={"priorityClassName": "build-preemptible"}),
        low("b", annotations={"pod-group-name": "g"}),
    ],
    ids=["non-preemptible", "same-priority", "gang-minimum"],
)
def test_a_governed_victim_is_protected_from_a_pod_without_a_queue_too(victim: Json) -> None:
    gang = group("g", 2, "team") | {"spec": {"minMember": 2, "queue": "team", "priorityClassName": "train"}}
    other = low("a", annotations={"pod-group-name": "g"})
    of = Bench(node("n1"), queue("team"), gang, other, victim)
    assert ask(of, free(priority="build-preemptible"), n1=["uid-b"]) == NOBODY


@pytest.mark.row("B-10", case="protected")
def test_a_minimum_run_time_protects_from_a_pod_without_a_queue_too() -> None:
    of = bench()
    of.put(queue("team") | {"spec": {"preemptMinRuntime": "10m", "resources": {"gpu": {"limit": -1, "quota": -1}}}})
    of.put(low("b", status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}))
    of.today = 1_767_225_600 + 599
    assert ask(of, free(), n1=["uid-b"]) == NOBODY


@pytest.mark.row("B-10", case="budget")
def test_a_disruption_budget_is_kube_schedulers_affair_for_a_pod_without_a_queue() -> None:
    budget: Json = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": LOW}},
        "status": {"disruptionsAllowed": 0},
    }
    assert uids(ask(bench(budget), free(), n1=["uid-b"])) == {"n1": ["uid-b"]}


def test_where_pods_need_a_queue_none_is_evicted_for_one_without() -> None:
    of = bench()
    of.config = ExtenderConfig(pods_without_queue="refuse")
    assert ask(of, free(), n1=["uid-b"]) == NOBODY
