"""How many pods start together, by whoever says it."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.gangs import Owners, gang, owned_gang, owned_minimum, owner_key
from gpuyard.engine.model import MOST_LEVELS, Gang, TopologyConstraint

from tests.engine.kube import written
from tests.engine.kube.written import Heard, Json, seen, with_meta


def read(of: Json, heard: Heard | None = None) -> Gang:
    complain = heard if heard is not None else Heard()
    made = gang(seen(objects.PodGroup, of), complain)
    assert heard is not None or not complain
    return made


def owner(kind: str, spec: Json, name: str = "job", **more: object) -> objects.PodOwner:
    return seen(objects.PodOwner, {"kind": kind, "metadata": written.meta(name, "default", **more), "spec": spec})


def owned_by(kind: str, name: str = "job", *, labels: Json | None = None, notes: Json | None = None) -> objects.Pod:
    given = written.pod(labels=labels, notes=notes)
    return seen(objects.Pod, with_meta(given, ownerReferences=[{"kind": kind, "name": name, "uid": "u"}]))


def among(*owners: objects.PodOwner) -> Owners:
    return {("default", o.kind or "", o.metadata.name or ""): o for o in owners if o.metadata}


def test_a_flat_gang_has_its_minimum() -> None:
    assert read(written.pod_group(minimum=3)) == Gang(minimum=3)
    assert read(written.pod_group(minimum=None)) == Gang(minimum=1)


def test_sub_groups_are_a_tree_in_the_order_of_their_names() -> None:
    parts = [
        {"name": "worker", "parent": "train", "minMember": 2},
        {"name": "master", "parent": "train"},
        {"name": "train", "minSubGroup": 1},
        {"name": "eval", "minMember": 3},
    ]
    made = read(written.pod_group(minimum=9, subGroups=parts))
    train = Gang(name="train", minimum=1, parts=(Gang(name="master"), Gang(name="worker", minimum=2)))
    assert made == Gang(minimum=2, parts=(Gang(name="eval", minimum=3), train))
    assert [leaf.name for leaf in made.leaves] == ["eval", "master", "worker"]


def test_not_all_sub_groups_need_to_start_when_it_says_so() -> None:
    assert read(written.pod_group(minSubGroup=1, subGroups=[{"name": "a"}, {"name": "b"}])).minimum == 1


def test_topology_constraints_stand_at_the_whole_and_at_its_parts() -> None:
    near = {"topology": "rows", "requiredTopologyLevel": "row", "preferredTopologyLevel": "rack"}
    made = read(written.pod_group(topologyConstraint=near, subGroups=[{"name": "a", "topologyConstraint": near}]))
    assert made.topology == made.parts[0].topology == TopologyConstraint("rows", "row", "rack")


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"minMember": -1}, "spec.minMember", "-1 is negative"),
        ({"subGroups": [{"name": "a"}, {"name": "a"}]}, "spec.subGroups[1]", "the name 'a' is given twice"),
        ({"subGroups": [{"name": ""}]}, "spec.subGroups[0]", "has no name"),
        (
            {"subGroups": [{"name": "a", "parent": "b"}]},
            "spec.subGroups[0]",
            "its parent 'b' is not a sub-group of this PodGroup",
        ),
        (
            {"subGroups": [{"name": "a", "parent": "a"}]},
            "spec.subGroups[0]",
            "is its own ancestor, by its parent 'a'",
        ),
    ],
    ids=["negative", "twice", "nameless", "orphan", "circle"],
)
def test_a_gang_that_is_no_tree_is_a_fault(spec: Json, field: str, why: str) -> None:
    heard = Heard()
    read(written.pod_group(minimum=None, **spec), heard)
    assert heard == [(field, why)]


def test_sub_groups_that_go_deeper_than_anybody_needs_are_a_fault() -> None:
    heard = Heard()
    chain = [{"name": f"s{n}"} | ({"parent": f"s{n - 1}"} if n else {}) for n in range(MOST_LEVELS + 1)]
    read(written.pod_group(minimum=None, subGroups=chain[:-1]), heard)
    assert heard == []
    read(written.pod_group(minimum=None, subGroups=chain), heard)
    assert heard == [(f"spec.subGroups[{MOST_LEVELS}]", "more than 32 sub-groups one below the other")]


def test_a_circle_of_sub_groups_is_told_for_each_of_them() -> None:
    heard = Heard()
    parts = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "c", "parent": "a"}]
    read(written.pod_group(subGroups=parts), heard)
    assert len(heard) == 3


REPLICAS = {"Master": {}, "Worker": {"replicas": 3}}


@pytest.mark.parametrize(
    ("kind", "spec", "minimum"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": REPLICAS}, 4),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": REPLICAS, "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
            3,
        ),
        (
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": REPLICAS,
                "elasticPolicy": {"minReplicas": 2},
                "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
            },
            2,
        ),
        ("TFJob", {"tfReplicaSpecs": REPLICAS}, 4),
        ("XGBoostJob", {"xgbReplicaSpecs": REPLICAS}, 4),
        ("JAXJob", {"jaxReplicaSpecs": REPLICAS}, 4),
        ("MPIJob", {"mpiReplicaSpecs": REPLICAS, "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}, 2),
        ("RayCluster", {"workerGroupSpecs": [{"minReplicas": 2, "numOfHosts": 2}, {"replicas": 5}]}, 5),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 4}}, 4),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderReady"}, 1),
        ("Job", {"parallelism": 4}, None),
    ],
    ids=str,
)
def test_the_owner_says_how_many_start_together(kind: str, spec: Json, minimum: int | None) -> None:
    assert owned_minimum(owner(kind, spec)) == minimum


def test_pods_of_a_training_job_are_a_gang_where_the_job_is_given() -> None:
    given = among(owner("PyTorchJob", {"pytorchReplicaSpecs": REPLICAS}))
    assert owned_gang(owned_by("PyTorchJob"), given, Heard()) == ("default/job", 4)
    assert owned_gang(owned_by("PyTorchJob"), {}, Heard()) is None


def test_pods_of_a_job_start_alone_unless_the_job_or_the_pod_has_a_minimum() -> None:
    note = {"kai.scheduler/batch-min-member": "3"}
    assert owned_gang(owned_by("Job"), among(owner("Job", {})), Heard()) is None
    assert owned_gang(owned_by("Job", notes=note), {}, Heard()) == ("default/job", 3)
    assert owned_gang(owned_by("Job"), among(owner("Job", {}, annotations=note)), Heard()) == ("default/job", 3)


@pytest.mark.parametrize(
    ("kind", "name", "made"),
    [
        ("StatefulSet", "lws-1", ("default/lws-1", 4)),
        ("LeaderWorkerSet", "lws", ("default/lws-1", 4)),
        ("ReplicaSet", "lws", None),
    ],
)
def test_each_group_of_a_leader_worker_set_is_a_gang(kind: str, name: str, made: tuple[str, int] | None) -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "1"}
    given = among(owner("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 4}}, "lws"))
    assert owned_gang(owned_by(kind, name, labels=labels), given, Heard()) == made


def test_a_job_of_another_api_says_nothing_of_the_pods_of_its_namesake() -> None:
    given = among(owner("Job", {}, annotations={"kai.scheduler/batch-min-member": "3"}))
    for version, made in (("batch/v1", ("default/job", 3)), ("", ("default/job", 3)), ("batch.example.com/v1", None)):
        named = {"apiVersion": version, "kind": "Job", "name": "job", "uid": "u"}
        assert owned_gang(seen(objects.Pod, with_meta(written.pod(), ownerReferences=[named])), given, Heard()) == made


def test_a_pod_has_an_owner_that_can_say_how_many_start_only_if_it_is_of_a_known_kind() -> None:
    assert owner_key(owned_by("PyTorchJob")) == ("default", "PyTorchJob", "job")
    assert owner_key(owned_by("ReplicaSet")) is None
    assert owner_key(seen(objects.Pod, written.pod())) is None


def test_a_bare_pod_starts_alone() -> None:
    assert owned_gang(seen(objects.Pod, written.pod()), {}, Heard()) is None
