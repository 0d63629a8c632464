"""What a pod counts between filter's yes and its binding: what it was let through with, whatever it says meanwhile."""

from typing import Any

import pytest

from tests.extender.builders import Bench, group, node, pod, queue


def two_queues(*things: dict[str, Any]) -> Bench:
    made = Bench(node("n1"), node("n2"), queue("red", limit=8), queue("green", limit=8), *things)
    made.translator.settle()
    return made


@pytest.mark.row("X-13", case="queue")
@pytest.mark.parametrize("label", ["", "green"])
def test_a_pod_whose_queue_label_changes_on_its_way_counts_where_it_was_let_through(label: str) -> None:
    bench = two_queues()
    assert bench.passes(pod("p", "red", 8))
    bench.put(pod("p", label, 8))
    assert (bench.used("red"), bench.used("green")) == (8, 0)
    assert not bench.passes(pod("q", "red", 8))
    bench.put(pod("p", label, 8, on="n1"))
    assert (bench.used("red"), bench.used("green")) == (8, 0)
    assert bench.translator.altered == {"ns/p": ("kai.scheduler/queue",)}


@pytest.mark.row("X-13", case="amounts")
def test_a_part_of_a_gpu_that_changes_on_its_way_counts_as_it_was_let_through() -> None:
    bench = two_queues()
    assert bench.passes(pod("p", "red", 0, annotations={"gpu-fraction": "0.5"}))
    bench.put(pod("p", "red", 0, annotations={"gpu-fraction": "0.001"}))
    assert bench.used("red") == 0.5


@pytest.mark.row("X-13", case="gang")
def test_neither_another_gang_nor_a_pod_group_made_anew_takes_a_pod_on_its_way_into_another_queue() -> None:
    member = pod("p", "", 8, annotations={"pod-group-name": "g"})
    bench = two_queues(gang := group("g", 1, "red"), group("h", 1, "green"), member)
    assert bench.passes(member)
    bench.put(pod("p", "", 8, annotations={"pod-group-name": "h"}))
    bench.drop(gang)
    bench.put(group("g", 1, "green"))
    assert (bench.used("red"), bench.used("green")) == (8, 0)


@pytest.mark.row("X-13", case="lapsed")
def test_a_pod_that_is_not_bound_after_all_means_what_it_says() -> None:
    bench = two_queues()
    assert bench.passes(pod("p", "red", 8))
    bench.put(pod("p", "green", 8))
    bench.now = 60
    assert bench.passes(pod("q", "red", 8))
    assert bench.passes(pod("p", "green", 8))
    assert (bench.used("red"), bench.used("green")) == (8, 8)


@pytest.mark.row("X-13", case="lapsed")
def test_a_pod_that_is_not_bound_after_all_may_be_in_another_gang_by_then() -> None:
    member = pod("p", "", 8, annotations={"pod-group-name": "g"})
    bench = two_queues(group("g", 1, "red"), group("h", 1, "green"), member)
    assert bench.passes(member)
    bench.put(pod("p", "", 8, annotations={"pod-group-name": "h"}))
    bench.now = 60
    assert bench.passes(pod("q", "red", 8))
    assert bench.ledger.snapshot.workloads["ns/h"].queue == "green"
    assert bench.ledger.entries["ns/p"].seen.pod.workload == "ns/h"


def test_a_pod_that_is_deleted_on_its_way_leaves_nothing_behind() -> None:
    bench = two_queues()
    bench.put(leaving := pod("p", "red", 8))
    assert bench.passes(leaving)
    bench.put(pod("p", "green", 8))
    bench.drop(leaving)
    assert bench.passes(pod("q", "red", 8))
    assert not bench.translator._granted - {"ns/q"}
    assert not bench.translator._unfixed


@pytest.mark.row("X-13", case="lapsed")
def test_a_pod_is_asked_about_as_it_is_once_its_grant_has_lapsed_beside_others() -> None:
    bench = Bench(*(node(f"n{n}") for n in range(4)), queue("red", limit=32), queue("green", limit=0))
    bench.translator.settle()
    for name in ("a", "b", "p"):
        assert bench.passes(pod(name, "red", 8))
    bench.put(pod("p", "green", 8))
    bench.now = 60
    assert not bench.passes(pod("p", "green", 8))
    assert bench.used("green") == 0
