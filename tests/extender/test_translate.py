"""What pods mean, by themselves and with the objects that they refer to."""

import msgspec
import pytest
from gpuyard.common.cluster.objects import PodOwner
from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.cluster.translate import Translator
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model.settings import Settings

from tests.extender.builders import Json, group, pod, typed


def translator(**settings: object) -> Translator:
    return Translator(Settings(**settings))  # type: ignore[arg-type]


def queue_of(seen: Sighting) -> str | None:
    return seen.workload.queue if seen.workload else None


def test_a_pod_alone_is_a_workload_of_its_own() -> None:
    seen = translator().put_pod(typed(pod("p", "team", 2, verdict="0/4 nodes")))
    assert (seen.pod.key, seen.pod.workload, seen.pod.shape.gpus) == ("ns/p", "ns/p", 2)
    assert (queue_of(seen), seen.verdict, seen.claims_volumes, seen.fault) == ("team", "0/4 nodes", False, "")
    assert seen.version > 0


def test_a_pod_without_gpus_and_queue_has_no_workload() -> None:
    seen = translator().sight(typed(pod("p", gpus=0)))
    assert (seen.workload, seen.pod.workload) == (None, "")


def test_a_pod_without_gpus_in_a_queue_has_one() -> None:
    assert queue_of(translator().sight(typed(pod("p", "team", 0)))) == "team"


def test_a_verdict_that_was_taken_back_is_none() -> None:
    thing = pod("p", "team")
    thing["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    assert translator().sight(typed(thing)).verdict is None


def test_volumes_to_be_bound_are_noticed() -> None:
    claim: Json = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    for volume in (claim, {"name": "v", "ephemeral": {}}):
        assert translator().sight(typed(pod("p", volumes=[volume]))).claims_volumes
    assert not translator().sight(typed(pod("p", volumes=[{"name": "v", "emptyDir": {}}]))).claims_volumes


def member(name: str, **more: object) -> Json:
    return pod(name, annotations={"pod-group-name": "g"}, **more)  # type: ignore[arg-type]


def test_a_pod_group_changes_what_its_pods_mean() -> None:
    of = translator()
    assert queue_of(of.put_pod(typed(member("a")))) is None
    of.put_pod(typed(member("b")))
    seen = of.put_group("ns/g", typed(group("g", 2, "team")))
    assert [(one.pod.key, queue_of(one)) for one in seen] == [("ns/a", "team"), ("ns/b", "team")]
    assert {one.workload.gang.minimum for one in seen if one.workload} == {2}
    assert [queue_of(one) for one in of.put_group("ns/g", None)] == [None, None]


def test_the_priority_class_decides_who_may_be_evicted() -> None:
    of = translator()
    of.put_pod(typed(pod("p", "team", priorityClassName="mine", priority=7)))
    of.put_pod(typed(pod("other", "team")))
    named = {"kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 100}
    (seen,) = of.put_classes({"mine": typed(named)})
    assert seen.workload
    assert (seen.workload.priority, seen.workload.preemptible) == (100, False)
    (seen,) = of.put_classes({"mine": None})
    assert seen.workload
    assert seen.workload.priority == 7


def test_a_priority_class_may_be_that_of_a_gang() -> None:
    of = translator()
    gang = group("g", 1, "team")
    gang["spec"]["priorityClassName"] = "mine"
    of.put_group("ns/g", typed(gang))
    of.put_pod(typed(member("a")))
    (seen,) = of.put_classes({"mine": typed({"kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 60})})
    assert seen.workload
    assert seen.workload.priority == 60


def test_other_settings_change_what_all_pods_mean() -> None:
    of = translator()
    of.put_pod(typed(pod("p")))
    (seen,) = of.set_settings(Settings(default_queue="rest"))
    assert queue_of(seen) == "rest"
    assert list(of.set_settings(Settings(default_queue="rest", max_moved=3))) == [], "the others change no pod"


def test_a_pod_that_goes_while_the_others_are_read_again_is_passed_over() -> None:
    of = translator()
    for name in "ab":
        of.put_pod(typed(pod(name)))
    reading = of.set_settings(Settings(default_queue="rest"))
    assert next(reading).pod.key == "ns/a"
    of.drop_pod("ns/b")
    assert list(reading) == []


def test_what_cannot_be_read_is_said_and_the_rest_counts() -> None:
    seen = translator().sight(typed(pod("p", "team", 3, annotations={"gpu-memory": "much"})))
    assert "gpu-memory" in seen.fault
    assert seen.pod.shape.gpus == 3


def test_a_pod_that_is_gone_no_longer_speaks_for_its_gang() -> None:
    of = translator()
    of.put_group("ns/g", typed(group("g", 1, "")))
    of.put_pod(typed(member("a", queue="first")))
    of.put_pod(typed(member("b", queue="second")))
    of.drop_pod("ns/a")
    assert queue_of(of.sight(typed(member("b", queue="second")))) == "second"
    assert set(of.pods) == {"ns/b"}


def evicted(name: str, at: str, **more: object) -> Json:
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at}
    return member(name, on="n1", status={"phase": "Running", "conditions": [told]}, **more)


def last_evicted(seen: Sighting) -> int | None:
    return seen.workload.last_evicted if seen.workload else None


def test_a_workload_knows_when_one_of_its_pods_was_last_told_to_leave() -> None:
    of = translator()
    of.put_group("ns/g", typed(group("g", 2, "team")))
    assert last_evicted(of.put_pod(typed(member("a")))) is None
    of.put_pod(typed(evicted("b", "2026-01-01T00:01:00Z")))
    assert last_evicted(of.put_pod(typed(member("a")))) == moment("2026-01-01T00:01:00Z")
    later = last_evicted(of.put_pod(typed(evicted("c", "2026-01-01T00:02:00Z"))))
    assert later == moment("2026-01-01T00:02:00Z")
    assert later == last_evicted(of.put_pod(typed(evicted("b", "2026-01-01T00:01:00Z")))), "the last one counts"
    for name in "abc":
        of.drop_pod(f"ns/{name}")
    assert last_evicted(of.put_pod(typed(member("d")))) == later, "its PodGroup is the same"


def test_with_its_pods_and_its_pod_group_what_a_workload_lost_is_forgotten() -> None:
    of = translator()
    of.put_group("ns/g", typed(group("g", 2, "team")))
    of.put_pod(typed(evicted("a", "2026-01-01T00:01:00Z")))
    of.drop_pod("ns/a")
    of.put_group("ns/g", None)
    assert last_evicted(of.put_pod(typed(member("b")))) is None


def test_a_time_that_is_none_does_not_count() -> None:
    assert last_evicted(translator().put_pod(typed(evicted("a", "soon", queue="team")))) == 0


# --- what counts of a pod that has a node ----------------------------------------------------------------------------


def settled(*things: Json) -> Translator:
    """A translator that has seen these, and all else that there is."""
    of = translator()
    for thing in things:
        if thing["kind"] == "PodGroup":
            of.put_group(f"ns/{thing['metadata']['name']}", typed(thing))
        else:
            of.put_pod(typed(thing))
    of.settle()
    return of


@pytest.mark.row("X-12", case="queue")
@pytest.mark.parametrize("queue", ["", "other"])
def test_a_running_pod_counts_in_the_queue_in_which_it_was_started(queue: str) -> None:
    of = settled(pod("p", "team", on="n1"))
    assert queue_of(of.put_pod(typed(pod("p", queue, on="n1")))) == "team"
    assert of.altered == {"ns/p": ("kai.scheduler/queue",)}


@pytest.mark.row("X-12", case="amounts")
@pytest.mark.parametrize("fraction", ["0.001", "NaN", None])
def test_a_running_part_of_a_gpu_counts_as_much_as_when_it_was_started(fraction: str | None) -> None:
    of = settled(pod("p", "team", 0, on="n1", annotations={"gpu-fraction": "0.5"}))
    seen = pod("p", "team", 0, on="n1", annotations={"gpu-fraction": fraction or "0.5"})
    if not fraction:
        seen["metadata"]["annotations"] = {}
    assert of.put_pod(typed(seen)).pod.shape.fraction == 500
    assert of.altered == {"ns/p": ("gpu-fraction",)}


@pytest.mark.row("X-12", case="devices")
def test_a_running_pod_stays_on_the_shared_gpu_that_it_was_given() -> None:
    half = {"gpu-fraction": "0.5"}
    of = settled(pod("p", "team", 0, on="n1", annotations=half))
    named = pod("p", "team", 0, on="n1", annotations=half, labels={"runai-gpu-group": "gpu-3"})
    assert of.put_pod(typed(named)).pod.gpu_groups == ("gpu-3",), "KAI's binder names it after the binding"
    other = pod("p", "team", 0, on="n1", annotations=half, labels={"runai-gpu-group": "gpu-4"})
    assert of.put_pod(typed(other)).pod.gpu_groups == ("gpu-3",)


@pytest.mark.row("X-12", case="preemptibility")
def test_a_running_pod_stays_as_preemptible_as_it_was() -> None:
    of = settled(pod("p", "team", on="n1"))
    seen = of.put_pod(typed(pod("p", "team", on="n1", fixed=True, labels={"priorityClassName": "inference"})))
    assert seen.workload
    assert (seen.workload.preemptible, seen.workload.priority) == (True, 50)
    assert of.altered == {"ns/p": ("kai.scheduler/preemptibility", "priorityClassName")}


@pytest.mark.row("X-12", case="pod-group")
def test_a_pod_group_that_is_edited_changes_nothing_while_a_member_runs() -> None:
    of = settled(group("g", 2, "team"), member("a", on="n1"), member("b"))
    assert [queue_of(one) for one in of.put_group("ns/g", typed(group("g", 2, "other")))] == ["team", "team"]
    of.drop_pod("ns/a")
    assert queue_of(of.sight(typed(member("b")))) == "other"


def test_a_pod_group_with_the_name_of_a_running_gang_does_not_change_its_queue() -> None:
    def trainee(name: str, queue: str, on: str = "") -> Json:
        made = pod(name, queue, on=on, annotations={"kai.scheduler/batch-min-member": "1"})
        made["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "uid-train"}]
        return made

    of = settled(trainee("b", "team", on="n1"))
    of.put_pod(typed(trainee("a", "other")))
    for seen in (of.put_group("ns/train", typed(group("train", 1, "other"))), of.put_group("ns/train", None)):
        assert [queue_of(one) for one in seen] == ["team", "team"]


@pytest.mark.row("X-12", case="new-member")
def test_a_pod_that_joins_a_running_gang_does_not_change_its_queue() -> None:
    of = settled(pod("b", "team", on="n1", annotations={"pod-group-name": "g"}))
    joined = pod("a", "other", annotations={"pod-group-name": "g"}, fixed=True)
    seen = of.put_pod(typed(joined))
    assert seen.workload
    assert (queue_of(seen), seen.workload.preemptible) == ("team", True)


def test_a_pod_group_that_comes_to_running_pods_does_not_change_their_queue() -> None:
    of = settled(pod("a", "team", on="n1", annotations={"pod-group-name": "g"}))
    assert [queue_of(one) for one in of.put_group("ns/g", typed(group("g", 1, "other")))] == ["team"]


def test_a_running_member_that_leaves_its_gang_by_label_or_owner_stays_in_it() -> None:
    owner = {"kind": "PyTorchJob", "name": "job", "uid": "job", "controller": True}
    of = settled(group("g", 1, "team"), member("a", on="n1"))
    left = pod("a", on="n1")
    left["metadata"]["ownerReferences"] = [owner]
    assert of.put_pod(typed(left)).pod.workload == "ns/g"
    assert of.altered == {"ns/a": ("pod-group-name",)}


def test_a_running_pod_that_a_controller_adopts_counts_as_altered_in_nothing() -> None:
    of = settled(pod("p", "team", on="n1"))
    adopted = pod("p", "team", on="n1")
    adopted["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    assert of.put_pod(typed(adopted)).pod.owner == ""
    assert not of.altered


def test_a_pod_without_a_node_may_still_be_edited() -> None:
    of = settled(pod("p", "team"))
    assert queue_of(of.put_pod(typed(pod("p", "other")))) == "other"
    assert not of.altered


def test_other_labels_of_a_running_pod_count_as_they_are() -> None:
    of = settled(pod("p", "team", on="n1"))
    assert of.put_pod(typed(pod("p", "team", on="n1", labels={"app": "x"}))).pod.labels["app"] == "x"
    assert not of.altered


def test_an_alteration_that_is_taken_back_or_whose_pod_is_gone_is_forgotten() -> None:
    of = settled(pod("p", "team", on="n1"), pod("q", "team", on="n1"))
    for name in "pq":
        of.put_pod(typed(pod(name, "other", on="n1")))
    of.put_pod(typed(pod("p", "team", on="n1")))
    of.drop_pod("ns/q")
    assert not of.altered


def test_an_alteration_is_forgotten_when_its_pod_has_ended() -> None:
    of = settled(pod("p", "team", on="n1"))
    of.put_pod(typed(pod("p", "other", on="n1")))
    of.put_pod(typed(pod("p", "other", on="n1", phase="Failed")))
    assert not of.altered


def test_when_the_last_placed_pod_has_ended_the_workload_is_as_it_says() -> None:
    of = settled(group("g", 1, "team"), member("a", on="n1"), member("b"))
    of.put_pod(typed(member("a", on="n1", phase="Succeeded")))
    assert [queue_of(one) for one in of.put_group("ns/g", typed(group("g", 1, "other")))] == ["other", "other"]


def test_until_all_has_been_seen_once_nothing_of_a_workload_is_fixed() -> None:
    of = translator()
    of.put_pod(typed(member("a", on="n1")))
    assert [queue_of(one) for one in of.put_group("ns/g", typed(group("g", 1, "team")))] == ["team"]


@pytest.mark.row("X-12", case="restart")
def test_after_a_restart_a_waiting_pod_says_nothing_of_a_gang_that_runs() -> None:
    running = pod("b", "team", on="n1", annotations={"pod-group-name": "g"})
    intruder = pod("a", "other", annotations={"pod-group-name": "g"}, fixed=True)
    of = settled(intruder, running)
    seen = of.sight(typed(running))
    assert seen.workload
    assert (seen.workload.queue, seen.workload.preemptible) == ("team", True)


def test_a_gang_that_runs_without_a_queue_gets_one_by_a_pod_group_that_comes_later() -> None:
    of = settled(member("a", on="n1"))
    assert [queue_of(one) for one in of.put_group("ns/g", typed(group("g", 1, "team")))] == ["team"]


@pytest.mark.row("X-12", case="pod-group")
def test_a_member_that_waits_is_told_when_its_gang_runs_in_another_queue() -> None:
    of = settled(group("g", 1, "team"), member("a", on="n1"), member("b"))
    _, waiting = of.put_group("ns/g", typed(group("g", 1, "other")))
    assert "pods of ns/g run in queue team; one in queue other starts when none of them has a node" in waiting.fault
    _, waiting = of.put_group("ns/g", typed(group("g", 1, "team")))
    assert not waiting.fault


@pytest.mark.row("X-12", case="queue")
def test_a_running_pod_stays_in_its_workload_whatever_its_owner_says_later() -> None:
    of = settled()
    of.owners.followed = {"Job"}
    job: Json = {"metadata": {"name": "job", "namespace": "ns", "uid": "job"}, "spec": {}}
    of.put_owner("Job", "ns/job", msgspec.json.decode(msgspec.json.encode(job), type=PodOwner))
    pods = [pod(name, name, on="n1") for name in ("big", "small")]
    for one in pods:
        one["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "job", "uid": "job", "controller": True}]
        of.put_pod(typed(one))
    job["metadata"] |= {"annotations": {"kai.scheduler/batch-min-member": "2"}}
    of.put_owner("Job", "ns/job", msgspec.json.decode(msgspec.json.encode(job), type=PodOwner))
    assert [queue_of(of.sight(typed(one))) for one in pods] == ["big", "small"]


def test_a_pod_without_gpus_that_ends_leaves_its_workload_to_those_that_have_nodes() -> None:
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}]

    def of_job(name: str, gpus: int, rank: str, **more: str) -> Json:
        made = pod(name, "", gpus, on="n1", priorityClassName=rank, annotations={"pod-group-name": "j"}, **more)  # type: ignore[arg-type]
        return made | {"metadata": made["metadata"] | {"ownerReferences": owner}}

    of = translator()
    of.put_pod(typed(of_job("a", 0, "inference")))
    of.put_pod(typed(of_job("b", 1, "train")))
    of.take_stirred()
    of.put_pod(typed(of_job("a", 0, "inference", phase="Succeeded")))
    assert [one.priority for one in of.take_stirred()] == [50]
