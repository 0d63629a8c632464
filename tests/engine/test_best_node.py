"""Which of the nodes with room a pod gets."""

import pytest
from gpuyard.engine.model import NodeTerm, PodTerm, PreferredNodes, Requirement, Shape

from tests.engine.builders import Yard, yard

HALF = Shape(fraction=500)


def three() -> Yard:
    """Nodes of 8 of which 6, 4 and 2 GPUs are free."""
    some = yard().node("wide").node("half").node("tight").queue("a", quota=24)
    return some.running("a", gpus=2, on="wide").running("a", gpus=4, on="half").running("a", gpus=6, on="tight")


def test_packing_takes_the_fullest_node_in_which_the_pod_fits() -> None:
    assert three().pending("a", gpus=2, name="p").plan().node("p") == "tight"
    assert three().pending("a", gpus=3, name="p").plan().node("p") == "half"


def test_spreading_takes_the_emptiest() -> None:
    assert three().pending("a", gpus=2, name="p").plan(placement="spread").node("p") == "wide"


def test_equals_go_by_name() -> None:
    assert yard().node("b").node("a").queue("q").pending("q", name="p").plan().node("p") == "a"


def test_room_now_counts_more_than_packing() -> None:
    some = three().pod("a-3", state="Terminating", deleted_at=None).pending("a", gpus=6, name="p")
    told = some.plan(cycles=1)
    assert told.started == {"p": "wide"}


def test_a_pod_without_gpu_keeps_away_from_nodes_with_gpus() -> None:
    some = yard().node("a-gpu").node("cpu", gpus=0).queue("q").pending("q", shape=Shape(cpu=100), name="p")
    assert some.plan().node("p") == "cpu"


def test_pods_without_gpu_are_packed_by_millicores() -> None:
    some = yard().node("a", gpus=0, cpu=8000).node("b", gpus=0, cpu=4000).queue("q")
    assert some.pending("q", shape=Shape(cpu=100), name="p").plan().node("p") == "b"
    assert some.plan(placement="spread").node("p") == "a"


def test_a_part_of_a_gpu_joins_a_shared_one_before_it_opens_another() -> None:
    some = three().running("a", gpus="0.5", on="wide", pod={"gpu_groups": ("g",)}).pending("a", gpus="0.5", name="p")
    assert some.plan().node("p") == "wide"


def test_to_spread_a_part_of_a_gpu_opens_another_where_most_are_free() -> None:
    some = three().running("a", gpus="0.5", on="tight", pod={"gpu_groups": ("g",)}).pending("a", gpus="0.5", name="p")
    told = some.plan(placement="spread")
    assert told.node("p") == "wide"


def test_what_the_pod_itself_prefers_counts_more_than_packing() -> None:
    fast = PreferredNodes(10, NodeTerm(labels=(Requirement("disk", "In", ("fast",)),)))
    some = three().node("fast", labels={"disk": "fast"})
    assert some.pending("a", shape=Shape(gpus=1, preferred=(fast,)), name="p").plan().node("p") == "fast"


@pytest.mark.parametrize(("field", "node"), [("pod_affinity", "wide"), ("pod_anti_affinity", "tight")])
def test_company_that_a_pod_prefers_or_would_rather_not_have(field: str, node: str) -> None:
    term = PodTerm("host", (Requirement("app", "In", ("x",)),), weight=5)
    some = yard().node("wide", labels={"host": "wide"}).node("tight", labels={"host": "tight"}).queue("a", quota=24)
    some.running("a", gpus=1, on="wide", pod={"labels": {"app": "x"}}).running("a", gpus=6, on="tight")
    shape = Shape(gpus=1, pod_affinity=(term,)) if field == "pod_affinity" else Shape(gpus=1, pod_anti_affinity=(term,))
    assert some.pending("a", shape=shape, name="p").plan().node("p") == node


def test_a_pod_that_finds_the_gpus_but_not_the_memory_goes_on_looking() -> None:
    some = yard().node("a", memory=100).node("b", memory=1000).queue("q")
    assert some.pending("q", shape=Shape(gpus=1, memory=500), name="p").plan().node("p") == "b"


def test_a_pod_without_gpu_that_finds_the_millicores_but_not_the_memory_goes_on_looking() -> None:
    some = yard().node("a", gpus=0, cpu=2000, memory=100).node("b", gpus=0, cpu=4000, memory=1000).queue("q")
    assert some.pending("q", shape=Shape(cpu=1000, memory=500), name="p").plan().node("p") == "b"
    told = yard().node("a", gpus=0, cpu=2000, memory=100).queue("q").pending("q", shape=Shape(memory=500)).plan()
    assert told.waits() == ["q-1"]


def test_a_pod_without_gpu_stays_where_its_labels_let_it() -> None:
    some = yard().node("a", gpus=0, cpu=2000).node("b", gpus=0, cpu=4000, labels={"zone": "east"}).queue("q")
    assert some.pending("q", shape=Shape(cpu=1, selector=(("zone", "east"),)), name="p").plan().node("p") == "b"
