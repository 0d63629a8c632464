"""Which parts of GPUs count: those that kube-scheduler asks about, those of drafts, and those that KAI has reserved."""

from typing import Any

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.parts import SHARED_GPU, beside, of_kai, without_effect
from gpuyard.engine.kube.pod_facts import pod_facts
from gpuyard.engine.model import GPU
from gpuyard.engine.model.snapshot import Snapshot

from tests.engine.kube.written import Heard, Json, harvest, node, pod, queue, reading, seen, with_meta

HALF = {"gpu-fraction": "0.5"}
RESOURCES = ("containers", "initContainers")
WAYS = ("requests", "limits")


def there(of: Json) -> Json:
    """The object as the API server has it."""
    return with_meta(of, uid=f"uid-{of['metadata']['name']}")


def shares(name: str = "p", on: str = "", *, notes: Json = HALF, labels: Json | None = None, **spec: Any) -> Json:  # noqa: ANN401
    """A pod of a cluster with an annotation for a half of a GPU, and nothing else."""
    return there(pod(name, 0, on=on, notes=notes, labels=labels, **spec))


def requesting(amount: object = "1", *, within: str = "containers", way: str = "limits") -> Json:
    """The same that requests the resource as well."""
    made = shares(on="node-1")
    return made | {"spec": made["spec"] | {within: [{}, {"resources": {way: {SHARED_GPU: amount}}}]}}


def by_kai(name: str = "p", group: str = "g", scheduler: str = "kai-scheduler") -> Json:
    """A pod with a half of a GPU as KAI places it."""
    return shares(name, "node-1", labels={"runai-gpu-group": group}, schedulerName=scheduler)


def reservation(group: str = "g", on: str = "node-1", gpus: int = 1, *, status: Json | None = None) -> Json:
    """KAI's reservation pod for a GPU of a node."""
    labels, space = {"runai-gpu-group": group}, "kai-resource-reservation"
    return there(pod(f"keep-{group}", gpus, None, on=on, namespace=space, labels=labels, status=status))


def fraction(of: Json) -> int:
    heard = Heard()
    found = pod_facts(seen(objects.Pod, of), heard).pod.shape.fraction
    assert not heard
    return found


def snapshot(*pods: Json) -> Snapshot:
    return reading(node(gpus=2), node("node-2", gpus=2), queue(), *pods).snapshot


def used(of: Snapshot) -> int:
    """Thousandths of GPUs that the queue of these pods uses."""
    return of.use["team-a"].allocated.gpu


@pytest.mark.row("X-64", case="queue")
def test_a_part_that_only_an_annotation_names_takes_nothing_of_a_queue() -> None:
    assert used(snapshot(shares(on="node-1"))) == 0


@pytest.mark.row("X-64", case="node")
def test_nor_does_it_take_a_gpu_of_a_node() -> None:
    of = snapshot(shares(on="node-1"))
    assert (of.room["node-1"].idle, of.pods["default/p"].gpu_groups) == (2, ())


@pytest.mark.row("X-64", case="queue")
@pytest.mark.parametrize("notes", [HALF, {"gpu-memory": "4096"}, {"gpu-memory": "much"}, {"gpu-fraction": "NaN"}])
def test_whatever_the_annotation_says_it_is_no_fault(notes: Json) -> None:
    told = pod_facts(seen(objects.Pod, shares(notes=notes)), heard := Heard())
    assert (told.pod.shape.wants_gpu, heard) == (False, [])


@pytest.mark.parametrize("within", RESOURCES)
@pytest.mark.parametrize("way", WAYS)
def test_a_part_counts_if_any_container_requests_the_resource(within: str, way: str) -> None:
    assert fraction(requesting(within=within, way=way)) == GPU // 2


def test_the_amount_does_not_matter_as_kube_scheduler_asks_about_the_name() -> None:
    assert fraction(requesting("0")) == GPU // 2


def test_another_resource_is_not_enough() -> None:
    made = shares()
    made["spec"]["containers"] = [{"resources": {"requests": {"cpu": "1"}}}]
    assert fraction(made) == 0


def test_a_pod_with_whole_gpus_is_still_told_that_these_exclude_a_part() -> None:
    heard = Heard()
    assert pod_facts(seen(objects.Pod, there(pod(gpus=1, notes=HALF))), heard).pod.shape.gpus == 1
    assert "excludes nvidia.com/gpu" in heard[0][1]


@pytest.mark.row("X-64", case="draft")
@pytest.mark.parametrize("on", ["", "node-1"], ids=["waits", "runs"])
def test_the_annotation_is_enough_in_a_draft_that_no_api_server_has_seen(on: str) -> None:
    assert fraction(pod(gpus=0, notes=HALF, on=on)) == GPU // 2


# --- KAI


@pytest.mark.row("X-64", case="kai")
@pytest.mark.parametrize("state", [{}, {"deletionTimestamp": "2026-03-01T12:00:00Z"}], ids=["running", "terminating"])
def test_the_part_of_a_pod_that_kai_placed_counts_beside_its_reservation_pod(state: Json) -> None:
    of = snapshot(by_kai(), with_meta(reservation(), **state))
    assert (used(of), of.pods["default/p"].gpu_groups) == (GPU // 2, ("g",))
    assert of.room["node-1"].idle == 1


@pytest.mark.row("X-64", case="kai")
@pytest.mark.parametrize(
    "others",
    [
        (),
        (reservation("other"),),
        (reservation(on="node-2"),),
        (reservation(gpus=0),),
        (reservation(status={"phase": "Succeeded"}),),
        (with_meta(reservation(), namespace="default"),),
    ],
    ids=["none", "of another GPU", "on another node", "without a GPU", "that has ended", "in a namespace of users"],
)
def test_a_pod_that_looks_like_one_of_kai_takes_no_part_without_its_reservation_pod(others: tuple[Json, ...]) -> None:
    of = snapshot(by_kai(), *others)
    assert (of.pods["default/p"].shape.shared, of.pods["default/p"].gpu_groups) == (False, ())


@pytest.mark.row("X-64", case="kai")
@pytest.mark.parametrize(
    "other",
    [
        by_kai(scheduler="default-scheduler"),
        shares(labels={"runai-gpu-group": "g"}, schedulerName="kai-scheduler"),
        shares(on="node-1", schedulerName="kai-scheduler"),
        by_kai() | {"status": {"phase": "Pending"}},
    ],
    ids=["of another scheduler", "that waits", "without a group", "that names its node itself"],
)
def test_beside_a_reservation_pod_no_other_pod_takes_a_part(other: Json) -> None:
    of = snapshot(other, reservation())
    assert not of.pods["default/p"].shape.shared


def test_every_gpu_of_a_pod_has_to_be_reserved() -> None:
    both = by_kai()
    both["metadata"]["labels"] = {"runai-gpu-group/a": "a", "runai-gpu-group/b": "b"}
    both["metadata"]["annotations"] = HALF | {"gpu-fraction-num-devices": "2"}
    assert not snapshot(both, reservation("a")).pods["default/p"].shape.shared
    assert snapshot(both, reservation("a"), reservation("b")).pods["default/p"].gpu_groups == ("a", "b")


@pytest.mark.parametrize("of", [requesting(), pod(gpus=0, notes=HALF), there(pod())], ids=["asked", "draft", "whole"])
def test_of_other_pods_it_does_not_matter_what_is_reserved(of: Json) -> None:
    assert of_kai(seen(objects.Pod, of)) == ()


# --- what is told


def told(of: Json) -> tuple[str, str] | None:
    given = seen(objects.Pod, of)
    return without_effect(given, pod_facts(given, Heard()).pod)


@pytest.mark.row("X-64", case="told")
@pytest.mark.parametrize("name", ["gpu-fraction", "gpu-memory"])
def test_an_annotation_without_effect_is_told_with_the_remedy(name: str) -> None:
    why = "the pod does not request gpuyard.io/shared-gpu; create it anew where the overlay shared-gpus is installed"
    assert told(shares(notes={name: "1"})) == (name, f"has no effect: {why}")


@pytest.mark.parametrize(
    "of",
    [requesting(), there(pod()), there(pod(notes={"pod-group-name": "g"})), pod(gpus=0, notes=HALF), by_kai()],
    ids=["requests it", "no annotation", "another one", "draft", "of KAI"],
)
def test_of_all_others_nothing_is_told(of: Json) -> None:
    assert told(of) is None


@pytest.mark.row("X-64", case="told")
def test_a_pod_that_looks_like_one_of_kai_is_told_which_reservation_is_missing() -> None:
    given = seen(objects.Pod, by_kai())
    alone = beside(pod_facts(given, Heard()).pod, ())
    why = "has no effect: no reservation pod of KAI holds a GPU of group g on node-1"
    assert without_effect(given, alone) == ("gpu-fraction", why)


@pytest.mark.row("X-64", case="told")
def test_a_reader_of_files_names_some_of_these_pods() -> None:
    found = harvest(*(shares(f"p{n}") for n in range(5)), shares("m", notes={"gpu-memory": "1"}))
    assert (found.faults, found.warnings) == ([], [])
    without = "has no effect in pods that do not request gpuyard.io/shared-gpu"
    assert found.notes() == [
        f"the annotation gpu-fraction {without}: default/p0, default/p1, default/p2 and 2 others",
        f"the annotation gpu-memory {without}: default/m",
    ]
