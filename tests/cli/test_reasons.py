"""Why a pod waits: the six causes that people look for first, each with the answer that helps."""

import re
from pathlib import Path

import pytest

from tests.cli.shell import Run, plan
from tests.engine.kube.written import Json, meta, node, pod, pod_group, queue

IN_GANG = {"pod-group-name": "gang"}


def why(folder: Path, *given: Json, args: tuple[str, ...] = ()) -> tuple[str, str]:
    """(reason, message) of the pod default/p."""
    waiting = plan(folder, *given, args=("-o", "json", *args)).answer["pending"]["default/p"]
    return waiting["reason"], waiting["message"]


def runs(folder: Path, *given: Json, args: tuple[str, ...] = ()) -> bool:
    return plan(folder, *given, args=("--check", "default/p", *args)).code == 0


def explained(folder: Path, *given: Json) -> Run:
    return plan(folder, *given, args=("--explain", "default/p"))


@pytest.mark.row("Q-37", case="runai-only")
def test_the_older_label_alone_is_enough_to_be_governed(tmp_path: Path) -> None:
    given = (node(), queue(limit=0), pod(queue=None, labels={"runai/queue": "team-a"}))
    assert why(tmp_path, *given)[0] == "OverLimit"


@pytest.mark.row("Q-37", case="both")
def test_of_two_labels_the_first_counts_and_a_warning_names_both(tmp_path: Path) -> None:
    given = (node(), queue("new"), queue("old", limit=0), pod(queue="new", labels={"runai/queue": "old"}))
    result = plan(tmp_path, *given, args=("--check", "default/p"))
    assert result.code == 0
    assert "warning: " in result.err
    assert "two queues are named, new and old: new counts" in result.err


@pytest.mark.row("Q-37", case="neither")
def test_a_pod_without_a_queue_is_placed_by_nobody_here_and_only_uses_up_what_it_holds(tmp_path: Path) -> None:
    given = (node(), queue(), pod("holds", 6, queue=None, on="node-1"), pod("p", 4))
    reason, message = why(tmp_path, *given)
    assert reason == "PodSchedulingErrors"
    assert "4 GPUs asked for; 2 free in sum" in message
    answer = plan(tmp_path, node(), queue(), pod("p", 4, queue=None), args=("-o", "json")).answer
    assert answer["cycles"][0]["actions"] == []


@pytest.mark.row("Q-38")
@pytest.mark.parametrize("mode", ["name", "label"])
def test_a_namespace_that_is_not_the_queues_is_named_with_it(tmp_path: Path, mode: str) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta("default", labels={"kai.scheduler/queue": "default"}),
    }
    given = (node(), queue("team-a"), queue("default"), theirs, pod())
    reason, message = why(tmp_path, *given, args=("--set", f"namespaceMatch={mode}"))
    assert reason == "NamespaceMismatch"
    assert message == "the pod names queue team-a, but its namespace belongs to queue default"
    assert runs(tmp_path, *given)


@pytest.mark.row("Q-38")
def test_a_namespace_that_is_not_given_is_bad_input_where_it_must_match(tmp_path: Path) -> None:
    result = plan(tmp_path, node(), queue(), pod(), args=("--set", "namespaceMatch=name"))
    assert (result.code, result.out) == (2, "")
    assert "namespaceMatch needs the Namespace 'default' in the input" in result.err


@pytest.mark.row("Q-39", case="wrong")
def test_a_wrong_label_is_answered_with_the_nearest_queue(tmp_path: Path) -> None:
    given = (node(), queue("team-blue"), pod(queue="team-bleu"))
    assert why(tmp_path, *given) == ("QueueDoesNotExist", "there is no queue team-bleu; did you mean team-blue?")
    assert "set the label kai.scheduler/queue to team-blue: it would run on node-1" in explained(tmp_path, *given).out


@pytest.mark.row("Q-39", case="wrong")
def test_a_queue_for_queues_and_an_orphan_take_no_pods(tmp_path: Path) -> None:
    parent = (node(), queue("dep"), queue("team-a", parent="dep"), pod(queue="dep"))
    assert why(tmp_path, *parent) == (
        "QueueDoesNotExist",
        "queue dep has queues below it: pods go into one of those",
    )
    orphan = (node(), queue("team-a", parent="gone"), pod())
    assert why(tmp_path, *orphan) == (
        "QueueDoesNotExist",
        "queue team-a hangs below gone, which does not exist",
    )


@pytest.mark.row("Q-39", case="missing-refuse")
def test_a_missing_label_is_refused_where_that_is_switched_on(tmp_path: Path) -> None:
    reason, message = why(tmp_path, node(), queue(), pod(queue=None), args=("--set", "podsWithoutQueue=refuse"))
    assert (reason, message) == (
        "QueueMissing",
        "it names no queue and is not governed: set the label kai.scheduler/queue",
    )


@pytest.mark.row("Q-39", case="missing-pass")
def test_a_missing_label_else_means_that_nobody_here_governs_the_pod(tmp_path: Path) -> None:
    given = (node(), queue(), pod(queue=None))
    assert why(tmp_path, *given)[0] == "QueueMissing"
    assert "not governed" in explained(tmp_path, *given).out


@pytest.mark.row("Q-40", case="other")
def test_another_schedulers_pod_is_told_which_to_use(tmp_path: Path) -> None:
    assert why(tmp_path, node(), queue(), pod(schedulerName="volcano")) == (
        "OtherScheduler",
        "schedulerName is volcano, which is not served here; use default-scheduler or kai-scheduler",
    )


@pytest.mark.row("Q-40", case="kai-scheduler")
def test_kai_scheduler_is_served_by_queue(tmp_path: Path) -> None:
    assert runs(tmp_path, node(), queue(), pod(schedulerName="kai-scheduler"))
    assert why(tmp_path, node(), queue(limit=0), pod(schedulerName="kai-scheduler"))[0] == "OverLimit"


@pytest.mark.row("Q-41", case="limit")
def test_a_request_beyond_the_limit_gets_the_smallest_limit_that_helps(tmp_path: Path) -> None:
    def given(limit: float) -> tuple[Json, ...]:
        return node(), queue(quota=2, limit=limit), pod("old", 3, on="node-1"), pod("p", 4)

    assert why(tmp_path, *given(5)) == (
        "OverLimit",
        "queue team-a has a limit of 5 GPUs (3 GPUs in use, 4 GPUs asked for)",
    )
    told = explained(tmp_path, *given(5)).out
    found = re.search(r"raise the limit of queue team-a from 5 GPUs to ([\d.]+) GPUs", told)
    assert found is not None
    helps = float(found[1])
    assert runs(tmp_path, *given(helps))
    assert not runs(tmp_path, *given(helps - 0.001))


@pytest.mark.row("Q-41", case="quota")
def test_what_is_not_preemptible_gets_the_smallest_quota_that_helps_or_a_class_that_may_borrow(tmp_path: Path) -> None:
    def given(quota: float, priority: str = "build") -> tuple[Json, ...]:
        return node(), queue(quota=quota), pod("p", 5, priorityClassName=priority)

    reason, message = why(tmp_path, *given(2))
    assert reason == "NonPreemptibleOverQuota"
    assert "queue team-a has a quota of 2 GPUs" in message
    assert "0 GPUs in use, 5 GPUs asked for" in message
    told = explained(tmp_path, *given(2)).out
    assert "raise the quota of queue team-a from 2 GPUs to 5 GPUs: it would run on node-1" in told
    assert "use a preemptible priority class, as build-preemptible: it would run on node-1" in told
    assert runs(tmp_path, *given(5))
    assert not runs(tmp_path, *given(4.999))
    assert runs(tmp_path, *given(2, "build-preemptible"))


@pytest.mark.row("Q-13")
def test_an_unset_limit_is_told_to_count_as_nothing(tmp_path: Path) -> None:
    reason, message = why(tmp_path, node(), queue(limit=None), pod())
    assert reason == "OverLimit"
    assert "limit is not set, which counts as 0" in message


@pytest.mark.row("Q-42", case="no-node")
def test_nodes_that_cannot_take_the_pod_are_counted_by_cause(tmp_path: Path) -> None:
    given = (
        node("full", 2),
        node("tainted", 8, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        node("cordoned", 8, unschedulable=True),
        queue(),
        pod("p", 4),
    )
    reason, message = why(tmp_path, *given)
    assert reason == "PodSchedulingErrors"
    for cause in ("1 too few free GPUs", "1 a taint that the pod does not tolerate", "1 cordoned"):
        assert cause in message


@pytest.mark.row("Q-42", case="fragmented")
def test_enough_in_sum_but_on_no_node_names_the_largest_hole(tmp_path: Path) -> None:
    fixed = {"kai.scheduler/preemptibility": "non-preemptible"}
    running = [pod(f"r{n}", 5, on=f"node-{n}", labels=fixed) for n in (1, 2)]
    reason, message = why(tmp_path, node("node-1"), node("node-2"), queue(quota=16), *running, pod("p", 4))
    assert reason == "Fragmented"
    assert "6 free in sum, at most 3 on one node" in message


@pytest.mark.row("Q-43", case="does-not-fit")
def test_a_gang_that_is_too_big_says_how_far_it_came_and_which_part_is_short(tmp_path: Path) -> None:
    parts = [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 3}]
    gang = [
        pod(name, 2, notes=IN_GANG, labels={"kai.scheduler/subgroup-name": part})
        for name, part in (("m", "master"), ("p", "worker"), ("w1", "worker"), ("w2", "worker"))
    ]
    reason, message = why(tmp_path, node(gpus=6), queue(), pod_group(minimum=None, subGroups=parts), *gang)
    assert reason == "GangDoesNotFit"
    assert message == "the gang needs room for 4 pods at once, and part worker does not find it (found 3 of 4)"


@pytest.mark.row("Q-43", case="does-not-fit")
def test_a_gang_of_which_no_pod_fits_says_so_with_the_causes_of_the_nodes(tmp_path: Path) -> None:
    gang = [pod(name, 8, notes=IN_GANG) for name in ("p", "p1", "p2")]
    reason, message = why(tmp_path, node(gpus=2), queue(), pod_group(minimum=3), *gang)
    assert reason == "GangDoesNotFit"
    assert message == "the gang needs room for 3 pods at once (found 0 of 3; nodes: 1 too few free GPUs)"


@pytest.mark.row("Q-43", case="incomplete")
def test_a_gang_whose_pods_are_missing_says_how_many_there_are(tmp_path: Path) -> None:
    reason, message = why(tmp_path, node(), queue(), pod_group(minimum=3), pod("p", notes=IN_GANG))
    assert (reason, message) == (
        "GangIncomplete",
        "the gang needs 3 pods to start, and not so many exist (found 1 of 3)",
    )
