"""What kube-scheduler is told: limits, quotas and reservations, and nothing that changes from one time to the next."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec
import pytest
from gpuyard.common.extender_config import Consolidation, ExtenderConfig, Filter
from gpuyard.engine.model import Promise
from gpuyard.extender.http import wire
from gpuyard.extender.http.server import Unavailable
from gpuyard.extender.http.wire import HostPriority, WireError
from gpuyard.extender.ledger import IN_FLIGHT, NOT_SEEN_SENTENCE, NOT_SEEN_YET
from gpuyard.extender.ledger.arrivals import LONGEST_WAIT, PAUSE
from msgspec.structs import replace

from tests.extender.builders import Bench, at_once, call, group, node, pod, queue

NODES = [node(f"n{number}") for number in range(1, 5)]
NAMES = ["n1", "n2", "n3", "n4"]


def running(name: str, count: int, **more: object) -> list[dict[str, object]]:
    return [pod(f"{name}-{number}", name, on="n1", **more) for number in range(count)]  # type: ignore[arg-type]


@pytest.mark.row("E-01")
def test_a_pod_within_its_bounds_gets_names_and_no_reasons() -> None:
    answer = Bench(*NODES, queue("team")).filter(pod("p", "team"))
    assert set(answer.node_names or ()) == set(NAMES)
    assert (answer.nodes, answer.failed_nodes, answer.failed_and_unresolvable_nodes, answer.error) == (None, {}, {}, "")


@pytest.mark.row("E-01")
def test_a_pod_over_its_limit_gets_one_sentence_for_every_node() -> None:
    answer = Bench(*NODES, queue("team", limit=0)).filter(pod("p", "team"))
    sentence = "queue team has a limit of 0 GPUs"
    assert (answer.node_names, answer.failed_nodes, answer.error) == ([], {}, "")
    assert answer.failed_and_unresolvable_nodes == dict.fromkeys(NAMES, sentence)


@pytest.mark.row("E-02")
def test_whole_nodes_come_back_whole() -> None:
    bench = Bench(*NODES, queue("team"))
    bench.show(waiting := pod("p", "team"))
    asked = msgspec.json.encode({"Pod": waiting, "Nodes": {"items": NODES[:2]}, "NodeNames": None})
    answer = msgspec.json.decode(wire.write(at_once(bench.verbs.filter(wire.CANDIDATES.read(asked)))))
    assert sorted(answer["Nodes"]["items"], key=str) == sorted(NODES[:2], key=str)
    assert answer["NodeNames"] is None


@pytest.mark.row("E-04", case="no-gpu")
def test_a_pod_without_gpu_and_queue_gets_all_nodes_back_unchanged() -> None:
    many = [f"x{number:03}" for number in range(100)]
    assert Bench(*NODES).filter(pod("p", gpus=0), *many).node_names == many


@pytest.mark.row("E-04", case="no-queue")
def test_a_gpu_pod_without_queue_gets_the_best_nodes() -> None:
    bench = Bench(*[node(f"n{number:03}") for number in range(50)])
    assert len(bench.filter(pod("p")).node_names or ()) == 32
    assert bench.used("") == 0


@pytest.mark.row("E-05")
def test_a_full_queue_refuses_with_the_same_bytes_every_time() -> None:
    bench = Bench(*NODES, queue("team", limit=8), *running("team", 8))
    asked = pod("p", "team")
    answers = {wire.write(bench.filter(asked)) for _ in range(100)}
    assert len(answers) == 1
    assert b'"NodeNames":[]' in answers.pop()


def test_the_sentence_holds_no_number_that_moves() -> None:
    bench = Bench(*NODES, queue("team", limit=2), *running("team", 2))
    before = bench.filter(pod("p", "team"))
    bench.put(*running("team", 3)[2:])
    assert wire.write(bench.filter(pod("p", "team"))) == wire.write(before)


@pytest.mark.row("E-06")
def test_a_pod_filtered_twice_in_one_cycle_is_reserved_once() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    asked = pod("p", "team")
    bench.put(asked)
    assert bench.passes(asked, "n2")
    assert bench.passes(asked)
    assert bench.used("team") == 1


@pytest.mark.row("E-07")
def test_what_was_granted_and_is_not_bound_yet_is_taken() -> None:
    bench = Bench(*NODES, queue("team", limit=8), *running("team", 7))
    assert bench.passes(pod("a", "team"))
    assert not bench.passes(pod("b", "team"))


@pytest.mark.row("E-08", case="deleted")
def test_a_deleted_pod_leaves_its_unit_to_the_next() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    first = pod("a", "team")
    bench.put(first)
    assert bench.passes(first)
    bench.drop(first)
    assert bench.passes(pod("b", "team"))


@pytest.mark.row("E-08", case="deleted")
def test_who_is_asked_about_after_his_deletion_holds_nothing() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    first = pod("a", "team")
    bench.put(first)
    bench.drop(first)
    answer = bench.filter(first)
    assert set(answer.failed_and_unresolvable_nodes.values()) == {"the pod is deleted"}
    assert bench.used("team") == 0
    assert bench.passes(pod("b", "team"))


@pytest.mark.row("E-08", case="expired")
def test_a_reservation_that_nobody_confirms_ends_with_its_time() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    assert bench.passes(pod("a", "team"))
    bench.now = 59
    assert not bench.passes(pod("b", "team"))
    bench.now = 60
    assert bench.passes(pod("b", "team"))


def test_a_pod_with_volumes_keeps_its_reservation_as_long_as_their_binding_may_take() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    assert bench.passes(pod("a", "team", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    bench.now = 659
    assert not bench.passes(pod("b", "team"))


def test_a_refusal_by_kube_scheduler_after_the_yes_gives_the_unit_back() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    assert bench.passes(pod("a", "team"))
    bench.put(pod("a", "team", verdict="the volume could not be bound"))
    bench.now = IN_FLIGHT
    assert bench.passes(pod("b", "team"))


def test_a_pod_that_is_refused_after_a_yes_gives_its_unit_back() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    first = pod("a", "team")
    bench.put(first)
    assert bench.passes(first)
    bench.put(queue("team", limit=0))
    assert not bench.passes(first)
    assert bench.used("team") == 0


@pytest.mark.row("E-25", case="preemptible")
def test_over_its_quota_a_queue_may_borrow_with_preemptible_pods() -> None:
    bench = Bench(*NODES, queue("team", quota=4), *running("team", 4, fixed=True), pod("x", "team", 2, on="n2"))
    assert bench.passes(pod("p", "team"))


@pytest.mark.row("E-25", case="non-preemptible")
def test_over_its_quota_a_queue_may_not_borrow_for_good() -> None:
    bench = Bench(*NODES, queue("team", quota=4), *running("team", 4, fixed=True), pod("x", "team", 2, on="n2"))
    answer = bench.filter(pod("p", "team", fixed=True))
    assert not answer.node_names
    assert bench.refusals == ["NonPreemptibleOverQuota"]


@pytest.mark.row("E-26")
def test_a_department_at_its_limit_refuses_and_is_named() -> None:
    bench = Bench(*NODES, queue("dept", limit=2), queue("team", parent="dept"), queue("other", parent="dept"))
    bench.put(*running("other", 2))
    reasons = bench.filter(pod("p", "team")).failed_and_unresolvable_nodes
    assert set(reasons.values()) == {"queue dept has a limit of 2 GPUs"}


@pytest.mark.row("E-29")
def test_the_best_few_of_many_fitting_nodes_are_offered() -> None:
    bench = Bench(queue("team"), *[node(f"n{number:03}") for number in range(50)], config=_short())
    bench.put(*[pod(f"u{number}", "team", number, on=f"n{number:03}") for number in range(1, 8)])
    offered = [f"n{number:03}" for number in range(1, 50, 2)]
    answer = bench.filter(pod("p", "team"), *offered)
    assert (answer.node_names or [])[:4] == ["n007", "n005", "n003", "n001"]
    assert len(answer.node_names or ()) == 10
    assert set(answer.node_names or ()) <= set(offered)


@pytest.mark.row("E-29")
def test_all_of_a_few_fitting_nodes_are_offered() -> None:
    bench = Bench(*NODES, queue("team"))
    assert sorted(bench.filter(pod("p", "team"), "n4", "n2").node_names or ()) == ["n2", "n4"]


@pytest.mark.row("E-30")
def test_gpus_of_an_init_container_count_as_the_larger_of_both() -> None:
    bench = Bench(*NODES, queue("team", limit=4))
    assert bench.passes(pod("a", "team", 1, init=3))
    assert bench.used("team") == 3
    assert not bench.passes(pod("b", "team", 2))


def test_a_pod_of_an_unknown_queue_waits_and_hears_the_nearest_name() -> None:
    reasons = Bench(*NODES, queue("team-red")).filter(pod("p", "team-rad")).failed_and_unresolvable_nodes
    assert "team-rad" in reasons["n1"]
    assert "team-red" in reasons["n1"]


def test_a_gang_that_is_not_whole_waits() -> None:
    member = pod("a", annotations={"pod-group-name": "g"})
    bench = Bench(*NODES, queue("team"), group("g", 2, "team"), member)
    assert not bench.passes(member)
    assert bench.refusals == ["GangIncomplete"]


def test_a_gang_must_fit_its_limit_as_a_whole() -> None:
    members = [pod(name, annotations={"pod-group-name": "g"}) for name in ("a", "b", "c")]
    bench = Bench(*NODES, queue("team", limit=2), group("g", 3, "team"), *members)
    assert not any(bench.passes(member) for member in members)
    assert set(bench.refusals) == {"OverLimit"}


def test_a_default_queue_governs_pods_that_name_none() -> None:
    bench = Bench(*NODES, queue("rest", limit=1), config=ExtenderConfig(default_queue="rest"))
    assert bench.passes(pod("a"))
    assert not bench.passes(pod("b"))


def test_pods_without_queue_are_refused_where_that_is_wanted() -> None:
    bench = Bench(*NODES, config=ExtenderConfig(pods_without_queue="refuse"))
    assert not bench.passes(pod("p"))
    assert bench.refusals == ["QueueMissing"]


def test_a_pod_that_cannot_be_read_is_refused_with_the_field() -> None:
    bench = Bench(*NODES, queue("team"))
    answer = bench.filter(pod("p", "team", 0, annotations={"gpu-fraction": "half"}))
    assert "gpu-fraction" in answer.failed_and_unresolvable_nodes["n1"]
    assert bench.refusals == ["Unreadable"]


def test_a_call_without_nodes_reserves_nothing() -> None:
    bench = Bench(queue("team"), waiting := pod("p", "team"))
    assert at_once(bench.verbs.filter(call(waiting))).node_names == []
    assert bench.used("team") == 0


def test_nothing_is_decided_while_the_cluster_is_not_known() -> None:
    bench = Bench(*NODES, queue("team"))
    bench.unavailable = "not yet"
    for verb in (bench.verbs.filter, bench.verbs.prioritize):
        with pytest.raises(Unavailable, match="not yet"):
            verb(call(pod("p", "team"), "n1"))
    assert not bench.ledger.entries


def test_a_pod_without_a_name_is_no_pod() -> None:
    with pytest.raises(WireError, match="name"):
        Bench(*NODES).filter(pod("") | {"metadata": {}})


@pytest.mark.row("E-11")
def test_every_node_asked_about_gets_a_whole_number_of_points() -> None:
    bench = Bench(*NODES, queue("team"), pod("u", "team", 6, on="n2"), pod("v", "team", 3, on="n3"))
    found = bench.verbs.prioritize(call(pod("p", "team"), "n1", "n2", "n3", "unknown"))
    assert found == [HostPriority("n1", 0), HostPriority("n2", 9), HostPriority("n3", 5), HostPriority("unknown", 0)]


def test_a_lower_limit_of_the_answer_is_obeyed_at_once() -> None:
    bench = Bench(*[node(f"n{number:03}") for number in range(50)], queue("team"))
    bench.config = replace(bench.config, filter=Filter(max_nodes=12))
    assert len(bench.filter(pod("p", "team")).node_names or ()) == 12


def _short() -> ExtenderConfig:
    return ExtenderConfig(filter=Filter(max_nodes=10))


HALF = {"gpu-fraction": "0.5"}


def half(name: str, queue: str = "team", on: str = "", **labels: str) -> dict[str, object]:
    return pod(name, queue, 0, on=on, annotations=HALF, labels=labels)


def test_part_of_a_gpu_is_only_to_be_had_where_there_is_room() -> None:
    bench = Bench(node("cpu", 0), node("full", 1), node("half", 1), node("free", 1), queue("team"))
    bench.put(pod("x", "team", on="full"), half("a", on="half", **{"runai-gpu-group": "g"}))
    assert bench.filter(half("p")).node_names == ["half", "free"], "a GPU in use first"


def test_without_room_for_part_of_a_gpu_there_is_one_sentence() -> None:
    bench = Bench(node("cpu", 0), node("full", 1), queue("team"), pod("x", "team", on="full"))
    answer = bench.filter(half("p"))
    assert answer.failed_and_unresolvable_nodes == dict.fromkeys(["cpu", "full"], "no node fits")
    assert bench.refusals == ["PodSchedulingErrors"]


def test_parts_of_gpus_in_flight_are_not_given_away_again() -> None:
    bench = Bench(node("n1", 1), queue("team"))
    granted = [bench.passes(half(name)) for name in ("a", "b", "c")]
    assert granted == [True, True, False], "kube-scheduler counts none of them"


def test_whole_gpus_are_not_promised_where_parts_are_in_use() -> None:
    bench = Bench(node("n1", 1), node("n2", 1), queue("team"), half("a", on="n1"))
    assert bench.filter(pod("p", "team")).node_names == ["n2"]


def test_pods_without_queue_are_not_held_back_by_their_gang() -> None:
    member = pod("a", annotations={"pod-group-name": "g"})
    assert Bench(*NODES, group("g", 2, ""), member).passes(member)


def test_what_nobody_governs_passes_whatever_it_says() -> None:
    assert Bench(*NODES).passes(pod("p", "", 1, annotations={"kai.scheduler/preemption-delay": "soon"}))


def test_a_pod_hears_of_its_own_faults_only_and_briefly() -> None:
    other = pod("a", "team", annotations={"pod-group-name": "g", "kai.scheduler/preemption-delay": "later"})
    mine = pod("b", "team", annotations={"pod-group-name": "g", "kai.scheduler/preemption-delay": "x" * 5000})
    reasons = Bench(*NODES, queue("team"), other, mine).filter(mine).failed_and_unresolvable_nodes
    assert "later" not in reasons["n1"]
    assert len(reasons["n1"]) < 400


def test_with_nodes_to_be_kept_empty_only_those_in_use_are_offered() -> None:
    config = ExtenderConfig(consolidation=Consolidation(keep_nodes_empty=True))
    bench = Bench(*NODES, queue("team"), pod("u", "team", 7, on="n2"), config=config)
    assert bench.filter(pod("p", "team")).node_names == ["n2"]
    refused = bench.filter(pod("large", "team", 4), "n1", "n3", "n4").failed_and_unresolvable_nodes
    assert set(refused.values()) == {"room is being made for it"}
    assert len(bench.filter(pod("ungoverned", gpus=4), "n1", "n3", "n4").node_names or ()) == 3


NOMINATED = {"phase": "Pending", "nominatedNodeName": "n1"}


@pytest.mark.row("E-31")
def test_whoever_was_nominated_goes_before_those_who_rank_before_it() -> None:
    bench = Bench(node("n1"), queue("team"), pod("first", "team", 8), late := pod("late", "team", 8))
    bench.ledger.offer(bench.ledger.entries["ns/first"].seen.pod, ["n1"], 0)
    assert not bench.passes(late)
    assert bench.refusals == ["Outranked"]
    assert bench.passes(pod("late", "team", 8, status=NOMINATED))


@pytest.mark.row("E-31")
def test_whoever_was_nominated_gets_the_node_that_its_victims_have_left_empty() -> None:
    config = ExtenderConfig(consolidation=Consolidation(keep_nodes_empty=True))
    bench = Bench(node("n1"), queue("team"), config=config)
    assert not bench.passes(pod("p", "team"))
    assert bench.passes(pod("p", "team", status=NOMINATED))


def test_a_limit_lowered_below_use_lets_nobody_new_in_and_takes_nobody_away() -> None:
    bench = Bench(*NODES, queue("team", limit=8), *running("team", 6))
    bench.put(queue("team", limit=4))
    assert not bench.passes(pod("p", "team"))
    assert bench.used("team") == 6


def test_a_department_that_is_deleted_in_use_lets_nobody_in() -> None:
    bench = Bench(*NODES, dept := queue("dept", limit=5), queue("team", parent="dept"), *running("team", 4))
    bench.drop(dept)
    assert not bench.passes(pod("p", "team"))
    bench.put(dept)
    assert bench.passes(pod("p", "team"))
    assert not bench.passes(pod("q", "team"))


def test_the_pods_of_a_deleted_queue_hold_their_room_and_count_again_when_it_is_back() -> None:
    bench = Bench(*NODES, queue("team", limit=6), *running("team", 6))
    bench.drop(queue("team"))
    assert not bench.passes(pod("p", "team"))
    assert bench.refusals == ["QueueDoesNotExist"]
    assert bench.ledger.snapshot.room["n1"].idle == 2
    bench.put(queue("team", limit=6))
    assert not bench.passes(pod("p", "team"))
    assert bench.refusals == ["QueueDoesNotExist", "OverLimit"]


def test_a_wall_clock_that_jumps_ends_no_reservation() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    assert bench.passes(pod("a", "team"))
    bench.today += 10**6
    assert not bench.passes(pod("b", "team"))
    bench.today -= 2 * 10**6
    assert not bench.passes(pod("b", "team"))


# --- a call asks, the watch tells ------------------------------------------------------------------------------------

UNSEEN = dict.fromkeys(NAMES, NOT_SEEN_SENTENCE)


def forged(thing: dict[str, Any], **metadata: object) -> dict[str, Any]:
    """A call's word on a pod: another queue, the highest priority, a version that nothing exceeds."""
    labels = {"kai.scheduler/queue": "other", "priorityClassName": "inference"}
    named = thing["metadata"] | {"labels": labels, "resourceVersion": str(2**63 - 1)} | metadata
    return thing | {"metadata": named, "spec": thing["spec"] | {"priority": 10**9}}


@pytest.mark.row("X-02", case="pod")
async def test_what_a_call_says_of_a_known_pod_counts_for_nothing() -> None:
    bench = Bench(*NODES, queue("team", limit=0), queue("other"), waiting := pod("p", "team"))
    answer = await bench.filter_unseen(forged(waiting))
    assert answer.failed_and_unresolvable_nodes == dict.fromkeys(NAMES, "queue team has a limit of 0 GPUs")
    assert bench.ledger.entries["ns/p"].seen.version == int(waiting["metadata"]["resourceVersion"])
    assert bench.ledger.snapshot.workloads["ns/p"].priority == 50


@pytest.mark.row("X-02", case="nodes")
def test_a_node_that_only_a_call_names_is_not_answered() -> None:
    bench = Bench(*NODES, queue("team"))
    assert bench.filter(pod("p", "team"), "invented", "n1").node_names == ["n1"]


@pytest.mark.row("X-03", case="filter")
@pytest.mark.row("X-05", case="unseen")
async def test_a_pod_that_the_watch_never_shows_is_refused_and_reserves_nothing() -> None:
    bench = Bench(*NODES, queue("team", limit=1))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    for number in range(20):
        answer = await bench.filter_unseen(pod(f"invented-{number}", "team", volumes=volumes))
        assert answer.failed_and_unresolvable_nodes == UNSEEN
    assert (bench.used("team"), dict(bench.ledger.entries), bench.ledger.asleep) == (0, {}, {})
    assert set(bench.refusals) == {NOT_SEEN_YET}
    assert bench.passes(pod("real", "team"))


@pytest.mark.row("X-03", case="preempt")
async def test_no_pod_is_evicted_for_one_that_the_watch_does_not_show() -> None:
    low = pod("low", "team", 8, on="n1", labels={"priorityClassName": "train"})
    bench = Bench(*NODES, queue("team"), low)
    high = pod("invented", "team", 8, labels={"priorityClassName": "build-preemptible"})
    body = {"Pod": high, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}]}}}
    found = bench.verbs.preempt(wire.PREEMPTION.read(msgspec.json.encode(body)))
    assert isinstance(found, Awaitable)
    assert await found == wire.PreemptAnswer()
    assert not bench.ledger.doomed
    assert bench.preempt(high, {"n1": {"Pods": [{"UID": "uid-low"}]}}) != wire.PreemptAnswer()


@pytest.mark.row("X-04")
async def test_a_call_that_names_a_running_pod_with_another_uid_leaves_it_on_the_books() -> None:
    bench = Bench(*NODES, queue("team"), running := pod("p", "team", 8, on="n1"))
    answer = await bench.filter_unseen(forged(running, uid="invented"))
    assert answer.failed_and_unresolvable_nodes == UNSEEN
    assert bench.used("team") == 8
    assert bench.ledger.snapshot.room["n1"].idle == 0


@pytest.mark.row("X-05", case="unseen")
async def test_a_call_waits_for_the_watch_to_show_its_pod() -> None:
    bench = Bench(*NODES, queue("team"))
    waiting = asyncio.ensure_future(bench.filter_unseen(late := pod("p", "team")))
    await asyncio.sleep(0)
    bench.put(late)
    assert set((await waiting).node_names or ()) == set(NAMES)


@pytest.mark.row("X-05", case="ahead")
async def test_a_call_that_is_ahead_waits_for_that_version_of_its_pod() -> None:
    bench = Bench(*NODES, queue("team", limit=0), queue("other"), pod("p", "team"))
    waiting = asyncio.ensure_future(bench.filter_unseen(later := pod("p", "other")))
    await asyncio.sleep(0)
    bench.put(later)
    assert set((await waiting).node_names or ()) == set(NAMES)


@pytest.mark.row("X-05", case="others")
async def test_other_calls_go_on_while_one_waits() -> None:
    bench = Bench(*NODES, queue("team"))
    waiting = asyncio.ensure_future(bench.filter_unseen(pod("invented", "team")))
    await asyncio.sleep(0)
    assert bench.passes(pod("real", "team"))
    assert not waiting.done()
    assert (await waiting).failed_and_unresolvable_nodes == UNSEEN


@pytest.mark.row("X-05", case="paused")
async def test_after_a_vain_wait_no_call_waits_for_a_second() -> None:
    bench = Bench(*NODES, queue("team"))
    await bench.filter_unseen(pod("invented", "team"))
    assert bench.filter_at_once(pod("another", "team")).failed_and_unresolvable_nodes == UNSEEN
    bench.now = LONGEST_WAIT + PAUSE * LONGEST_WAIT
    third = bench.verbs.filter(call(pod("third", "team"), "n1"))
    assert isinstance(third, Coroutine)
    third.close()


async def test_a_pod_of_which_a_call_knew_more_in_vain_is_woken_by_its_next_version() -> None:
    bench = Bench(*NODES, queue("team", limit=0), waiting := pod("p", "team"))
    await bench.filter_unseen(forged(waiting))
    bench.filter_at_once(forged(waiting))
    bench.put(pod("p", "team"))
    assert bench.ledger.take_called() == {"ns/p"}


async def test_what_cannot_be_decided_any_more_after_a_wait_is_said() -> None:
    bench = Bench(*NODES, queue("team"))
    waiting = asyncio.ensure_future(bench.filter_unseen(pod("invented", "team")))
    await asyncio.sleep(0)
    bench.unavailable = "another one leads"
    with pytest.raises(Unavailable, match="another one leads"):
        await waiting


@pytest.mark.row("B-03", case="filter")
def test_gpu_memory_is_held_against_the_limit_by_the_gpu_of_each_node() -> None:
    small, large = node("small"), node("large")
    for one, mib in ((small, "16384"), (large, "81920")):
        one["metadata"]["labels"] = {"nvidia.com/gpu.memory": mib}
    part = {"gpu-memory": "16384"}
    bench = Bench(small, large, queue("team", limit=0.3))
    assert bench.filter(pod("p", "team", 0, annotations=part)).node_names == ["large"]
    refused = bench.filter(pod("q", "team", 0, annotations=part), "small")
    assert "queue team has a limit of 0.3 GPUs" in refused.failed_and_unresolvable_nodes["small"]


@pytest.mark.row("B-03", case="deep")
def test_a_queue_that_hangs_too_deep_is_refused() -> None:
    deep = [queue(f"q{depth}", parent=f"q{depth - 1}" if depth else "") for depth in range(40)]
    assert not Bench(*NODES, *deep).passes(pod("p", "q39"))


# --- what pods ask for themselves -------------------------------------------------------------------------------------

MANY = [node(f"m{number:02}") for number in range(40)]
HOST = "kubernetes.io/hostname"
TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
APART = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]}
}
SPREAD = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
RACK = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
NEAR = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": RACK}]}}


@pytest.mark.row("B-12", case="preference")
@pytest.mark.parametrize("spec", [{"affinity": APART}, {"affinity": NEAR}, {"topologySpreadConstraints": [SPREAD]}])
def test_a_pod_with_a_preference_of_its_own_gets_all_nodes_and_no_points(spec: dict[str, Any]) -> None:
    bench = Bench(*MANY, queue("team"), pod("x", on="m07"))
    asked = pod("p", "team", **spec)
    names = bench.filter(asked).node_names or []
    assert len(names) == len(MANY)
    assert {one.score for one in bench.verbs.prioritize(call(asked, *names))} == {0}


@pytest.mark.row("B-12", case="preference")
@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    ],
)
def test_what_a_pod_requires_leaves_packing_to_decide(spec: dict[str, Any]) -> None:
    bench = Bench(*MANY, queue("team"), pod("x", on="m07"))
    asked = pod("p", "team", **spec)
    names = bench.filter(asked).node_names or []
    assert len(names) == 32
    assert {one.score for one in bench.verbs.prioritize(call(asked, *names))} != {0}


def softly_tainted(name: str) -> dict[str, Any]:
    return node(name) | {"spec": {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}}


@pytest.mark.row("B-12", case="taint")
def test_where_a_node_would_rather_not_have_the_pod_kube_scheduler_decides() -> None:
    bench = Bench(*MANY[1:], softly_tainted("m00"), queue("team"), pod("x", on="m00"))
    assert len(bench.filter(pod("p", "team")).node_names or []) == len(MANY)
    tolerant = pod("q", "team", tolerations=[{"key": "old", "operator": "Exists"}])
    assert len(bench.filter(tolerant).node_names or []) == 32


@pytest.mark.row("B-12", case="promise")
def test_a_promise_comes_before_a_preference() -> None:
    bench = Bench(*MANY, queue("team"), pod("p", "team", affinity=NEAR))
    shape = bench.ledger.entries["ns/p"].seen.pod.shape
    bench.ledger.put_promises([Promise(plan="plan", pod="ns/p", shape=shape, node="m11", queue="team")])
    assert bench.filter(pod("p", "team", affinity=NEAR)).node_names == ["m11"]
