"""Labels: what GPU feature discovery writes, value by value."""

import pytest
from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.gfd.labels import family, labels


def node(
    product: str = "Tesla-K80", memory: int = 11441, gpus: str = "[{}, {}]", top: str = "", extra: str = ""
) -> Node:
    body = f"{{gpu-product: '{product}', gpu-memory: {memory}, gpus: {gpus}{extra}}}"
    return read(f"{top}\nnodes: {{n: {body}}}").nodes["n"]


def short(found: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("nvidia.com/"): value for name, value in found.items()}


A100 = "NVIDIA A100-SXM4-40GB"


def test_a_plain_node_has_every_label() -> None:
    assert short(labels(node(top="mig-strategy: mixed"), "1700000000")) == {
        "gpu.count": "2",
        "gpu.memory": "11441",
        "gpu.product": "Tesla-K80",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.family": "kepler",
        "gpu.compute.major": "3",
        "gpu.compute.minor": "7",
        "gpu.mode": "compute",
        "gpu.machine": "gpuyard-mock",
        "gpu.present": "true",
        "cuda.driver-version.major": "470",
        "cuda.driver-version.minor": "57",
        "cuda.driver-version.revision": "02",
        "cuda.driver-version.full": "470.57.02",
        "cuda.driver.major": "470",
        "cuda.driver.minor": "57",
        "cuda.driver.rev": "02",
        "cuda.runtime-version.major": "11",
        "cuda.runtime-version.minor": "4",
        "cuda.runtime-version.full": "11.4",
        "cuda.runtime.major": "11",
        "cuda.runtime.minor": "4",
        "mig.capable": "false",
        "mig.strategy": "mixed",
        "mps.capable": "false",
        "vgpu.present": "false",
        "gfd.timestamp": "1700000000",
        "run.ai/fake.gpu": "true",
    }


def test_without_a_strategy_its_label_is_absent() -> None:
    assert "mig.strategy" not in short(labels(node()))


def test_a_timestamp_can_be_left_out() -> None:
    assert "gfd.timestamp" not in short(labels(node()))


def test_a_node_without_gpus_has_no_labels() -> None:
    assert labels(node(gpus="[]")) == {}


def test_memory_is_left_out_when_nothing_is_known_of_it() -> None:
    assert "gpu.memory" not in short(labels(node(memory=0)))


def test_a_product_too_long_for_a_label_is_cut_to_what_the_api_takes() -> None:
    found = short(labels(node(product="X" * 62 + "-" + "Y" * 9)))
    assert found["gpu.product"] == "X" * 62


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        ((3, 7), "kepler"), ((5, 2), "maxwell"), ((6, 1), "pascal"), ((7, 0), "volta"), ((7, 5), "turing"),
        ((8, 0), "ampere"), ((8, 6), "ampere"), ((8, 9), "ada-lovelace"), ((9, 0), "hopper"), ((10, 3), "blackwell"),
        ((12, 0), "blackwell"), ((13, 0), "rubin"),
    ],
)  # fmt: skip
def test_the_family_follows_the_compute_capability(compute: tuple[int, int], name: str) -> None:
    assert family(compute) == name


def test_time_slicing_multiplies_replicas_and_marks_the_product() -> None:
    found = short(labels(node(extra=", sharing: {strategy: time-slicing, replicas: 4}")))
    assert (found["gpu.replicas"], found["gpu.sharing-strategy"]) == ("4", "time-slicing")
    assert (found["gpu.product"], found["gpu.count"]) == ("Tesla-K80-SHARED", "2")


def test_a_renamed_shared_resource_keeps_its_products_name() -> None:
    found = short(labels(node(extra=", sharing: {strategy: mps, replicas: 2, rename: true}")))
    assert (found["gpu.product"], found["gpu.sharing-strategy"]) == ("Tesla-K80", "mps")
    assert found["mps.capable"] == "true"


def test_one_replica_is_no_sharing() -> None:
    found = short(labels(node(extra=", sharing: {strategy: time-slicing, replicas: 1}")))
    assert (found["gpu.product"], found["gpu.sharing-strategy"]) == ("Tesla-K80", "none")


CUT = "[{mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}]"


def test_mixed_slices_have_labels_beside_their_cards() -> None:
    found = short(labels(node(A100, 40960, CUT, top="mig-strategy: mixed")))
    assert (found["gpu.count"], found["gpu.replicas"], found["gpu.product"]) == ("1", "0", "NVIDIA-A100-SXM4-40GB")
    assert found["mig.capable"] == "true"
    slices = {name: value for name, value in found.items() if name.startswith("mig-1g.5gb.")}
    assert slices == {
        "mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "mig-1g.5gb.count": "2",
        "mig-1g.5gb.replicas": "1",
        "mig-1g.5gb.sharing-strategy": "none",
        "mig-1g.5gb.memory": "4864",
        "mig-1g.5gb.multiprocessors": "14",
        "mig-1g.5gb.slices.gi": "1",
        "mig-1g.5gb.slices.ci": "1",
        "mig-1g.5gb.engines.copy": "1",
        "mig-1g.5gb.engines.decoder": "0",
        "mig-1g.5gb.engines.encoder": "0",
        "mig-1g.5gb.engines.jpeg": "0",
        "mig-1g.5gb.engines.ofa": "0",
    }
    assert (found["mig-2g.10gb.memory"], found["mig-2g.10gb.engines.decoder"]) == ("9856", "1")


def test_media_extensions_are_spelled_with_a_dot_and_have_engines() -> None:
    found = short(labels(node(A100, 40960, "[{mig: [{profile: 1g.5gb+me}]}]", top="mig-strategy: mixed")))
    assert (found["mig-1g.5gb.me.count"], found["mig-1g.5gb.me.engines.jpeg"]) == ("1", "1")


def test_single_slices_all_alike_stand_for_the_gpus() -> None:
    gpus = "[{mig: [{profile: 1g.5gb, count: 7}]}, {mig: [{profile: 1g.5gb, count: 3}]}]"
    found = short(labels(node(A100, 40960, gpus, top="mig-strategy: single")))
    assert found["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    assert (found["gpu.count"], found["gpu.memory"], found["gpu.replicas"]) == ("10", "4864", "1")
    assert found["gpu.multiprocessors"] == "14"


@pytest.mark.parametrize("gpus", [CUT, "[{mig: [{profile: 1g.5gb}]}, {}]", "[{mig: []}]"])
def test_single_slices_that_differ_are_invalid(gpus: str) -> None:
    found = short(labels(node(A100, 40960, gpus, top="mig-strategy: single")))
    assert found["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"
    assert (found["gpu.count"], found["gpu.replicas"], found["gpu.memory"]) == ("0", "0", "0")


def test_single_without_mig_anywhere_is_plain() -> None:
    found = short(labels(node(A100, 40960, top="mig-strategy: single")))
    assert (found["mig.strategy"], found["gpu.product"], found["gpu.replicas"]) == (
        "single",
        "NVIDIA-A100-SXM4-40GB",
        "1",
    )


def test_without_a_strategy_a_cut_card_has_no_replica() -> None:
    assert short(labels(node(A100, 40960, CUT)))["gpu.replicas"] == "0"


def test_versions_follow_what_the_node_says() -> None:
    found = short(labels(node(extra=", driverVersion: 520.56.06, cudaVersion: 11.8")))
    assert (found["cuda.driver.rev"], found["cuda.runtime-version.full"]) == ("06", "11.8")
    assert short(labels(node(extra=", driverVersion: '570'")))["cuda.driver.minor"] == ""
    assert short(labels(node(extra=", driverVersion: '570.10'")))["cuda.driver-version.revision"] == ""


def test_a_product_without_a_profile_is_of_unknown_mode() -> None:
    assert short(labels(node(product="Potato")))["gpu.mode"] == "unknown"
