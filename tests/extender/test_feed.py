"""How what the watches show gets into the ledger."""

import itertools

from gpuyard.common.cluster.objects import OwnerMeta, PodOwner
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.client import Client
from gpuyard.engine.kube.objects import Notes
from gpuyard.extender.ledger import Phase

from tests.extender.builders import Bench, Json, group, node, pod, queue, typed


def phase(bench: Bench, name: str) -> Phase:
    return bench.ledger.entries[f"ns/{name}"].phase


def test_a_pod_lives_and_is_gone() -> None:
    bench = Bench(node("n1"), queue("team"))
    bench.put(pod("p", "team"))
    assert phase(bench, "p") is Phase.PENDING
    bench.put(running := pod("p", "team", on="n1"))
    assert phase(bench, "p") is Phase.BOUND
    bench.drop(running)
    assert not bench.ledger.entries
    assert not bench.translator.pods


def test_a_node_grows_and_goes() -> None:
    bench = Bench(node("n1", 4))
    bench.put(node("n1", 8))
    assert bench.ledger.snapshot.fleet.nodes["n1"].gpus == 8
    bench.drop(node("n1"))
    assert not bench.ledger.snapshot.fleet.nodes


def test_of_several_changes_of_one_node_the_last_one_counts() -> None:
    bench = Bench(old := node("n1", 4))
    larger, new = node("n1", 8), node("n1", 2)
    changes = [(old, larger), (larger, None), (None, new)]
    batch = Batch([Change(one and typed(one), other and typed(other)) for one, other in changes])
    bench.feed.nodes(batch)
    assert bench.ledger.snapshot.fleet.nodes["n1"].gpus == 2
    bench.feed.nodes(Batch([Change(typed(new), typed(larger)), Change(typed(larger), None)]))
    assert not bench.ledger.snapshot.fleet.nodes


def test_a_heartbeat_changes_nothing() -> None:
    bench = Bench(node("n1"))
    before = bench.ledger.snapshot
    bench.put(node("n1"))
    assert bench.ledger.snapshot is before


HALF_READ = {"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}}


def test_a_node_that_cannot_be_read_leaves_its_last_good_state_in_force() -> None:
    bench = Bench(node("n1", 4))
    bench.put(node("n1", 8) | HALF_READ)
    assert bench.ledger.snapshot.fleet.nodes["n1"].gpus == 4
    assert "Sometimes" in bench.reports[0]
    assert "its last good state stays in force" in bench.reports[0]


def test_a_new_node_counts_as_far_as_it_can_be_read() -> None:
    bench = Bench(node("n1") | HALF_READ)
    assert bench.ledger.snapshot.fleet.nodes["n1"].gpus == 8
    assert "it counts as far as it can be read" in bench.reports[0]


def test_a_queue_changes_and_goes() -> None:
    bench = Bench(queue("team", limit=1))
    bench.put(queue("team", limit=2))
    assert bench.ledger.snapshot.queues["team"].limit.gpu == 2000
    bench.drop(queue("team"))
    assert not bench.ledger.snapshot.queues


def test_a_queue_with_nonsense_leaves_the_last_good_one_in_force() -> None:
    bench = Bench(queue("team", limit=1))
    bench.put(queue("team", limit=-7))
    assert bench.ledger.snapshot.queues["team"].limit.gpu == 1000
    assert "queue team" in bench.reports[0]
    assert "limit" in bench.reports[0]


def test_queues_in_a_circle_are_refused_until_the_circle_is_open() -> None:
    bench = Bench(queue("a"), queue("b", parent="a"))
    bench.put(queue("a", parent="b"))
    assert bench.ledger.snapshot.queues["a"].parent == ""
    assert "ancestor" in bench.reports[0]
    bench.put(queue("b"))
    assert bench.ledger.snapshot.queues["a"].parent == "b"


def test_of_two_new_queues_that_name_each_other_the_second_is_refused() -> None:
    bench = Bench(node("n1"), queue("a", parent="b"), queue("b", parent="a"))
    assert set(bench.ledger.snapshot.queues) == {"a"}
    assert "queue b" in bench.reports[0]
    assert not bench.passes(pod("p", "a"), "n1"), "its queue has no root"
    bench.put(queue("b"))
    assert bench.passes(pod("p", "a"), "n1")


def test_a_new_queue_that_names_itself_is_refused() -> None:
    bench = Bench(queue("a", parent="a"))
    assert not bench.ledger.snapshot.queues
    assert "ancestor" in bench.reports[0]


def test_a_circle_of_three_is_refused_whoever_comes_last() -> None:
    for order in itertools.permutations((queue("a", parent="b"), queue("b", parent="c"), queue("c", parent="a"))):
        assert len(Bench(*order).ledger.snapshot.queues) == 2


def test_a_refused_queue_that_is_deleted_is_forgotten() -> None:
    bench = Bench(queue("a"), queue("b", parent="a"))
    bench.put(bad := queue("a", parent="b"))
    bench.drop(bad)
    bench.put(queue("b"))
    assert set(bench.ledger.snapshot.queues) == {"b"}


def test_labels_of_namespaces_are_kept() -> None:
    named = {"kind": "Namespace", "metadata": {"name": "ns", "labels": {"kai.scheduler/queue": "team"}}}
    bench = Bench(named, config=ExtenderConfig(namespace_match="label"))
    assert bench.ledger.snapshot.namespaces == {"ns": "team"}
    bench.drop(named)
    assert bench.ledger.snapshot.namespaces == {}


def test_a_pod_with_a_fault_is_told_and_counted() -> None:
    bench = Bench(node("n1"), queue("team"), pod("p", "team", on="n1", annotations={"gpu-fraction": "half"}))
    assert "pod ns/p" in bench.reports[0]
    assert bench.used("team") == 1


def test_after_a_start_only_undecided_pods_are_adopted() -> None:
    bench = Bench(node("n1"), queue("team"))
    claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    bench.put(
        pod("undecided", "team"),
        pod("refused", "team", verdict="0/1 nodes"),
        pod("volumes", "team", verdict="0/1 nodes", volumes=claims),
        pod("gated", "team", schedulingGates=[{"name": "g"}]),
        pod("free"),
        pod("others", "team", schedulerName="volcano"),
        pod("running", "team", on="n1"),
    )
    bench.feed.adopt(until=lambda _: 60)
    assert {name for name, entry in bench.ledger.entries.items() if entry.phase is Phase.RESERVED} == {
        "ns/undecided",
        "ns/volumes",
    }
    assert set(bench.ledger.asleep) == {"ns/refused"}


def test_an_adopted_pod_with_volumes_counts_as_long_as_their_binding_may_take() -> None:
    bench = Bench(node("n1"), queue("team"))
    bench.put(pod("volumes", "team", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    bench.put(pod("plain", "team"))
    bench.feed.adopt(lambda seen: bench.config.ttl(claims_volumes=seen.claims_volumes))
    bench.ledger.expire(60)
    assert bench.ledger.granted == {"ns/volumes"}
    bench.ledger.expire(660)
    assert not bench.ledger.granted


def test_the_status_of_a_queue_is_no_news() -> None:
    bench = Bench(queue("team", limit=1))
    bench.ledger.take_news()
    bench.put(queue("team", limit=1) | {"status": {"allocated": {"gpu": 1}}})
    assert not bench.ledger.take_news()


WATCHED = ["priorityclasses", "podgroups", "queues", "namespaces", "poddisruptionbudgets", "nodes", "pods"]


def test_there_is_one_watch_for_each_kind() -> None:
    watches = Bench().feed.reflectors(Client.__new__(Client))
    assert [watch.address.about for watch in watches[-len(WATCHED) :]] == WATCHED
    assert {watch.address.about for watch in watches[: -len(WATCHED)]} == {
        "jobs",
        "pytorchjobs",
        "tfjobs",
        "xgboostjobs",
        "jaxjobs",
        "mpijobs",
        "rayclusters",
        "leaderworkersets",
        "topologies",
        "plans",
    }


def test_what_is_unreadable_now_is_counted_until_it_is_put_right_or_gone() -> None:
    bench = Bench(node("n1", 4), node("n2"), queue("team"))
    wrong = pod("p", "team", annotations={"gpu-fraction": "2"})
    bench.put(node("n1", 8) | HALF_READ)
    bench.put(node("n2", 8) | HALF_READ)
    bench.put(wrong)
    bench.put(queue("team", limit=-2))
    assert bench.feed.unreadable() == {"nodes": 2, "pods": 1, "queues": 1}
    bench.put(node("n1", 8))
    bench.drop(node("n2"))
    bench.drop(wrong)
    bench.put(queue("team"))
    assert bench.feed.unreadable() == {"nodes": 0, "pods": 0, "queues": 0}


def test_the_uid_of_a_queue_is_known_while_it_is_there() -> None:
    bench = Bench(queue("team"))
    assert list(bench.feed.queue_uids) == ["team"]
    bench.drop(queue("team"))
    assert bench.feed.queue_uids == {}


# --- pods that say something of each other ---------------------------------------------------------------------------


def trainee(name: str, queue: str = "", gpus: int = 1, least: int = 1) -> Json:
    """A pod of a Job that says itself how many start together."""
    made = pod(name, queue, gpus, annotations={"kai.scheduler/batch-min-member": str(least)})
    made["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "uid-train"}]
    return made


def queue_of(bench: Bench, workload: str = "ns/train") -> str | None:
    return bench.ledger.snapshot.workloads[workload].queue


def test_with_the_pod_that_named_a_queue_the_queue_of_its_gang_goes() -> None:
    bench = Bench(node("n1"), queue("first"), queue("second"))
    bench.put(first := trainee("a", "first"), trainee("b", "second"), trainee("c"))
    assert queue_of(bench) == "first"
    bench.drop(first)
    assert queue_of(bench) == "second"


def test_with_the_first_pod_that_names_a_queue_pods_without_gpus_count_there_too() -> None:
    bench = Bench(node("n1"), queue("team"))
    bench.put(trainee("launcher", gpus=0))
    assert not bench.ledger.snapshot.workloads
    bench.put(worker := trainee("worker", "team"))
    members = bench.ledger.snapshot.members
    assert {one.key for one in members["ns/train"]} == {"ns/launcher", "ns/worker"}
    bench.drop(worker)
    assert not bench.ledger.snapshot.workloads


def test_an_owner_that_is_seen_late_brings_pods_without_gpus_into_the_queue_of_its_gang() -> None:
    bench = Bench(node("n1"), queue("team"))
    launcher = pod("launcher", gpus=0, annotations={"pod-group-name": "train"})
    worker = trainee("worker", "team")
    worker["metadata"]["annotations"] = {}
    bench.put(launcher, worker)
    assert set(bench.ledger.snapshot.members) == {"ns/worker"}
    job = PodOwner(OwnerMeta(name="train", namespace="ns", annotations=Notes(batch_minimum="2")))
    bench.feed.owners("Job", Batch([Change(None, job)]))
    assert {one.key for one in bench.ledger.snapshot.members["ns/train"]} == {"ns/launcher", "ns/worker"}


def test_of_several_minimums_in_one_gang_the_largest_counts() -> None:
    bench = Bench(node("n1"), queue("team"))
    bench.put(trainee("a", "team", least=2), largest := trainee("b", "team", least=3), trainee("c", "team"))
    assert bench.ledger.snapshot.workloads["ns/train"].gang.minimum == 3
    bench.drop(largest)
    assert bench.ledger.snapshot.workloads["ns/train"].gang.minimum == 2


def test_a_pod_group_that_has_only_the_name_of_a_gang_leaves_that_whole() -> None:
    bench = Bench(node("n1"), queue("team"))
    bench.put(trainee("a", "team"), trainee("b"))
    bench.put(stranger := group("train", 2, "team"))
    assert {one.key for one in bench.ledger.snapshot.members["ns/train.alone"]} == {"ns/a", "ns/b"}
    assert queue_of(bench, "ns/train.alone") == "team"
    bench.drop(stranger)
    assert {one.key for one in bench.ledger.snapshot.members["ns/train"]} == {"ns/a", "ns/b"}


def test_a_nomination_to_a_node_that_is_gone_takes_nothing_of_the_queue() -> None:
    bench = Bench(node("n1"), old := node("n2"), queue("team", limit=1))
    bench.put(pod("first", "team", status={"phase": "Pending", "nominatedNodeName": "n2"}))
    assert not bench.passes(pod("other", "team"))
    bench.drop(old)
    assert bench.passes(pod("another", "team"))
