"""Parts of GPUs by memory: what fits on one GPU, which GPU is chosen, and what it counts in queues."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.pods import pod
from gpuyard.engine.model import Pod, Shape, State, TopologyConstraint
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.devices import Devices
from msgspec.structs import replace

from tests.engine.builders import Yard, yard
from tests.engine.kube import written
from tests.engine.kube.written import Heard, seen

RESERVED = "kai-resource-reservation"
A100 = 16384
K80 = 11441
BIG = 24414
THIRD = Shape(gpu_memory=8138)


def cards(gpu_memory: int, gpus: int = 1) -> Yard:
    """One node with GPUs of this memory."""
    return yard().node("node-1", gpus=gpus, gpu_memory=gpu_memory).queue("a", quota=8)


def part(memory: int, group: str, **also: object) -> dict[str, object]:
    """A running pod with so many MiB of a shared GPU."""
    return {"shape": Shape(gpu_memory=memory), "pod": {"gpu_groups": (group,)}} | also


@pytest.mark.row("B-20", case="sixteen-of-1024")
def test_sixteen_pods_of_1024_mib_start_on_a_gpu_of_16384_mib() -> None:
    told = cards(A100).pending("a", 17, shape=Shape(gpu_memory=1024)).plan()
    assert (len(told.placed()), told.waits()) == (16, ["a-17"])


@pytest.mark.row("B-20", case="three-of-3813")
def test_three_pods_of_3813_mib_start_on_a_gpu_of_11441_mib() -> None:
    assert len(cards(K80).pending("a", 4, shape=Shape(gpu_memory=3813)).plan().placed()) == 3


@pytest.mark.row("B-20", case="halves-of-an-odd-number")
def test_two_halves_start_on_a_gpu_with_an_odd_number_of_mib() -> None:
    assert len(cards(K80).pending("a", 3, gpus="0.5").plan().placed()) == 2


def test_beside_half_a_gpu_of_11441_mib_5720_mib_are_free_and_no_more() -> None:
    half = cards(K80).running("a", gpus="0.5", pod={"gpu_groups": ("g",)})
    assert half.pending("a", name="fits", shape=Shape(gpu_memory=5720)).plan().placed("fits") == ["fits"]
    half = cards(K80).running("a", gpus="0.5", pod={"gpu_groups": ("g",)})
    assert half.pending("a", name="wide", shape=Shape(gpu_memory=5721)).plan().waits("wide") == ["wide"]


def test_a_gang_of_sixteen_parts_fits_in_a_domain_with_one_gpu() -> None:
    some = yard().topology("t", "zone").queue("a", quota=8)
    some.node("node-1", gpus=1, gpu_memory=A100, labels={"zone": "z"})
    gang = some.gang("a", 16, shape=Shape(gpu_memory=1024), topology=TopologyConstraint("t", required="zone"))
    assert len(gang.plan().placed()) == 16


def test_queues_count_gpu_memory_in_milli_gpus_rounded_up() -> None:
    snapshot = cards(A100).running("a", **part(1024, "g")).snapshot()  # type: ignore[arg-type]
    assert snapshot.use["a"].allocated.gpu == 63


@pytest.mark.row("B-21", case="one-node")
def test_a_part_goes_to_the_gpu_that_has_exactly_its_memory_free() -> None:
    some = cards(BIG, 3).running("a", gpus="0.5", pod={"gpu_groups": ("half",)})
    some.running("a", **part(2 * 8138, "tight"))  # type: ignore[arg-type]
    assert some.pending("a", name="p", shape=THIRD).plan().outcome.final["ns/p"].groups == ("tight",)


@pytest.mark.row("B-21", case="two-nodes")
def test_of_nodes_with_equally_many_free_gpus_a_part_goes_to_the_one_with_the_tightest_gpu() -> None:
    some = yard().node("a", gpus=1, gpu_memory=BIG).node("b", gpus=1, gpu_memory=BIG).queue("q", quota=8)
    some.running("q", gpus="0.5", on="a", pod={"gpu_groups": ("g",)})
    some.running("q", on="b", **part(2 * 8138, "g"))  # type: ignore[arg-type]
    assert some.pending("q", name="p", shape=THIRD).plan().node("p") == "b"


@pytest.mark.row("B-21", case="spread")
def test_to_spread_a_part_goes_to_the_gpu_with_the_most_free_memory() -> None:
    some = yard().node("a", gpus=1, gpu_memory=BIG).node("b", gpus=1, gpu_memory=BIG).queue("q", quota=8)
    some.running("q", on="a", **part(2 * 8138, "g"))  # type: ignore[arg-type]
    some.running("q", gpus="0.5", on="b", pod={"gpu_groups": ("g",)})
    assert some.pending("q", name="p", shape=THIRD).plan(placement="spread").node("p") == "b"


# --- KAI's reservation pods


def reservation() -> Pod:
    """KAI's reservation pod of the group `g` on node-1, as it is read."""
    of = written.pod("keep", 1, None, namespace=RESERVED, on="node-1", labels={"runai-gpu-group": "g"})
    found = pod(seen(objects.Pod, of), "", 0, Heard(), (1,))
    assert found.gpu_groups == ("g",)
    return found


def reserved(gpus: int = 2) -> Snapshot:
    """A node with a half of the GPU of group `g` in use, and that group's reservation pod."""
    some = cards(A100, gpus).running("a", gpus="0.5", pod={"gpu_groups": ("g",)})
    return some.snapshot().with_pod(reservation())


@pytest.mark.row("B-22", case="node")
def test_a_reservation_pod_and_its_group_take_one_gpu_of_the_node() -> None:
    assert reserved().room["node-1"].idle == 1


@pytest.mark.row("B-22", case="queues")
def test_the_gpu_of_a_reservation_pod_counts_in_the_queues_of_those_who_share_it_alone() -> None:
    assert reserved().total.gpu == 2000
    assert reserved().use["a"].allocated.gpu == 500


@pytest.mark.row("B-22", case="alone")
def test_a_reservation_pod_whose_group_is_empty_holds_its_gpu() -> None:
    assert reserved().draft().drop_pods(["ns/a-1"]).done().room["node-1"].idle == 1


def test_a_gpu_is_freed_with_the_last_pod_of_its_group_and_the_reservation_pod() -> None:
    snapshot = reserved(1)
    leaving = [replace(one, state=State.TERMINATING) for one in snapshot.pods.values()]
    left = snapshot.with_pod(*leaving).room["node-1"]
    assert (left.idle, left.releasing) == (0, 1)
    alone = snapshot.with_pod(*leaving).draft().drop_pods(["ns/a-1"]).done().room["node-1"]
    assert (alone.idle, alone.releasing) == (0, 1)


def test_the_index_of_a_shared_gpu_is_the_one_that_its_reservation_pod_was_given() -> None:
    assert Devices(reserved()).take("node-1", 1) == (0,)


def test_another_pod_with_the_label_of_a_group_keeps_its_own_gpus() -> None:
    of = written.pod("p", 1, on="node-1", labels={"runai-gpu-group": "g"})
    assert pod(seen(objects.Pod, of), None, 0, Heard()).shape.gpus == 1


def test_a_reservation_pod_without_a_group_holds_its_gpu_as_any_pod() -> None:
    of = written.pod("keep", 1, None, namespace=RESERVED, on="node-1")
    found = pod(seen(objects.Pod, of), "", 0, Heard())
    assert (found.shape.gpus, found.gpu_groups) == (1, ())


def test_a_victim_that_fits_elsewhere_goes_home_only_where_its_queue_stays_within_its_limit() -> None:
    """A part of this many MiB counts 0.1 GPUs on the large GPU, and 0.5 on the small one."""
    some = yard().node("large", gpus=1).node("small", gpus=1, gpu_memory=16_000).queue("a", limit="0.55")
    some.running("a", on="small", shape=Shape(gpu_memory=8000), pod={"gpu_groups": ("g",)})
    told = some.pending("a", shape=Shape(gpu_memory=8000), priority=75).plan()
    assert told.nominated == {"a-1": "large", "a-2": "large"}
