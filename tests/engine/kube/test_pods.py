"""A pod's state, place and devices as the API reports them."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.pods import device_ids, holds, pod
from gpuyard.engine.model import Pod, State

from tests.engine.kube import written
from tests.engine.kube.written import MORNING, NOON, Heard, Json, seen, with_meta

NINE = 1772355600
BOUND = {"conditions": [{"type": "PodScheduled", "status": "True"}]}


def read(of: Json, heard: Heard | None = None, *, now: int = NINE, devices: tuple[int, ...] = ()) -> Pod:
    complain = heard if heard is not None else Heard()
    made = pod(seen(objects.Pod, of), "default/w", now, complain, devices)
    assert heard is not None or not complain
    return made


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "more", "state"),
    [
        ("Pending", "", False, {}, State.PENDING),
        ("Pending", "node-1", False, {}, State.PENDING),
        ("Pending", "node-1", False, BOUND, State.BOUND),
        ("Running", "node-1", False, {}, State.RUNNING),
        ("Unknown", "node-1", False, {}, State.RUNNING),
        ("Running", "node-1", True, {}, State.TERMINATING),
        ("Pending", "node-1", True, {}, State.TERMINATING),
        ("Succeeded", "node-1", False, {}, State.SUCCEEDED),
        ("Succeeded", "", True, {}, State.SUCCEEDED),
        ("Failed", "gone", True, {}, State.FAILED),
    ],
    ids=lambda value: str(value) or "none",
)
def test_phase_node_and_deletion_make_the_state(phase: str, node: str, deleted: bool, more: Json, state: State) -> None:
    given = written.pod(status={"phase": phase} | more, nodeName=node)
    given = with_meta(given, deletionTimestamp=NOON) if deleted else given
    found = read(given)
    assert found.state is state
    assert holds(seen(objects.Pod, given)) is found.holds


def test_a_manifest_without_status_is_a_pending_pod() -> None:
    given = written.pod()
    del given["status"]
    assert read(given).state is State.PENDING


def test_a_pod_that_is_deleted_before_it_was_placed_is_never_started() -> None:
    made = read(with_meta(written.pod(), deletionTimestamp=NOON))
    assert (made.state, made.gated) == (State.PENDING, True)


def test_a_gated_pod_does_not_exist_yet() -> None:
    assert read(written.pod(schedulingGates=[{"name": "quota"}])).gated


def test_a_running_pod_without_a_node_is_a_fault() -> None:
    heard = Heard()
    read(written.pod(status={"phase": "Running"}), heard)
    assert heard == [("spec.nodeName", "missing, though status.phase is Running")]


def test_an_unknown_phase_is_a_fault() -> None:
    heard = Heard()
    read(written.pod(status={"phase": "Dreaming"}), heard)
    assert heard == [("status.phase", "'Dreaming' is none of Pending, Running, Unknown, Succeeded, Failed")]


def test_times_are_read_and_a_pod_without_one_is_being_submitted_now() -> None:
    old = with_meta(written.pod(on="node-1", status={"startTime": NOON}), creationTimestamp=MORNING)
    assert (read(old).created, read(old).started) == (NINE - 3600, NINE + 3 * 3600)
    assert (read(written.pod()).created, read(written.pod()).started) == (NINE, None)


def test_a_standing_nomination_is_kept_only_by_a_pending_pod() -> None:
    status = {"nominatedNodeName": "node-2"}
    assert read(written.pod(status=status)).nominated == "node-2"
    assert not read(written.pod(on="node-1", status=status)).nominated


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ({"runai-gpu-group": "g1"}, ("g1",)),
        ({"runai-gpu-group/b": "b", "runai-gpu-group/a": "a"}, ("a", "b")),
        ({}, ("default/p",)),
    ],
    ids=["one", "several", "unnamed"],
)
def test_a_placed_share_stands_on_the_gpus_that_its_labels_name_or_on_one_of_its_own(
    labels: Json, groups: tuple[str, ...]
) -> None:
    given = written.pod(gpus=0, on="node-1", labels=labels, notes={"gpu-fraction": "0.5"})
    assert read(given).gpu_groups == groups


def test_unnamed_shares_on_several_gpus_have_a_gpu_each() -> None:
    notes = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    assert read(written.pod(gpus=0, on="node-1", notes=notes)).gpu_groups == ("default/p/0", "default/p/1")


def test_a_waiting_share_stands_on_no_gpu_whatever_its_labels_say() -> None:
    given = written.pod(gpus=0, labels={"runai-gpu-group": "g1"}, notes={"gpu-fraction": "0.5"})
    assert read(given).gpu_groups == ()


def test_the_order_in_a_gang_comes_from_role_and_task_priority() -> None:
    master = {"training.kubeflow.org/job-role": "master", "kai.scheduler/task-priority": "-5"}
    made = read(written.pod(labels=master))
    assert (made.leader, made.task_priority) == (True, -5)
    assert not read(written.pod(labels={"training.kubeflow.org/job-role": "worker"})).leader


def test_a_task_priority_that_is_no_number_is_a_fault() -> None:
    heard = Heard()
    read(written.pod(labels={"kai.scheduler/task-priority": "high"}), heard)
    assert heard == [("metadata.labels.kai.scheduler/task-priority", "'high' is not a whole number")]


def test_of_several_times_that_are_none_each_is_a_fault() -> None:
    heard = Heard()
    seen = written.with_meta(written.pod(on="node-1"), creationTimestamp="today", deletionTimestamp="soon")
    made = read(seen, heard)
    assert [field for field, _ in heard] == ["metadata.creationTimestamp", "metadata.deletionTimestamp"]
    assert made.deleted_at is None


def test_a_placed_pod_that_shares_more_gpus_than_any_node_has_is_a_fault() -> None:
    heard = Heard()
    notes = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1000000000000"}
    made = read(written.pod(gpus=0, on="node-1", notes=notes), heard)
    assert [field for field, _ in heard] == ["metadata.annotations.gpu-fraction-num-devices"]
    assert len(made.gpu_groups) == 1


@pytest.mark.parametrize(
    ("owners", "owner"),
    [
        ([], ""),
        ([{"kind": "Job", "name": "j", "uid": "u1"}], "u1"),
        ([{"kind": "Job", "name": "j"}], "Job/j"),
        ([{"kind": "StatefulSet", "name": "s", "uid": "u2"}], ""),
        (
            [{"kind": "X", "name": "x", "uid": "u3"}, {"kind": "Job", "name": "j", "uid": "u4", "controller": True}],
            "u4",
        ),
    ],
    ids=["bare", "job", "job-without-uid", "stateful-set", "controller-of-two"],
)
def test_only_an_owner_that_gives_its_pods_new_names_counts_as_one(owners: list[Json], owner: str) -> None:
    assert read(with_meta(written.pod(), ownerReferences=owners)).owner == owner


@pytest.mark.parametrize(("owners", "bare"), [([], True), ([{"kind": "StatefulSet", "name": "s", "uid": "u"}], False)])
def test_only_a_pod_without_any_owner_is_bare(owners: list[Json], bare: bool) -> None:
    assert read(with_meta(written.pod(), ownerReferences=owners)).bare is bare


def test_the_uid_of_an_owner_is_as_long_as_uids_can_be_whatever_a_user_writes() -> None:
    def owner(uid: str) -> str:
        return read(with_meta(written.pod(), ownerReferences=[{"kind": "Job", "name": "j", "uid": uid}])).owner

    assert len(owner("u" * 1_000_000)) == 64
    assert owner("u" * 1_000_000) != owner("u" * 1_000_001)


def test_the_devices_that_kubelet_gave_are_found_in_every_container() -> None:
    def gave(*ids: str, name: str = "nvidia.com/gpu") -> Json:
        return {"allocatedResourcesStatus": [{"name": name, "resources": [{"resourceID": i} for i in ids]}]}

    status = {"initContainerStatuses": [gave("a")], "containerStatuses": [gave("b", "c"), gave("d", name="other"), {}]}
    assert device_ids(seen(objects.Pod, written.pod(status=status))) == ("a", "b", "c")
    assert device_ids(seen(objects.Pod, written.pod())) == ()


def test_only_a_placed_pod_has_devices() -> None:
    assert read(written.pod(on="node-1"), devices=(2, 3)).devices == (2, 3)
    assert read(written.pod(), devices=(2, 3)).devices == ()


@pytest.mark.parametrize(("strictness", "spreads"), [("ScheduleAnyway", True), ("DoNotSchedule", False)])
def test_a_pod_prefers_to_be_spread_where_it_may_be_scheduled_anyway(strictness: str, *, spreads: bool) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": strictness}
    assert read(written.pod(topologySpreadConstraints=[constraint])).prefers is spreads


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("affinity", "prefers"),
    [
        ({"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": ZONE}]}}, True),
        ({"podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": TERM}]}}, True),
        ({"podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": TERM}]}}, True),
        ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}, False),
        ({}, False),
    ],
)
def test_a_pod_prefers_nodes_by_its_preferred_affinities(affinity: Json, *, prefers: bool) -> None:
    assert read(written.pod(affinity=affinity)).prefers is prefers
