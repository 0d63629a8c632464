"""Advice in words: what to change, from what to what, and who pays."""

import pytest
from gpuyard.engine.explain.advice import Advice, Option
from gpuyard.engine.explain.changes import (
    HOSTNAME,
    AddNode,
    Change,
    Lapse,
    MakePreemptible,
    Raise,
    Relax,
    Shrink,
    SmallerGang,
    UseQueue,
    Wait,
)
from gpuyard.engine.explain.suggestions import advice_in_words, option_in_words, suggestion
from gpuyard.engine.model import NodeTerm, PodTerm, Requirement, Shape
from gpuyard.engine.model.results import Foreign, Gap, NoQueue, Reason, Waiting

from tests.engine.builders import yard

SNAPSHOT = yard().nodes(1).queue("a", quota=2, limit=8).pending("a").snapshot()
ME = "ns/a-1"
SHAPE = Shape(gpus=4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Wait(until=1_000_000), "wait until 1970-01-12T13:46:40Z"),
        (Lapse(plan="plan-7"), "wait until the promises of plan plan-7 are kept or have ended"),
        (UseQueue(workload=ME, queue="a"), "set the label kai.scheduler/queue to a"),
        (Relax(workload=ME, demand="selector", key="zone"), "drop zone from the node selector"),
        (Relax(workload=ME, demand="taint", key="dedicated"), "tolerate the taint dedicated"),
        (Relax(workload=ME, demand="pod_affinity"), "drop the required pod affinity"),
        (
            Raise(queue="a", resource="gpu", kind="limit", to=9500),
            "raise the limit of queue a from 8 GPUs to 9.5 GPUs",
        ),
        (Raise(queue="a", resource="gpu", kind="quota", to=3000), "raise the quota of queue a from 2 GPUs to 3 GPUs"),
        (SmallerGang(workload=ME, to=2), "let the gang start with 2 of its pods (minMember)"),
        (Shrink(workload=ME, shape=SHAPE, field="gpus", to=1), "ask for at most 1 GPU in each pod"),
        (Shrink(workload=ME, shape=SHAPE, field="gpus", to=2), "ask for at most 2 GPUs in each pod"),
        (Shrink(workload=ME, shape=SHAPE, field="fraction", to=250), "ask for at most 0.25 of a GPU in each pod"),
        (
            Shrink(workload=ME, shape=SHAPE, field="gpu_memory", to=64),
            "ask for at most 64 MiB of GPU memory in each pod",
        ),
        (Shrink(workload=ME, shape=SHAPE, field="cpu", to=500), "ask for at most 500m CPU in each pod"),
        (Shrink(workload=ME, shape=SHAPE, field="memory", to=10**9), "ask for at most 1000 MB of memory in each pod"),
        (MakePreemptible(workload=ME), "use a preemptible priority class, as build-preemptible"),
        (AddNode(workload=ME, gpus=6), "add a node with 6 GPUs"),
    ],
)
def test_a_change_is_an_instruction(change: Change, words: str) -> None:
    assert suggestion(change, SNAPSHOT) == words


def test_a_new_node_is_told_with_all_that_the_pod_needs_of_it() -> None:
    near = PodTerm("zone", (Requirement("app", "Exists"),))
    rack = NodeTerm(labels=(Requirement("rack", "In", ("r1",)), Requirement("gone", "DoesNotExist")))
    shape = Shape(
        gpus=1, cpu=3000, memory=2 * 10**9, selector=(("disk", "fast"),), affinity=(rack,), pod_affinity=(near,)
    )
    labels = {"disk": "fast", "rack": "r1", "zone": "east", "owner": "me", HOSTNAME: "node-1"}
    some = yard().nodes(1, cpu=2000, memory=10**9, labels=labels).queue("a").pending("a", shape=shape)
    assert suggestion(AddNode(workload=ME, gpus=1), some.snapshot()) == (
        "add a node with 1 GPU, 3000m CPU, 2000 MB of memory, labelled disk=fast, rack=r1, zone=east"
    )


def test_a_new_node_for_a_request_in_gpu_memory_is_told_with_the_label_for_it() -> None:
    some = yard().nodes(1).queue("a").pending("a", shape=Shape(gpu_memory=50))
    words = "add a node with 1 GPU, labelled nvidia.com/gpu.memory=80000"
    assert suggestion(AddNode(workload=ME, gpus=1), some.snapshot()) == words


def test_a_new_node_is_told_of_a_pod_that_the_plan_has_yet_to_evict() -> None:
    some = yard().nodes(1).queue("a").running("a")
    assert suggestion(AddNode(workload=ME, gpus=1), some.snapshot()) == "add a node with 1 GPU"


def test_an_option_says_where_the_pod_runs() -> None:
    option = Option(change=AddNode(workload=ME, gpus=1), node="node-1")
    assert option_in_words(option, SNAPSHOT) == "add a node with 1 GPU: it would run on node-1"


def test_an_option_names_who_is_evicted_and_who_is_moved() -> None:
    change = AddNode(workload=ME, gpus=1)
    option = Option(change=change, node="n", evicted=("ns/b", "ns/c"), moved=("ns/d",), displaced=("ns/e",))
    words = "it would run on n, evicts ns/b, ns/c, moves ns/d, goes before ns/e"
    assert option_in_words(option, SNAPSHOT).endswith(words)


def test_of_very_many_who_pay_the_first_are_named() -> None:
    option = Option(change=AddNode(workload=ME, gpus=1), node="n", displaced=tuple(f"ns/p{n}" for n in range(10)))
    assert option_in_words(option, SNAPSHOT).endswith(
        "goes before " + ", ".join(f"ns/p{n}" for n in range(8)) + " and 2 more"
    )


def test_without_an_option_the_causes_are_named() -> None:
    gap = Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=2, needed=3))
    [line] = advice_in_words(Advice(pod=ME, causes=(gap, Waiting(Reason.OUTRANKED))), SNAPSHOT)
    assert line.startswith(
        "no single change helps: GangDoesNotFit: the gang needs room for 3 pods at once (found 2 of 3)"
    )
    assert line.endswith(" and Outranked: others rank before it")


def test_a_single_cause_is_told_as_the_only_one_that_was_found() -> None:
    [line] = advice_in_words(Advice(pod=ME, causes=(Waiting(Reason.OUTRANKED),)), SNAPSHOT)
    assert line == "no single change helps: Outranked: others rank before it; a second cause was not found"


def test_two_changes_that_help_together_stand_behind_the_causes() -> None:
    pair = Option(change=Wait(until=60), node="n", also=AddNode(workload=ME, gpus=1))
    causes = (Waiting(Reason.OUTRANKED), Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=2, needed=3)))
    _, line = advice_in_words(Advice(pod=ME, causes=causes, pairs=(pair,)), SNAPSHOT)
    assert line.startswith("two together do: wait until 1970-01-01T00:01:00Z, and add a node with 1 GPU")
    assert line.endswith(": it would run on n")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            Waiting(Reason.OTHER_SCHEDULER, Foreign(found="volcano")),
            "set schedulerName to default-scheduler or kai-scheduler, so that it is governed",
        ),
        (
            Waiting(Reason.QUEUE_MISSING, NoQueue(label="", why="absent")),
            "set the label kai.scheduler/queue to a queue's name, so that it is governed",
        ),
    ],
)
def test_who_is_not_governed_is_told_what_would_change_that(cause: Waiting, words: str) -> None:
    assert advice_in_words(Advice(pod=ME, causes=(cause,)), SNAPSHOT) == [words]


def test_each_option_is_a_line() -> None:
    options = (Option(change=AddNode(workload=ME, gpus=1), node="n"), Option(change=Wait(until=60), node="n"))
    assert len(advice_in_words(Advice(pod=ME, options=options), SNAPSHOT)) == 2
