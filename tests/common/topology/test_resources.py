"""Resources: which names a node offers, and which device ids behind each."""

from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.resources import is_gpu, mig_resource, offers


def node(gpus: str = "[{id: a}, {id: b, health: unhealthy}]", top: str = "", extra: str = "") -> Node:
    body = f"{{gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960, gpus: {gpus}{extra}}}"
    return read(f"{top}\nnodes: {{n: {body}}}").nodes["n"]


def ids(found: Node) -> dict[str, list[str]]:
    return {name: [offer.id for offer in each] for name, each in offers(found).items()}


def test_gpus_are_offered_by_their_ids_with_their_health() -> None:
    assert ids(node()) == {"nvidia.com/gpu": ["a", "b"]}
    assert [offer.healthy for offer in offers(node())["nvidia.com/gpu"]] == [True, False]


def test_an_offer_lies_in_its_gpus_numa_zone() -> None:
    extra = ", numa: {zones: 2}, sharing: {strategy: time-slicing, replicas: 2}"
    assert [offer.zone for offer in offers(node(extra=extra))["nvidia.com/gpu"]] == [0, 0, 1, 1]


def test_other_resources_stand_beside_them() -> None:
    found = ids(node(extra=", otherDevices: [{name: example.com/x, count: 3}]"))
    assert found["example.com/x"] == ["example.com-x-0", "example.com-x-1", "example.com-x-2"]


def test_slices_may_be_told_by_their_mere_number_as_users_of_fake_gpu_operator_do() -> None:
    plain = ", otherDevices: [{name: nvidia.com/mig-1g.5gb, count: 3}]"
    assert [len(each) for each in ids(node(extra=plain)).values()] == [2, 3]
    assert len(set(ids(node(CUT, "mig-strategy: mixed", plain))["nvidia.com/mig-1g.5gb"])) == 5


def test_time_slicing_offers_each_gpu_several_times() -> None:
    found = ids(node("[{id: a}]", extra=", sharing: {strategy: time-slicing, replicas: 2}"))
    assert found == {"nvidia.com/gpu": ["a::0", "a::1"]}


def test_a_renamed_shared_resource_has_its_own_name() -> None:
    found = ids(node("[{id: a}]", extra=", sharing: {strategy: time-slicing, replicas: 2, rename: true}"))
    assert list(found) == ["nvidia.com/gpu.shared"]


CUT = "[{id: a, mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}, {id: b}]"


def test_mixed_slices_are_resources_of_their_own() -> None:
    found = ids(node(CUT, "mig-strategy: mixed"))
    assert {name: len(each) for name, each in found.items()} == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.5gb": 2,
        "nvidia.com/mig-2g.10gb": 1,
    }


def test_a_node_of_slices_alone_still_offers_zero_gpus() -> None:
    assert ids(node("[{mig: [{profile: 1g.5gb}]}]", "mig-strategy: mixed"))["nvidia.com/gpu"] == []


def test_single_slices_are_offered_as_gpus() -> None:
    assert len(ids(node(CUT, "mig-strategy: single"))["nvidia.com/gpu"]) == 4


def test_without_a_strategy_a_cut_card_is_one_gpu() -> None:
    assert ids(node(CUT)) == {"nvidia.com/gpu": ["a", "b"]}


def test_media_extensions_are_spelled_with_a_dot() -> None:
    assert mig_resource("1g.5gb+me") == "nvidia.com/mig-1g.5gb.me"


def test_which_resources_are_gpus() -> None:
    names = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/gpus", "example.com/x")
    assert [is_gpu(name) for name in names] == [True, True, True, False, False]
