"""Many objects together: one snapshot, or every fault at once."""

import random

import msgspec
import pytest
from gpuyard.engine.kube.assemble import assemble
from gpuyard.engine.model import MOST_LEVELS, SCALE, Amounts, Gang, State
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.rules.promises import nominations

from tests.engine.kube.written import (
    MORNING,
    NOON,
    Json,
    faults,
    meta,
    node,
    pod,
    pod_group,
    queue,
    reading,
    with_meta,
)

IN_GANG = {"pod-group-name": "gang"}


def test_a_cluster_becomes_a_snapshot() -> None:
    snapshot = reading(node(), queue(), pod("a", 4, on="node-1"), pod("b", 2)).snapshot
    assert snapshot.fleet.capacity.gpu == 8000
    assert {key: p.state for key, p in snapshot.pods.items()} == {
        "default/a": State.RUNNING,
        "default/b": State.PENDING,
    }
    assert snapshot.workloads["default/b"].queue == "team-a"
    assert snapshot.use["team-a"].requested.gpu == 6000


@pytest.mark.row("Q-33")
def test_the_order_of_the_objects_does_not_matter() -> None:
    given = [
        *(node(f"node-{n}") for n in range(3)),
        *(queue(f"team-{x}") for x in "ab"),
        pod_group(),
        *(pod(f"p{n}", queue=f"team-{'ab'[n % 2]}", notes=IN_GANG if n < 3 else {}) for n in range(6)),
    ]
    first = reading(*given)
    for seed in range(5):
        shuffled = random.Random(seed).sample(given, len(given))
        again = reading(*shuffled)
        assert again.snapshot.pods == first.snapshot.pods
        assert again.snapshot.workloads == first.snapshot.workloads
        assert again.warnings == first.warnings


def test_the_clock_is_the_newest_time_of_the_input_unless_it_is_given() -> None:
    given = [with_meta(queue(), creationTimestamp=MORNING), pod(on="node-1", status={"startTime": NOON}), node()]
    assert reading(*given).snapshot.now == 1772366400
    assert reading(*given, now=5).snapshot.now == 5
    assert reading(node()).snapshot.now == 0


def test_a_gang_has_its_pods_its_minimum_and_its_age() -> None:
    group = with_meta(pod_group(minimum=2, queue="team-a"), creationTimestamp=MORNING)
    snapshot = reading(group, pod("a", notes=IN_GANG), pod("b", notes=IN_GANG)).snapshot
    made = snapshot.workloads["default/gang"]
    assert (made.gang, made.queue, made.created) == (Gang(minimum=2), "team-a", 1772352000)
    assert [p.key for p in snapshot.members["default/gang"]] == ["default/a", "default/b"]


def test_pods_of_a_job_with_a_minimum_are_a_gang_without_a_pod_group() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta("j", annotations={"kai.scheduler/batch-min-member": "2"}),
    }
    mine = [with_meta(pod(n), ownerReferences=[{"kind": "Job", "name": "j", "uid": "u"}]) for n in ("j-a", "j-b")]
    snapshot = reading(job, *mine).snapshot
    assert list(snapshot.workloads) == ["default/j"]
    assert snapshot.workloads["default/j"].gang.minimum == 2


def test_a_pod_group_that_is_not_given_is_noted_and_its_pods_still_belong_together() -> None:
    made = reading(pod("a", notes=IN_GANG), pod("b", notes=IN_GANG))
    assert list(made.snapshot.workloads) == ["default/gang"]
    assert made.warnings == (
        "cluster.yaml: Pod default/a: its PodGroup default/gang is not given: counted as a gang with a minimum of 1",
    )


def test_sub_groups_of_pods_are_those_that_the_gang_has() -> None:
    flat = reading(pod_group(), pod(notes=IN_GANG, labels={"kai.scheduler/subgroup-name": "x"})).snapshot
    assert flat.pods["default/p"].group == ""
    parted = pod_group(minimum=None, subGroups=[{"name": "default"}, {"name": "other"}])
    assert reading(parted, pod(notes=IN_GANG)).snapshot.pods["default/p"].group == "default"


def test_a_job_of_a_cluster_whose_pods_are_gone_is_done_and_no_warning() -> None:
    done: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("done", uid="u")}
    assert reading(done).warnings == ()


def test_a_leader_worker_set_owns_pods_by_their_label() -> None:
    group: Json = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": meta("g")}
    mine = pod("g-0", labels={"leaderworkerset.sigs.k8s.io/name": "g"})
    assert reading(group, queue(), mine).warnings == ()


@pytest.mark.row("Q-37", case="both")
def test_two_queues_for_one_workload_are_a_warning() -> None:
    both = pod(queue="new", labels={"runai/queue": "old"})
    assert reading(both).warnings == ("cluster.yaml: Pod default/p: two queues are named, new and old: new counts",)
    group = pod_group(queue="theirs")
    assert reading(group, pod(notes=IN_GANG)).warnings == (
        "cluster.yaml: PodGroup default/gang: two queues are named, theirs and team-a: theirs counts",
    )


def test_devices_are_numbered_by_their_ids_on_each_node() -> None:
    def holding(name: str, *ids: str) -> Json:
        status = {
            "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [{"resourceID": i} for i in ids]}]
        }
        return pod(name, len(ids), on="node-1", status={"containerStatuses": [status]})

    snapshot = reading(node(), holding("a", "GPU-c", "GPU-a"), holding("b", "GPU-b")).snapshot
    assert snapshot.pods["default/a"].devices == (0, 2)
    assert snapshot.pods["default/b"].devices == (1,)


def test_a_nomination_to_a_node_that_is_gone_keeps_nothing() -> None:
    for name, kept in (("gone", []), ("node-1", ["default/p"])):
        given = reading(node(), pod(status={"nominatedNodeName": name})).snapshot
        assert [one.key for one in nominations(given)] == kept


def test_promises_history_budgets_and_namespaces_are_taken_along() -> None:
    plan = {
        "apiVersion": "gpuyard.io/v1alpha1",
        "kind": "Plan",
        "metadata": meta("plan-1"),
        "spec": {
            "promises": [
                {"pod": "default/p", "node": "node-1", "shape": {"gpus": 1}},
                {"pod": "default/q", "node": "gone", "shape": {"gpus": 1}},
            ]
        },
    }
    usage = {
        "apiVersion": "gpuyard.io/v1alpha1",
        "kind": "QueueUsage",
        "metadata": meta("u"),
        "queues": {"a": {"gpu": 1}},
    }
    pdb = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta("b", "default"),
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 1},
    }
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta("default", labels={"kai.scheduler/queue": "q"}),
    }
    snapshot = reading(node(), pod(), plan, usage, pdb, namespace).snapshot
    assert [p.pod for p in snapshot.promises] == ["default/p"]
    assert snapshot.history == {"a": Amounts(gpu=SCALE)}
    assert snapshot.budgets["default/b"].pods == {"default/p"}
    assert snapshot.namespaces == {"default": "q"}


def test_a_priority_class_that_is_given_is_known() -> None:
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("gold"), "value": 80}
    assert reading(gold, pod(priorityClassName="gold")).snapshot.workloads["default/p"].priority == 80


def test_every_pod_that_names_an_unknown_class_is_told() -> None:
    told = faults(pod("a", priorityClassName="silver"), pod("b", priorityClassName="silver"))
    assert [line.split(": ")[1:3] for line in told] == [
        ["Pod default/a", "spec.priorityClassName"],
        ["Pod default/b", "spec.priorityClassName"],
    ]


def test_the_default_queue_takes_pods_without_one() -> None:
    snapshot = reading(pod(queue=None), settings=Settings(default_queue="rest")).snapshot
    assert snapshot.workloads["default/p"].queue == "rest"


ROWS = {"topology": "rows", "requiredTopologyLevel": "room"}
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": meta("rows"),
    "spec": {"levels": [{"nodeLabel": "row"}]},
}


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ([pod(on="gone")], ["Pod default/p: spec.nodeName: there is no node 'gone' in the input"]),
        ([pod(), pod()], ["Pod default/p: metadata.name: given twice, also in cluster.yaml"]),
        (
            [queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a")],
            [
                "Queue a: spec.parentQueue: the queue is its own ancestor: a → b → a",
                "Queue b: spec.parentQueue: the queue is its own ancestor: b → a → b",
            ],
        ),
        ([queue("a", parent="a")], ["Queue a: spec.parentQueue: the queue is its own ancestor: a → a"]),
        (
            [queue(f"q{n}", parent=f"q{n - 1}" if n else "") for n in range(MOST_LEVELS + 1)],
            ["Queue q32: spec.parentQueue: more than 32 queues one below the other"],
        ),
        ([pod("")], ["Pod default/: metadata.name: missing"]),
        ([queue("Team A")], ["Queue Team A: metadata.name: 'Team A' is not a name that Kubernetes accepts"]),
        (
            [pod(namespace="Mine")],
            ["Pod Mine/p: metadata.namespace: 'Mine' is not a name that Kubernetes accepts"],
        ),
        (
            [pod_group(minimum=None, subGroups=[{"name": "a"}]), pod(notes=IN_GANG)],
            ["Pod default/p: metadata.labels.kai.scheduler/subgroup-name: missing; choose one of a"],
        ),
        (
            [
                pod_group(minimum=None, subGroups=[{"name": "a"}]),
                pod(notes=IN_GANG, labels={"kai.scheduler/subgroup-name": "b"}),
            ],
            [
                (
                    "Pod default/p: metadata.labels.kai.scheduler/subgroup-name:"
                    " 'b' is no sub-group of default/gang; choose one of a"
                ),
            ],
        ),
        (
            [pod_group(topologyConstraint=ROWS)],
            ["PodGroup default/gang: spec.topologyConstraint: there is no Topology 'rows' in the input"],
        ),
        (
            [TOPOLOGY, pod_group(topologyConstraint=ROWS)],
            ["PodGroup default/gang: spec.topologyConstraint: 'room' is no level of Topology rows"],
        ),
    ],
    ids=[
        "node",
        "twice",
        "circle",
        "own-parent",
        "too-deep",
        "nameless",
        "name",
        "namespace",
        "no-part",
        "wrong-part",
        "topology",
        "level",
    ],
)
def test_what_does_not_fit_together_is_told_by_file_object_and_field(given: list[Json], lines: list[str]) -> None:
    assert faults(*given) == [f"cluster.yaml: {line}" for line in lines]


def test_every_fault_is_told_at_once() -> None:
    broken = [
        node(gpus="many"),
        queue(quota=-3, reclaimMinRuntime="soon"),
        pod("a", on="gone", labels={"kai.scheduler/task-priority": "x"}),
    ]
    assert len(faults(*broken)) == 5


def test_a_pod_that_is_over_may_name_a_node_that_is_gone() -> None:
    assert not faults(pod(nodeName="gone", status={"phase": "Succeeded"}))


@pytest.mark.parametrize("mode", ["name", "label"])
def test_matching_namespaces_needs_them(mode: str) -> None:
    settings = msgspec.convert({"namespace_match": mode}, type=Settings)
    assert faults(pod(), pod("q"), settings=settings) == [
        "cluster.yaml: Pod default/q: metadata.namespace: namespaceMatch needs the Namespace 'default' in the input"
    ]


def test_a_time_that_is_none_is_told_where_it_stands() -> None:
    assert faults(with_meta(queue(), creationTimestamp="yesterday")) == [
        "cluster.yaml: Queue team-a: metadata.creationTimestamp: 'yesterday' is not a time, as 2026-01-31T12:00:00Z"
    ]


def test_what_would_mark_a_terminal_is_written_out() -> None:
    (line,) = faults(queue("a\x1b[31m\nb"))
    assert "\x1b" not in line
    assert "\n" not in line


def test_a_stranger_with_the_name_of_a_gang_stays_alone() -> None:
    snapshot = reading(pod_group(), pod("gang")).snapshot
    assert snapshot.pods["default/gang"].workload == "default/gang.alone"


def test_nothing_is_an_empty_cluster() -> None:
    assert assemble([], Settings()).snapshot.pods == {}


@pytest.mark.row("X-12", case="restart")
def test_what_pods_with_a_node_say_of_their_workload_counts_before_what_waiting_ones_say() -> None:
    waiting = pod("a", queue="team-b", notes=IN_GANG, labels={"kai.scheduler/preemptibility": "non-preemptible"})
    running = pod("b", queue="team-a", notes=IN_GANG, on="node-1")
    snapshot = reading(node(), queue(), queue("team-b"), waiting, running).snapshot
    gang = snapshot.workloads["default/gang"]
    assert (gang.queue, gang.preemptible) == ("team-a", True)
