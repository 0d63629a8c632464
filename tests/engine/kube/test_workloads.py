"""Whose a pod is: which queue, which rank, which gang; and who is heard when several speak."""

from typing import Any

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.workloads import (
    CLASSES,
    Birth,
    Claim,
    fixed,
    group_claim,
    merged,
    pod_claim,
    together,
    two_queues,
    workload,
    workload_key,
)
from gpuyard.engine.model import Workload

from tests.engine.kube import written
from tests.engine.kube.written import Heard, Json, seen, with_meta


def claim_of(heard: Heard | None = None, **pod: Any) -> Claim:  # noqa: ANN401 - the fields of a pod
    complain = heard if heard is not None else Heard()
    made = pod_claim(seen(objects.Pod, written.pod(**pod)), CLASSES, complain)
    assert heard is not None or not complain
    return made


def group_claim_of(
    heard: Heard | None = None,
    *,
    labels: Json | None = None,
    notes: Json | None = None,
    **spec: Any,  # noqa: ANN401
) -> Claim:
    complain = heard if heard is not None else Heard()
    given = with_meta(written.pod_group(**spec), labels=labels, annotations=notes)
    made = group_claim(seen(objects.PodGroup, given), CLASSES, complain)
    assert heard is not None or not complain
    return made


def made_of(*claims: Claim, default_queue: str = "") -> Workload:
    return workload("default/w", None, claims, Birth(7), default_queue=default_queue, complain=Heard())


@pytest.mark.row("Q-37", case="runai-only")
def test_the_older_label_alone_names_the_queue() -> None:
    assert made_of(claim_of(queue=None, labels={"runai/queue": "old"})).queue == "old"


@pytest.mark.row("Q-37", case="both")
def test_of_two_labels_that_differ_the_first_wins_and_both_are_told() -> None:
    both = claim_of(queue="new", labels={"runai/queue": "old"})
    assert made_of(both).queue == "new"
    assert two_queues([both]) == ("new", "old")
    assert two_queues([claim_of(queue="new", labels={"runai/queue": "new"})]) is None


@pytest.mark.row("Q-37", case="neither")
def test_a_pod_that_names_no_queue_is_not_governed_unless_there_is_a_default_one() -> None:
    assert not made_of(claim_of(queue=None)).governed
    assert made_of(claim_of(queue=None), default_queue="rest").queue == "rest"
    assert made_of(claim_of(queue="own"), default_queue="rest").queue == "own"


def test_the_queue_of_the_pod_group_wins_over_the_labels_of_its_pods() -> None:
    claims = [group_claim_of(queue="gang-queue"), claim_of(queue="pod-queue")]
    assert made_of(*claims).queue == "gang-queue"
    assert two_queues(claims) == ("gang-queue", "pod-queue")


def test_the_newer_label_of_a_pod_wins_over_the_older_one_of_its_pod_group() -> None:
    assert made_of(group_claim_of(labels={"runai/queue": "old"}), claim_of(queue="new")).queue == "new"


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({}, 50, True),
        ({"priority": 0}, 50, True),
        ({"priority": 99}, 99, True),
        ({"priority": 100}, 100, False),
        ({"priorityClassName": "build-preemptible"}, 75, True),
        ({"priorityClassName": "inference"}, 125, False),
        ({"priorityClassName": "theirs", "priority": 30}, 30, True),
        ({"priorityClassName": "train", "labels": {"priorityClassName": "build"}}, 100, False),
        ({"labels": {"kai.scheduler/preemptibility": "non-preemptible"}}, 50, False),
        ({"priorityClassName": "build", "labels": {"kai.scheduler/preemptibility": "preemptible"}}, 100, True),
    ],
    ids=str,
)
def test_class_and_label_make_the_rank(spec: Json, priority: int, preemptible: bool) -> None:
    made = made_of(claim_of(**spec))
    assert (made.priority, made.preemptible) == (priority, preemptible)


def test_a_gang_has_the_class_of_its_pod_group_whatever_its_pods_say() -> None:
    pod = claim_of(priorityClassName="build")
    assert made_of(group_claim_of(priorityClassName="train"), pod).priority_class == "train"
    unranked = made_of(group_claim_of(), pod)
    assert (unranked.priority, unranked.priority_class, unranked.preemptible) == (50, "", True)


def test_what_the_pod_group_says_in_spec_wins_over_label_annotation_and_pods() -> None:
    notes = {"kai.scheduler/preemption-delay": "2m", "kai.scheduler/staleness-grace-period": "2m"}
    labels = {"kai.scheduler/preemptibility": "preemptible"}
    spec: Json = {"preemptibility": "non-preemptible", "preemptionDelay": "1m", "stalenessGracePeriod": "-1s"}
    made = made_of(group_claim_of(notes=notes, labels=labels, **spec), claim_of(notes=notes, labels=labels))
    assert (made.preemptible, made.preemption_delay, made.staleness_grace) == (False, 60, -1)
    made = made_of(group_claim_of(), claim_of(notes=notes, labels=labels))
    assert (made.preemptible, made.preemption_delay, made.staleness_grace) == (True, 120, 120)


def test_only_the_schedulers_that_are_wired_to_the_extender_are_served() -> None:
    assert not made_of(claim_of(schedulerName="kai-scheduler")).scheduler
    assert not made_of(claim_of(schedulerName="default-scheduler")).scheduler
    assert made_of(claim_of(schedulerName="volcano")).scheduler == "volcano"


def test_a_display_name_is_taken_from_whoever_has_one() -> None:
    notes = {"gpuyard.io/display-name": "Training Job A"}
    assert made_of(group_claim_of(), claim_of(), claim_of(notes=notes)).display == "Training Job A"


def test_one_claim_is_its_own_sum() -> None:
    one = claim_of()
    assert merged([one]) is one


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ({"priorityClassName": "gold"}, "spec.priorityClassName"),
        ({"labels": {"kai.scheduler/preemptibility": "maybe"}}, "metadata.labels.kai.scheduler/preemptibility"),
        ({"notes": {"kai.scheduler/preemption-delay": "soon"}}, "metadata.annotations.kai.scheduler/preemption-delay"),
    ],
    ids=["class", "preemptibility", "delay"],
)
def test_what_cannot_be_read_is_named_by_its_field(pod: Json, field: str) -> None:
    heard = Heard()
    claim_of(heard, **pod)
    assert [where for where, _ in heard] == [field]


def test_an_unknown_class_is_told_with_those_that_are_known() -> None:
    heard = Heard()
    group_claim_of(heard, priorityClassName="gold")
    assert "known are build, build-preemptible, inference" in heard[0][1]


def test_a_pod_belongs_to_the_pod_group_that_it_names_else_to_itself() -> None:
    named = seen(objects.Pod, written.pod(notes={"pod-group-name": "gang"}))
    assert workload_key(named, {}, {}, Heard()) == ("default/gang", 1)
    assert workload_key(seen(objects.Pod, written.pod("p")), {}, {}, Heard()) == ("default/p", 1)


def test_a_pod_that_has_the_name_of_a_gang_by_chance_does_not_join_it() -> None:
    stranger = seen(objects.Pod, written.pod("gang"))
    assert workload_key(stranger, {}, {"default/gang": None}, Heard()) == ("default/gang.alone", 1)


def test_of_a_fixed_claim_only_who_pays_and_who_may_be_evicted_stays() -> None:
    then = Claim(queue="a", priority_class="train", priority=50, preemptible=True, display="old")
    now = Claim(queue="b", priority_class="build", priority=100, preemptible=False, display="new", staleness_grace=7)
    assert fixed(now, then) == Claim(
        queue="a", priority_class="train", priority=50, preemptible=True, display="new", staleness_grace=7
    )


def test_what_pods_with_a_node_leave_unsaid_is_not_for_waiting_ones_to_say() -> None:
    placed, waiting = Claim(queue="a"), Claim(queue="b", preemptible=False, priority=100, display="shown")
    assert together([placed, waiting], 1) == Claim(queue="a", display="shown")
    assert together([placed, waiting], 0) == Claim(queue="a", preemptible=False, priority=100, display="shown")
    assert together([placed], 1) == placed


def test_a_claim_that_named_no_queue_then_may_name_one_later() -> None:
    then = Claim(priority_class="train", priority=50)
    assert fixed(Claim(queue="b", priority=100), then) == Claim(queue="b", priority_class="train", priority=50)
