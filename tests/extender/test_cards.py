"""Parts of GPUs as the watch shows them: what an annotation alone names counts nowhere, and KAI's own count."""

from collections.abc import Callable

import msgspec
import pytest
from gpuyard.common.cluster.objects import Pod
from gpuyard.common.cluster.reading import JsonPods, read_pod

from tests.extender.builders import Bench, Json, node, pod, queue
from tests.extender.protopods import in_protobuf

HALF = {"gpu-fraction": "0.5"}
GROUP = {"runai-gpu-group": "g"}


def phantom(name: str = "p", on: str = "n1") -> Json:
    """A pod with the annotation alone."""
    return pod(name, "team", 0, on=on, annotations={"gpu-fraction": "1"}, shared=False)


def by_kai(name: str = "p") -> Json:
    """A pod that KAI has placed."""
    return pod(name, "team", 0, on="n1", annotations=HALF, shared=False, labels=GROUP, schedulerName="kai-scheduler")


def reservation(on: str = "n1", phase: str = "Running") -> Json:
    """KAI's reservation pod of the group."""
    made = pod("keep", gpus=1, on=on, labels=GROUP, phase=phase)
    return made | {"metadata": made["metadata"] | {"namespace": "kai-resource-reservation"}}


def bench(*things: Json, limit: int = 2) -> Bench:
    return Bench(node("n1", 2), node("n2", 2), queue("team", limit=limit), *things)


@pytest.mark.row("X-64", case="queue")
def test_pods_with_the_annotation_alone_keep_nobody_out_of_their_queue() -> None:
    of = bench(phantom("a"), phantom("b"))
    assert of.used("team") == 0
    assert of.passes(pod("real", "team", 2))


@pytest.mark.row("X-64", case="node")
def test_nor_out_of_a_node() -> None:
    of = bench(phantom("a"), phantom("b"), limit=-1)
    assert of.ledger.snapshot.room["n1"].idle == 2
    half = pod("half", "team", 0, annotations=HALF)
    assert of.filter(half, "n1").node_names == ["n1"]


@pytest.mark.row("X-64", case="queue")
def test_an_annotation_that_is_added_to_a_running_pod_counts_nothing() -> None:
    of = bench(pod("p", "team", 0, on="n1"))
    of.put(phantom())
    assert of.used("team") == 0


@pytest.mark.row("X-64", case="told")
def test_the_extender_reports_the_annotation_and_lists_the_pod_as_doubtful() -> None:
    of = bench(phantom(on=""))
    why = "the pod does not request gpuyard.io/shared-gpu; create it anew where the overlay shared-gpus is installed"
    assert of.reports == [f"pod ns/p: metadata.annotations.gpu-fraction: has no effect: {why}"]
    assert of.feed.unreadable()["pods"] == 1


def in_json(thing: Json) -> Pod:
    return JsonPods().decode(msgspec.json.encode(thing))


def from_protobuf(thing: Json) -> Pod:
    return read_pod(in_protobuf(thing))


@pytest.mark.row("X-64", case="json-and-protobuf")
@pytest.mark.parametrize("read", [in_json, from_protobuf])
def test_both_forms_of_a_pod_tell_whether_it_requests_the_resource(read: Callable[[Json], Pod]) -> None:
    of = bench()
    real = pod("real", "team", 0, on="n1", annotations=HALF)
    counted = [of.translator.put_pod(read(one)).pod.shape.fraction for one in (real, phantom())]
    assert counted == [500, 0]


# --- KAI


@pytest.mark.row("X-64", case="kai")
@pytest.mark.parametrize("things", [(by_kai(), reservation()), (reservation(), by_kai())], ids=["pod first", "last"])
def test_a_pod_of_kai_counts_beside_its_reservation_pod_whichever_is_seen_first(things: tuple[Json, Json]) -> None:
    of = bench(*things)
    assert of.used("team") == 0.5
    assert of.ledger.snapshot.room["n1"].idle == 1


@pytest.mark.row("X-64", case="kai")
@pytest.mark.parametrize("others", [(), (reservation("n2"),)], ids=["none", "on another node"])
def test_without_it_on_that_node_the_pod_takes_nothing_and_the_reason_is_told(others: tuple[Json, ...]) -> None:
    of = bench(by_kai(), *others)
    assert of.used("team") == 0
    assert "has no effect: no reservation pod of KAI holds a GPU of group g on n1" in of.reports[0]


@pytest.mark.row("X-64", case="kai")
def test_it_counts_no_more_once_the_reservation_has_ended_or_gone() -> None:
    of = bench(by_kai(), reservation())
    of.put(reservation(phase="Succeeded"))
    assert of.used("team") == 0
    of.put(again := reservation())
    assert of.used("team") == 0.5
    of.drop(again)
    assert of.used("team") == 0


def test_a_pod_that_goes_with_its_reservation_is_forgotten() -> None:
    of = bench(kai := by_kai(), kept := reservation())
    of.drop(kai)
    of.drop(kept)
    of.put(reservation())
    assert of.used("team") == 0
    assert set(of.translator.pods) == {"kai-resource-reservation/keep"}
