"""The pods that objects would make: of what is submitted, as their controllers would name them."""

import pytest
from gpuyard.engine.kube.makers import MOST_PODS, Made, made, makers_of
from gpuyard.engine.kube.meta import name_of

from tests.engine.kube.written import Json, harvest, meta, pod, queue, with_meta

API = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "RayCluster": "ray.io/v1",
    "MPIJob": "kubeflow.org/v2beta1",
}


def template(gpus: int = 1, **labels: str) -> Json:
    """A template of pods with GPUs."""
    given = pod("unused", gpus)
    return {"metadata": {"labels": {"kai.scheduler/queue": "team-a"} | labels}, "spec": given["spec"]}


def maker(kind: str, spec: Json | None = None, **more: object) -> Json:
    """An object that makes pods."""
    api = API.get(kind, "kubeflow.org/v1" if kind.endswith("Job") else "apps/v1")
    return {"apiVersion": api, "kind": kind, "metadata": meta("x", "ns") | more, "spec": spec}


def grown(*given: Json) -> Made:
    found = harvest(*given)
    assert not found.faults
    return made(found.submitted, ((one.source, one.object) for one in found.found))


def names(*given: Json) -> list[str]:
    return [name_of(one) for _, one in grown(*given).pods]


POD = {"template": template()}


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Job", POD, ["x-0"]),
        ("Job", POD | {"parallelism": 3}, ["x-0", "x-1", "x-2"]),
        ("Job", POD | {"parallelism": 3, "completions": 2}, ["x-0", "x-1"]),
        ("Deployment", POD | {"replicas": 2}, ["x-0", "x-1"]),
        ("ReplicaSet", POD, ["x-0"]),
        ("StatefulSet", POD | {"replicas": 2, "ordinals": {"start": 5}}, ["x-5", "x-6"]),
        (
            "JobSet",
            {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": POD | {"parallelism": 2}}}]},
            ["x-w-0-0", "x-w-0-1", "x-w-1-0", "x-w-1-1"],
        ),
        ("JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": POD}}, {"name": "empty"}]}, ["x-w-0-0"]),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": POD | {"replicas": 2}, "Master": POD}},
            ["x-master-0", "x-worker-0", "x-worker-1"],
        ),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": POD, "Worker": POD}}, ["x-launcher-0", "x-worker-0"]),
        (
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}},
            ["x-0", "x-0-1", "x-1", "x-1-1"],
        ),
        (
            "RayCluster",
            {
                "headGroupSpec": POD,
                "workerGroupSpecs": [
                    POD | {"groupName": "gpus", "replicas": 1, "minReplicas": 0, "numOfHosts": 2},
                    POD | {"minReplicas": 1},
                    POD | {"groupName": "none"},
                ],
            },
            ["x-head-0", "x-gpus-worker-0", "x-gpus-worker-1", "x-1-worker-0"],
        ),
    ],
)
def test_each_kind_makes_the_pods_that_its_controller_would(kind: str, spec: Json, pods: list[str]) -> None:
    assert names(maker(kind, spec)) == pods


def test_a_pod_is_its_template_with_what_its_controller_adds() -> None:
    [(source, made_pod)] = grown(maker("Job", {"template": template(2, app="a")})).pods
    assert (source, made_pod.pod.key, made_pod.pod.shape.gpus) == ("cluster.yaml", "ns/x-0", 2)
    assert made_pod.claim.queue == "team-a"
    assert made_pod.pod.labels["app"] == "a"
    assert made_pod.pod.labels["batch.kubernetes.io/job-name"] == "x"
    assert list(makers_of(made_pod)) == [("ns", "Job", "x")]


def test_leaders_of_gangs_are_known() -> None:
    lead = {"leaderTemplate": template(4), "workerTemplate": template(1), "size": 2}
    pods = [one.pod for _, one in grown(maker("LeaderWorkerSet", {"leaderWorkerTemplate": lead})).pods]
    assert [(p.leader, p.shape.gpus) for p in pods] == [(True, 4), (False, 1)]


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        (POD | {"suspend": True}, "it makes no pods: it is suspended, or asks for none"),
        (POD | {"parallelism": 0}, "it makes no pods: it is suspended, or asks for none"),
        (None, "none of its pods is given, and it has no template to make them of"),
    ],
)
def test_what_makes_no_pods_is_told(spec: Json | None, note: str) -> None:
    found = grown(maker("Job", spec))
    assert (found.pods, found.notes) == ([], [f"cluster.yaml: Job ns/x: {note}"])


def test_a_suspended_training_job_makes_no_pods() -> None:
    spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Worker": POD}}
    assert names(maker("PyTorchJob", spec)) == []
    assert names(maker("PyTorchJob", spec | {"runPolicy": {}})) == ["x-worker-0"]


def test_a_label_of_the_object_alone_is_told_to_be_none_of_its_pods() -> None:
    bare = {"template": {"spec": template()["spec"]}}
    [note] = grown(maker("Job", bare, labels={"kai.scheduler/queue": "team-a"})).notes
    assert "its own label kai.scheduler/queue puts no pod into a queue: write it into the template's metadata" in note
    assert grown(maker("Job", POD, labels={"kai.scheduler/queue": "team-a"})).notes == []


def mine(**more: object) -> Json:
    return with_meta(pod("mine", namespace="ns"), **more)


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        ("Job", {"ownerReferences": [{"kind": "Job", "name": "x"}]}),
        (
            "Deployment",
            {"ownerReferences": [{"kind": "ReplicaSet", "name": "x-5d4"}], "labels": {"pod-template-hash": "5d4"}},
        ),
        (
            "JobSet",
            {"ownerReferences": [{"kind": "Job", "name": "x-w-0"}], "labels": {"jobset.sigs.k8s.io/jobset-name": "x"}},
        ),
        ("LeaderWorkerSet", {"labels": {"leaderworkerset.sigs.k8s.io/name": "x"}}),
    ],
)
def test_of_what_has_pods_already_no_more_are_made(kind: str, there: Json) -> None:
    found = grown(maker(kind, POD), queue(), mine(**there))
    assert (found.pods, found.notes) == ([], [])


def test_what_has_pods_in_another_source_is_told_to_be_there() -> None:
    found = harvest(maker("Job", POD), source="job.yaml")
    live = harvest(mine(ownerReferences=[{"kind": "Job", "name": "x"}]), source="the cluster").found
    grown = made(found.submitted, ((one.source, one.object) for one in live))
    assert grown.notes == ["job.yaml: Job ns/x: it is there already, by its pods in the cluster"]


@pytest.mark.parametrize("meta", [{"uid": "u"}, {"creationTimestamp": "2026-01-01T00:00:00Z"}])
def test_what_comes_from_an_api_server_makes_no_pods(meta: Json) -> None:
    found = harvest(maker("Job", POD, **meta), maker("Deployment", POD, **meta))
    assert found.submitted == []
    assert found.notes() == ["skipped 1 of Deployment (apps/v1): gpuyard does not read these"]


def test_a_template_that_cannot_be_read_is_told_once_with_its_field() -> None:
    wrong = template(labels="a")
    wrong["metadata"]["annotations"] = {"gpu-fraction": "2"}
    faults = {str(fault) for fault in grown(maker("Deployment", {"replicas": 3, "template": wrong})).faults}
    said = "cluster.yaml: Deployment ns/x: spec.template.metadata.annotations.gpu-fraction: "
    assert all(fault.startswith(said) for fault in faults)
    assert len(faults) == 2  # what is wrong with the share, and that it stands beside whole GPUs


def test_a_form_that_cannot_be_read_is_a_fault() -> None:
    [fault] = harvest(maker("Deployment", {"replicas": "three"})).faults
    assert str(fault) == "cluster.yaml: Deployment ns/x: spec.replicas: expected int | null, got str"


def test_pods_need_the_name_of_what_makes_them() -> None:
    nameless = maker("Job", POD)
    del nameless["metadata"]["name"]
    [fault] = grown(nameless).faults
    assert fault.field == "metadata.name"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", POD | {"parallelism": MOST_PODS + 1}),
        ("LeaderWorkerSet", {"replicas": 2**60, "leaderWorkerTemplate": {"workerTemplate": template()}}),
        ("JobSet", {"replicatedJobs": [{"name": "w", "replicas": 2**60, "template": {"spec": POD}}]}),
    ],
)
def test_more_pods_than_anybody_means_are_a_fault(kind: str, spec: Json) -> None:
    [fault] = grown(maker(kind, spec)).faults
    assert fault.why == "more than 10000 pods of one object"
