"""Why is my pod pending? The six causes that people look for first, each provoked, and each answered twice alike.

`gpuyard explain` and the pod's Event say the same reason in the same words.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.demo.stage import manifests

from tests.cluster.planner import HEAD, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

WITHIN = 60
FIXED = {"kai.scheduler/preemptibility": "non-preemptible"}
IN_GANG = {"pod-group-name": "gang"}


@pytest.fixture
def idle(yard: Yard) -> Yard:
    """The yard, once the pods of earlier tests are gone: what is free is counted here."""
    yard.until(lambda: not pods_anywhere(yard), WITHIN, "the pods of others are gone")
    return yard


def pods_anywhere(yard: Yard) -> str:
    return yard.cluster.kubectl("get", "pods", "--all-namespaces", "--ignore-not-found", "-o", "name")


def answer(yard: Yard, *arguments: str) -> Json:
    """What a command says, run as users run it."""
    asked = [*arguments, "-o", "json", "--kubeconfig", str(yard.cluster.kubeconfig)]
    command = [sys.executable, "-m", "gpuyard.cli", *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    found: Json = json.loads(done.stdout)
    return found


def explained(yard: Yard, pod: str) -> Json:
    return answer(yard, "explain", f"pod/{pod}", "-n", yard.namespace)


def told(yard: Yard, pod: str) -> list[tuple[str, str]]:
    """(reason, sentence) of gpuyard's Events about a pod."""
    selected = ("--field-selector", f"involvedObject.name={pod}", "--namespace", yard.namespace, "-o", "json")
    events: list[Json] = json.loads(yard.cluster.kubectl("get", "events", *selected))["items"]
    ours = [one for one in events if one.get("reportingComponent", "").startswith("gpuyard.io/")]
    return [(one["reason"], one["message"]) for one in ours]


def why(yard: Yard, pod: str, reason: str) -> Json:
    """What the command says of a pod that waits for this reason, once the Event says the same."""
    said: dict[str, Json] = {}

    def alike() -> bool:
        said["now"] = explained(yard, pod)
        answer = (said["now"]["reason"], said["now"]["message"])
        return answer[0] == reason and answer in told(yard, pod)

    try:
        yard.until(alike, WITHIN, "command and Event agree")
    except AssertionError as problem:
        raise AssertionError(f"{problem}; said: {said}; told: {told(yard, pod)}") from None
    return said["now"]


def advised(said: Json, start: str) -> bool:
    return any(start in line for line in said["advice"])


@contextmanager
def ruled(yard: Yard, settings: str) -> Iterator[None]:
    """The extender with settings of its own, which the cluster shows to the command as an installed one would."""
    meta = {"name": "gpuyard-extender", "namespace": "gpuyard"}
    shown = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"extender.yaml": HEAD + settings}}
    yard.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpuyard"}}, shown)
    try:
        with with_settings(yard.cluster, settings):
            yield
    finally:
        yard.cluster.kubectl("delete", "configmap", "gpuyard-extender", "-n", "gpuyard")


# --- the namespace ---


@pytest.mark.row("Q-38")
@pytest.mark.parametrize("mode", ["name", "label"])
def test_a_namespace_that_is_not_the_queues_is_named_with_it(yard: Yard, mode: str) -> None:
    with ruled(yard, f"namespaceMatch: {mode}"):
        yard.cluster.kubectl("label", "namespace", yard.namespace, "kai.scheduler/queue=red", "--overwrite")
        queue, owner = yard.queue("blue"), yard.namespace if mode == "name" else "red"
        yard.submit("p", queue=queue)
        said = why(yard, "p", "NamespaceMismatch")
        assert said["message"] == f"the pod names queue {queue}, but its namespace belongs to queue {owner}"
        assert not yard.placed()


# --- the label ---


@pytest.mark.row("Q-39", case="wrong")
def test_a_wrong_label_is_answered_with_the_nearest_queue_and_that_helps(yard: Yard) -> None:
    queue = yard.queue("blue")
    wrong = queue.removesuffix("blue") + "bleu"
    yard.submit("p", queue=wrong)
    said = why(yard, "p", "QueueDoesNotExist")
    assert said["message"] == f"there is no queue {wrong}; did you mean {queue}?"
    assert advised(said, f"set the label kai.scheduler/queue to {queue}")
    yard.cluster.kubectl("label", "pod", "p", "-n", yard.namespace, f"kai.scheduler/queue={queue}", "--overwrite")
    yard.until(lambda: yard.placed() == {"p"}, WITHIN, "it runs as advised")


@pytest.mark.row("Q-39", case="missing-refuse")
def test_a_missing_label_is_refused_where_one_is_asked_for(yard: Yard) -> None:
    with ruled(yard, "podsWithoutQueue: refuse"):
        yard.submit("p")
        said = why(yard, "p", "QueueMissing")
        assert "set the label kai.scheduler/queue" in said["message"]
        assert not yard.placed()


@pytest.mark.row("Q-39", case="missing-pass")
def test_a_pod_without_a_label_else_runs_and_is_shown_as_not_governed(yard: Yard) -> None:
    yard.submit("p")
    yard.until(lambda: yard.placed() == {"p"}, WITHIN, "it runs")
    (row,) = [one for one in answer(yard, "top")["pods"] if one["pod"] == f"{yard.namespace}/p"]
    assert (explained(yard, "p")["queue"], row["queue"], told(yard, "p")) == ("", "", [])


# --- the scheduler ---


@pytest.mark.row("Q-40", case="other")
def test_a_pod_of_a_scheduler_that_is_not_served_is_told_which_to_use(yard: Yard) -> None:
    yard.submit("p", queue=yard.queue("blue"), schedulerName="volcano")
    said = why(yard, "p", "OtherScheduler")
    served = "use default-scheduler or kai-scheduler"
    assert said["message"] == f"schedulerName is volcano, which is not served here; {served}"


@pytest.mark.row("Q-40", case="kai-scheduler")
def test_a_pod_for_kai_scheduler_is_scheduled_by_queue(yard: Yard) -> None:
    queue = yard.queue("blue", limit=1)
    yard.submit("first", queue=queue, schedulerName="kai-scheduler")
    yard.until(lambda: yard.placed() == {"first"}, WITHIN, "it runs")
    yard.submit("second", queue=queue, schedulerName="kai-scheduler")
    assert why(yard, "second", "OverLimit")["kubeScheduler"]["message"] == yard.verdicts()["second"]


# --- the bounds ---


@pytest.mark.row("Q-41", case="limit")
def test_a_pod_over_the_limit_runs_by_the_smallest_limit_that_is_advised_and_by_none_below(idle: Yard) -> None:
    queue = idle.queue("blue", limit=5)
    idle.submit("old", queue=queue, gpus=3)
    idle.until(lambda: idle.placed() == {"old"}, WITHIN, "the first one runs")
    idle.submit("p", queue=queue, gpus=4)
    said = why(idle, "p", "OverLimit")
    assert said["message"] == f"queue {queue} has a limit of 5 GPUs (3 GPUs in use, 4 GPUs asked for)"
    assert advised(said, f"raise the limit of queue {queue} from 5 GPUs to 7 GPUs")
    idle.queue("blue", limit=6)
    refused(idle, f"queue {queue} has a limit of 6 GPUs")
    idle.queue("blue", limit=7)
    idle.until(lambda: "p" in idle.placed(), WITHIN, "it runs as advised")


@pytest.mark.row("Q-41", case="quota")
def test_a_pod_that_may_not_borrow_runs_by_the_smallest_quota_that_is_advised_and_by_none_below(idle: Yard) -> None:
    idle.cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))
    queue = idle.queue("blue", quota=2)
    idle.submit("p", queue=queue, gpus=5, priorityClassName="build")
    said = why(idle, "p", "NonPreemptibleOverQuota")
    assert "0 GPUs in use, 5 GPUs asked for" in said["message"]
    assert advised(said, f"raise the quota of queue {queue} from 2 GPUs to 5 GPUs")
    assert advised(said, "use a preemptible priority class, as build-preemptible")
    idle.queue("blue", quota=4)
    refused(idle, f"queue {queue} has a quota of 4 GPUs")
    idle.queue("blue", quota=5)
    idle.until(lambda: "p" in idle.placed(), WITHIN, "it runs as advised")


def refused(yard: Yard, sentence: str) -> None:
    """The new bound is known, and does not help."""
    yard.until(lambda: sentence in explained(yard, "p")["message"], WITHIN, f"p waits: {sentence}")
    yard.rests(lambda: "p" not in yard.placed(), 5, f"p waits: {sentence}")


# --- the nodes ---


@pytest.fixture
def cordoned(idle: Yard) -> Iterator[Yard]:
    idle.cluster.kubectl("cordon", "node-4")
    yield idle
    idle.cluster.kubectl("uncordon", "node-4")


@pytest.mark.row("Q-42", case="no-node")
def test_nodes_that_cannot_take_the_pod_are_counted_by_cause(cordoned: Yard) -> None:
    cordoned.submit("p", queue=cordoned.queue("blue"), gpus=9)
    said = why(cordoned, "p", "PodSchedulingErrors")["message"]
    assert "3 too few free GPUs" in said
    assert "1 cordoned" in said


@pytest.mark.row("Q-42", case="fragmented")
def test_enough_in_sum_but_on_no_node_names_the_largest_hole(idle: Yard) -> None:
    queue, fixed = idle.queue("blue"), [f"fixed-{number}" for number in range(4)]
    pods = (idle.pod(name, queue, 5) for name in fixed)
    idle.apply(*map(unmovable, pods))
    idle.until(lambda: idle.placed() == set(fixed), WITHIN, "each node has one of them")
    idle.submit("p", queue=queue, gpus=4)
    said = why(idle, "p", "Fragmented")
    assert "12 free in sum, at most 3 on one node" in said["message"]


def unmovable(pod: Json) -> Json:
    pod["metadata"]["labels"] |= FIXED
    return pod


# --- the gang ---


def gang(yard: Yard, gpus: int, pods: Mapping[str, str], **spec: object) -> None:
    """A gang: its pods by name, each with the part that it belongs to."""
    queue = yard.queue("blue")
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    meta = {"name": "gang", "namespace": yard.namespace}
    members = [yard.pod(name, queue, gpus, annotations=dict(IN_GANG)) for name in pods]
    for member, part in zip(members, pods.values(), strict=True):
        member["metadata"]["labels"] |= {"kai.scheduler/subgroup-name": part} if part else {}
    yard.apply(group | {"metadata": meta, "spec": {"queue": queue, **spec}}, *members)


@pytest.mark.row("Q-43", case="does-not-fit")
def test_a_gang_that_is_too_big_says_how_far_it_came_and_which_part_is_short(idle: Yard) -> None:
    parts = [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 4}]
    gang(idle, 8, {"p": "master"} | dict.fromkeys(("w1", "w2", "w3", "w4"), "worker"), subGroups=parts)
    said = why(idle, "p", "GangDoesNotFit")["message"]
    assert said == "the gang needs room for 5 pods at once, and part worker does not find it (found 4 of 5)"
    assert not idle.placed()


@pytest.mark.row("Q-43", case="incomplete")
def test_a_gang_whose_pods_are_missing_says_how_many_there_are(idle: Yard) -> None:
    gang(idle, 1, {"p": ""}, minMember=3)
    said = why(idle, "p", "GangIncomplete")["message"]
    assert said == "the gang needs 3 pods to start, and not so many exist (found 1 of 3)"
