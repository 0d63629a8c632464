"""Reading: five forms, one model; what is wrong is refused with its place."""

from datetime import date

import pytest
import yaml
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.ids import gpu_id
from gpuyard.common.topology.model import Faults, Form, MigStrategy, Node, Owner, Pool, Sharing
from gpuyard.common.topology.pools import node_of
from gpuyard.common.topology.profiles import PROFILES
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.resources import offers
from gpuyard.common.topology.spelling import EXTRAS
from gpuyard.common.topology.utilization import Span
from gpuyard.common.topology.writing import per_node_document
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.common.topology.documents import BLOCK_POOLS, CLUSTER, CLUSTER_STATUS, FLAT_POOLS, G1, G2, NODE, SEED


def node(extra: str = "", gpus: str = "[{id: a}, {id: b}]", product: str = "Tesla-K80") -> str:
    return f"nodes:\n  n:\n    gpu-memory: 11441\n    gpu-product: {product}\n    gpus: {gpus}\n{extra}"


def only(text: str) -> Node:
    return read(text).nodes["n"]


def refused(text: str) -> str:
    with pytest.raises(TopologyError) as error:
        read(text, "n")
    return str(error.value)


def test_the_seeds_document_is_read_with_its_usage() -> None:
    topology = read(SEED)
    found = topology.nodes["node-a"]
    assert topology.form is Form.CLUSTER
    assert [gpu.id for gpu in found.gpus] == [G1, G2]
    assert [gpu.usage.utilization(0) for gpu in found.gpus] == [10, 100]
    assert [gpu.usage.fb_used(11441) for gpu in found.gpus] == [5000, 10000]
    assert found.gpus[0].usage.owner == Owner("runai-project-a", "pod", "container")
    assert found.hardware.mig_strategy is MigStrategy.MIXED


def test_one_node_in_all_five_forms_is_one_model() -> None:
    flat = FLAT_POOLS.replace("gpuCount: 2", "gpuCount: 2, numa: {zones: 2}")
    pooled = [node_of(read(text).pools[0], "node-a") for text in (flat, BLOCK_POOLS)]
    generated = read(per_node_document(read(BLOCK_POOLS).pools[0], "node-a"), "node-a").nodes["node-a"]
    assert pooled[0] == pooled[1] == generated
    clusters = [read(text).nodes["node-a"] for text in (CLUSTER, CLUSTER_STATUS)]
    assert clusters[0] == clusters[1]
    assert clusters[0].gpus == pooled[0].gpus
    assert [gpu.id for gpu in pooled[0].gpus] == [gpu_id("node-a", 0), gpu_id("node-a", 1)]
    assert (clusters[0].hardware.product, clusters[0].hardware.memory) == ("Tesla-K80", 11441)
    assert (pooled[0].hardware.product, pooled[0].hardware.memory) == ("Tesla-K80", 11441)


def test_the_form_is_told_by_the_top_keys() -> None:
    forms = [read(text, "n").form for text in (SEED, CLUSTER_STATUS, FLAT_POOLS, BLOCK_POOLS, NODE)]
    assert forms == [Form.CLUSTER, Form.CLUSTER_STATUS, Form.POOLS, Form.POOLS, Form.NODE]


def test_a_per_node_document_knows_its_pods_by_uid() -> None:
    gpu = read(NODE, "n").nodes["n"].gpus[0]
    assert gpu.usage.owner == Owner("team", "p", "c")
    assert [(share.uid, share.utilization) for share in gpu.usage.shares] == [("uid-1", Span(80, 100))]


def test_nodes_that_are_not_listed_can_be_filled_in_by_label() -> None:
    [pool] = read(CLUSTER_STATUS).pools
    assert (pool.label, pool.value, pool.count) == ("nvidia.com/gpu.deploy.device-plugin", "true", 2)
    disabled = CLUSTER_STATUS.replace("node-autofill: {", "node-autofill: {enabled: false, ")
    assert read(disabled).pools == ()


def test_a_profile_gives_what_the_overrides_leave_open() -> None:
    pool = read("nodePools: {p: {gpu: {profile: h100, overrides: {device_count: 0, devices: [{}, {}]}}}}").pools[0]
    assert (pool.hardware.product, pool.hardware.memory, pool.count) == ("NVIDIA-H100-80GB-HBM3", 81920, 2)
    assert read("nodePools: {p: {gpu: {profile: t4}}}").pools[0].count == 4


def block(gpu: str, more: str = "", profiles: dict[str, str] | None = None) -> Pool:
    [pool] = read(f"nodePools: {{p: {{gpu: {{{gpu}}}{more}}}}}", profiles=profiles or {}).pools
    return pool


def test_overrides_and_keys_of_the_pool_may_name_the_driver() -> None:
    system = "overrides: {system: {driver_version: 560.1, cuda_version: '12.6'}}"
    hardware = block(f"profile: h100, {system}").hardware
    assert (hardware.driver, hardware.cuda) == ("560.1", "12.6")
    assert block(f"profile: h100, {system}", ", driverVersion: 570.2").hardware.driver == "570.2"
    assert block("profile: h100").hardware.driver == PROFILES["h100"].driver


H200 = """
version: "1.0"
system: {driver_version: 550.163.01, nvml_version: 12.550.163.01, cuda_version: "12.4"}
device_defaults:
  name: NVIDIA H200
  architecture: hopper
  compute_capability: {major: 9, minor: 0}
  memory: {total_bytes: 151397597184, reserved_bytes: 0}
devices: [{index: 0, uuid: GPU-x}, {index: 1}]
"""


def test_a_users_own_profile_is_read_and_its_constants_are_those_of_its_generation() -> None:
    pool = block("profile: h200", profiles={"h200": H200})
    hardware = pool.hardware
    assert (hardware.product, hardware.memory, pool.count) == ("NVIDIA H200", 144384, 2)
    assert (hardware.driver, hardware.profile.name) == ("550.163.01", "h100")
    again = read(per_node_document(pool, "n"), "n").nodes["n"].hardware
    assert again == hardware


@pytest.mark.parametrize(
    ("defaults", "constants"),
    [("name: NVIDIA-L40S", "l40s"), ("name: X, architecture: turing", "t4"), ("name: X, architecture: new", "generic")],
)
def test_whose_constants_a_users_own_profile_has(defaults: str, constants: str) -> None:
    pool = block("profile: mine", profiles={"mine": f"{{device_defaults: {{{defaults}}}}}"})
    assert pool.hardware.profile.name == constants


def test_overrides_are_merged_into_a_users_own_profile() -> None:
    pool = block("profile: h200, overrides: {device_count: 4, device_defaults: {name: Mine}}", profiles={"h200": H200})
    assert (pool.hardware.product, pool.hardware.memory, pool.count) == ("Mine", 144384, 4)


def test_a_users_own_profile_wins_over_the_built_in_one_of_its_name() -> None:
    pool = block("profile: t4", profiles={"t4": "{device_defaults: {name: T4+, memory: {total_bytes: 1048576}}}"})
    assert (pool.hardware.product, pool.hardware.memory, pool.hardware.profile.name) == ("T4+", 1, "t4")


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ({}, "line 1, nodePools.p.gpu.profile: is 'h200'; write one of a100, "),
        ({}, "or make a ConfigMap gpu-profile-h200"),
        ({"h200": "a: ["}, "ConfigMap gpu-profile-h200 cannot be read: profile.yaml: line 2: no YAML"),
        ({"h200": "device_count: -1"}, "profile.yaml: line 1, device_count: is -1; write a whole number"),
        ({"h200": "device_count: 1"}, "nodePools.p.gpu: names no GPU"),
    ],
)
def test_a_profile_that_is_not_there_or_not_well_is_refused(profiles: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError) as error:
        block("profile: h200", profiles=profiles)
    assert message in str(error.value)


def test_who_needs_no_pools_leaves_them_unread() -> None:
    assert read("nodePools: {p: {gpu: {profile: unknown}}}", profiles=None).pools == ()


def test_helm_values_that_stand_in_the_document_are_let_be() -> None:
    values = "gpuOperator: {version: v1, values: {a: b}}\ncomponents: {imageTag: 0.5.0}\n"
    assert len(read(BLOCK_POOLS + values).pools) == 1


CHART = """
nodePools:
  default:
    gpuProduct: NVIDIA-A100-SXM4-80GB
    gpuCount: 2
    gpuMemory: 81920
    otherDevices: []
  large:
    gpu:
      backend: fake
      profile: h100
      overrides: {device_defaults: {name: Custom H100}}
    resources:
      - rdma/rdma_shared_device_a: 1
      - nvidia.com/gpu: 8
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""


def test_values_of_fake_gpu_operators_chart_are_read_as_they_are() -> None:
    default, large = read(CHART).pools
    assert (default.count, default.hardware.memory, default.hardware.profile.name) == (2, 81920, "a100-80gb")
    assert (large.count, large.hardware.product, large.hardware.memory) == (8, "Custom H100", 81920)
    assert [(other.name, other.count) for other in large.hardware.other_devices] == [("rdma/rdma_shared_device_a", 1)]
    assert (large.label, large.value) == ("run.ai/simulated-gpu-node-pool", "large")


# What its operator itself wrote into the cluster: first all nodes in one map, today a map for each.
WRITTEN = """
config:
  node-autofill: {enabled: true, gpu-count: 2, gpu-memory: 11441, gpu-product: Tesla-K80}
mig-strategy: mixed
nodes:
  worker-1:
    gpu-count: 2
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
    - id: GPU-a
      status:
        allocated-by: {namespace: team, pod: p, container: c}
        pod-gpu-usage-status:
          uid-1: {utilization: {min: 80, max: 100}, fb-used: 11441, is-inference-pod: false}
    - id: GPU-b
      status:
        allocated-by: {namespace: "", pod: "", container: ""}
        pod-gpu-usage-status: {}
  worker-2: {gpu-count: 8, gpu-memory: 16384, gpu-product: Tesla-T4}
"""
OF_ONE_NODE = """
gpuMemory: 40960
gpuProduct: NVIDIA-A100-SXM4-40GB
gpus:
- id: GPU-a
  numaNode: 1
  status:
    allocatedBy: {namespace: "", pod: "", container: ""}
    podGpuUsageStatus: {}
- id: GPU-b
  numaNode: 0
  status: {allocatedBy: {namespace: "", pod: "", container: ""}, podGpuUsageStatus: {}}
migStrategy: ""
"""


def test_what_fake_gpu_operator_wrote_into_a_cluster_is_read_as_it_is() -> None:
    topology = read(WRITTEN)
    assert [gpu.id for gpu in topology.nodes["worker-1"].gpus] == ["GPU-a", "GPU-b"]
    assert topology.nodes["worker-1"].gpus[0].usage.shares[0].utilization == Span(80, 100)
    assert [(pool.label, pool.value, pool.count) for pool in topology.pools] == [
        ("", "worker-2", 8),
        ("nvidia.com/gpu.deploy.device-plugin", "true", 2),
    ]


def test_a_map_of_one_node_may_say_the_zone_of_each_gpu() -> None:
    found = read(OF_ONE_NODE, "n").nodes["n"]
    assert [offer.zone for offer in offers(found)["nvidia.com/gpu"]] == [1, 0]
    assert found.hardware.mig_strategy is MigStrategy.NONE


@pytest.mark.parametrize("gpus", ["", ", gpus: []", ", gpus: "])
def test_a_node_whose_gpus_are_only_counted_gets_a_map_of_its_own(gpus: str) -> None:
    topology = read(f"nodes: {{n: {{gpu-count: 3, gpu-memory: 5, gpu-product: x{gpus}}}, m: {{gpu-count: 0, "
                    "gpu-memory: 0, gpu-product: ''}}")  # fmt: skip
    assert topology.nodes == {}
    assert [pool.count for pool in topology.pools if pool.takes("n", {})] == [3]
    assert [pool.count for pool in topology.pools if pool.takes("other", {"n": "n"})] == []


def test_pools_may_stand_beside_what_fills_in_the_other_nodes() -> None:
    autofill = "config: {node-autofill: {gpu-count: 1, gpu-memory: 5, gpu-product: x}}\n"
    assert [(pool.label, pool.count) for pool in read(autofill + FLAT_POOLS).pools] == [
        ("run.ai/simulated-gpu-node-pool", 2),
        ("nvidia.com/gpu.deploy.device-plugin", 1),
    ]


@pytest.mark.parametrize(
    "pool", ["{gpuCount: 0, gpuMemory: 0, gpuProduct: ''}", "{otherDevices: [{name: vpc.amazonaws.com/efa, count: 4}]}"]
)
def test_a_pool_without_gpus_needs_no_product(pool: str) -> None:
    [found] = read(f"nodePools: {{p: {pool}}}").pools
    again = read(per_node_document(found, "n"), "n").nodes["n"]
    assert (found.count, again.gpus, again.hardware) == (0, (), found.hardware)


def test_a_users_own_profile_may_say_whatever_nvml_mock_knows() -> None:
    profiles = {"h200": f"{H200}fabric: {{state: completed}}\nnew_section: [1]\n"}
    assert block("profile: h200", profiles=profiles).count == 2


@pytest.mark.parametrize(
    ("numa", "zones"),
    [
        ("{zones: 2}", [0, 0, 0, 1, 1]),
        ("{zones: 2, gpusPerZone: [1, 4], topologyManagerPolicy: restricted}", [0, 1, 1, 1, 1]),
        ("{zones: 0}", [None] * 5),
    ],
)
def test_gpus_lie_in_numa_zones(numa: str, zones: list[int | None]) -> None:
    hardware = only(node(f"    numa: {numa}\n", gpus="[{}, {}, {}, {}, {}]")).hardware
    assert [hardware.zone(index) for index in range(5)] == zones
    pool = block("profile: t4, overrides: {device_count: 5}", f", numa: {numa}")
    again = read(per_node_document(pool, "n"), "n").nodes["n"].hardware
    assert [again.zone(index) for index in range(5)] == zones


def test_a_flat_pool_may_stand_beside_one_with_a_block() -> None:
    text = "nodePools: {a: {gpu: {profile: t4}}, b: {gpuProduct: x, gpuMemory: 5, gpuCount: 1}}"
    assert [pool.count for pool in read(text).pools] == [4, 1]


def test_the_optional_keys_of_a_node() -> None:
    extra = """
    driverVersion: 550.10
    cudaVersion: 12.0
    fbReserved: 41
    utilization: 5-9
    sharing: {strategy: time-slicing, replicas: 4}
    faults: [allocate-error, slow-allocate=3s]
    otherDevices: [{name: example.com/x, count: 3}]
"""
    found = only(node(extra))
    hardware = found.hardware
    assert (hardware.driver, hardware.cuda, hardware.fb_reserved) == ("550.10", "12.0", 41)
    assert hardware.utilization == Span(5, 9)
    assert hardware.sharing == Sharing("time-slicing", 4)
    assert hardware.faults == Faults(allocate_error=True, slow_allocate=3.0)
    assert found.room == 11400


def test_the_optional_keys_of_a_gpu() -> None:
    gpu = only(node(gpus="[{health: unhealthy, xid: 79}]")).gpus[0]
    assert (gpu.healthy, gpu.xid, gpu.mig) == (False, 79, None)


def test_a_gpu_is_cut_into_slices() -> None:
    gpus = "[{mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}, {mig: []}]"
    found = only(node(gpus=gpus, product="NVIDIA-A100-SXM4-40GB"))
    slices = found.gpus[0].mig or ()
    assert [(s.profile.name, s.gi, s.profile.memory) for s in slices] == [
        ("1g.5gb", 7, 4864),
        ("1g.5gb", 8, 4864),
        ("2g.10gb", 5, 9856),
    ]
    assert len({s.id for s in slices}) == 3
    assert found.gpus[1].mig == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the document is empty"),
        ("# nothing\n", "the document is empty"),
        ("a: [", "line 2: no YAML"),
        ("a:\n  " + "[" * 25_000, "line 2: no YAML: nested deeper than 100 levels"),
        ("- " * 50_000, "line 1: no YAML: nested deeper than 100 levels"),
        ("a: b", "neither nodes: nor nodePools: nor gpus:"),
        ("[]", "is a list; write a mapping"),
        (node(gpus="[{id: a}, {id: a}]"), "line 5, nodes.n.gpus[1]: id 'a' is that of gpus[0] already"),
        (node(gpus=f"[{{id: {'x' * 64}}}]"), "nodes.n.gpus[0].id: has 64 characters; an id has 1-63"),
        (node(gpus="[{id: 'a::1'}]"), "which marks a shared replica"),
        (node(gpus="[{id: ''}]"), "has 0 characters"),
        (node(gpus="[{color: red}]"), "line 5, nodes.n.gpus[0].color: unknown key; known here: health, id, metrics"),
        (node(gpus="[{health: ill}]"), "write one of healthy, unhealthy"),
        (node(gpus="[{xid: -1}]"), "nodes.n.gpus[0].xid: is -1; write a whole number 0-1023"),
        (node(gpus="{}"), "nodes.n.gpus: is a mapping; write a list"),
        (node(gpus="[~]"), "nodes.n.gpus[0]: is empty; write a mapping"),
        (node(gpus="[&g {}, *g]"), "twice by an alias"),
        (node(gpus="[{}]").replace("11441", "-5"), "line 3, nodes.n.gpu-memory: is -5"),
        (node(gpus="[{}]").replace("11441", "1.5"), "is '1.5'; write a whole number"),
        (node(gpus="[{}]").replace("11441", "2026-13-45"), "is '2026-13-45'; write a whole number"),
        (node("    gpu-memory: 5\n"), "line 6, nodes.n.gpu-memory: is written twice"),
        (node("    colour: red\n"), "line 6, nodes.n.colour: unknown key"),
        (node("  m: {gpus: []}\n"), "nodes.m: misses gpu-memory"),
        (node("    faults: [explode]\n"), "nodes.n.faults[0]: is 'explode'; write one of"),
        (node("    faults: [slow-allocate=ever]\n"), "no duration"),
        (node("    sharing: {replicas: 2}\n"), "nodes.n.sharing: misses strategy"),
        (node("    utilization: 200\n"), "nodes.n.utilization: utilization '200': 200 is above 100"),
        (node("    driverVersion: new\n"), "write numbers and dots"),
        (node("    driverVersion: ٣.1\n"), "nodes.n.driverVersion: is '٣.1'; write numbers and dots"),
        (node("    otherDevices: [{name: x, count: 1}]\n"), "with its domain"),
        (
            node("    otherDevices: [{name: _/ä, count: 1}]\n"),
            "nodes.n.otherDevices[0].name: is '_/ä'; write a resource",
        ),
        (node("    otherDevices: [{name: Example.com/x, count: 1}]\n"), "with its domain"),
        (node("    otherDevices: [{name: example.com/x-, count: 1}]\n"), "with its domain"),
        (node(f"    otherDevices: [{{name: example.com/{'x' * 64}, count: 1}}]\n"), "with its domain"),
        (
            node("    otherDevices: [{name: nvidia.com/gpu, count: 3}]\n"),
            "otherDevices[0].name: is 'nvidia.com/gpu'; GPUs",
        ),
        (node("    otherDevices: [{name: nvidia.com/gpu.shared, count: 3}]\n"), "counted without it, leave it out"),
        (node("    profile: h101\n"), "write one of a100"),
        (node(gpus="[{mig: []}]"), "Tesla-K80 has no MIG"),
        ("nodes: {a: &a {gpu-memory: 1, gpu-product: x, gpus: [{}]}, b: *a}", "is an alias of a"),
        ("gpus: []\ngpuMemory: 1", "line 1: misses gpuProduct"),
        ("nodePools: {p: {gpuProduct: x, gpuMemory: 1, gpuCount: -1}}", "nodePools.p.gpuCount: is -1"),
        ("nodePools: {p: {gpu: {}, gpuCount: 1}}", "stands beside gpu:"),
        ("nodePools: {p: {gpu: {backend: mock}}}", "is 'mock'; nvml-mock is not run by gpuyard; write fake"),
        ("nodePools: {p: {gpu: {backend: nvml-mock}}}", "is 'nvml-mock'; nvml-mock is not run by gpuyard; write fake"),
        ("nodes: {n: {gpu-count: 2, gpu-memory: 5}}", "line 1, nodes.n: misses gpu-product"),
        ("nodes: {n: {gpu-count: 2, gpu-memory: 5, gpu-product: ''}}", "nodes.n.gpu-product: is empty"),
        ("nodePools: {p: {gpu: {}}}", "names no GPU"),
        ("nodePools: {p: {numa: {}}}", "nodePools.p: misses gpuMemory"),
        ("nodePools: {p: {gpu: {profile: t4}, numa: {}}}", "nodePools.p.numa: misses zones; write zones: 2"),
        (node("    numa: {zones: 2, gpusPerZone: [3]}\n"), "gpusPerZone: is [3]; write 2 numbers with the sum 2"),
        ("nodePools: {p: {gpu: {overrides: {devcie_count: 3}}}}", "overrides.devcie_count: unknown key; known here"),
    ],
)
def test_what_is_wrong_is_refused_with_path_and_line(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("mig", "message"),
    [
        ("[{profile: 1g.5gb, count: 8}]", "write a whole number 0-7"),
        ("[{profile: 7g.40gb}, {profile: 1g.5gb}]", "takes 8 slices"),
        ("[{profile: 9g.9gb}]", "write one of 1g.10gb"),
        ("[{count: 1}]", "misses profile"),
    ],
)
def test_a_cut_that_no_card_allows_is_refused(mig: str, message: str) -> None:
    assert message in refused(node(gpus=f"[{{mig: {mig}}}]", product="NVIDIA-A100-SXM4-40GB"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(text, message, marks=pytest.mark.row("M-44", case=case))
        for case, text, message in (
            ("duplicate-ids", node(gpus="[{id: a}, {id: a}]"), "line 5, nodes.n.gpus[1]: id 'a' is that of gpus[0]"),
            ("long-id", node(gpus=f"[{{id: {'x' * 64}}}]"), "line 5, nodes.n.gpus[0].id: has 64 characters"),
            ("negative-count", "nodePools: {p: {gpuProduct: x, gpuMemory: 1, gpuCount: -1}}", "nodePools.p.gpuCount"),
            ("negative-memory", node().replace("11441", "-5"), "line 3, nodes.n.gpu-memory: is -5"),
            ("unknown-key", node("    colour: red\n"), "line 6, nodes.n.colour: unknown key; known here"),
            ("empty", "", "line 1: the document is empty; write nodes:"),
        )
    ],
)
def test_a_bad_topology_is_refused_with_its_path(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.row("M-45")
def test_a_document_that_a_config_map_cannot_hold_is_refused_with_the_way_out() -> None:
    nodes = "".join(f"  n{i}: {{gpu-memory: 1, gpu-product: x, gpus: [{'{}, ' * 200}]}}\n" for i in range(2000))
    assert "ConfigMap topology-<node> of their own" in refused("nodes:\n" + nodes)


def test_every_pool_is_checked_not_the_first_alone() -> None:
    text = "nodePools:\n  a: {gpu: {profile: t4}}\n  b: {gpu: {profile: t5}}\n"
    assert "line 3, nodePools.b.gpu.profile" in refused(text)


# ---- nothing that anybody writes does more harm than a refusal --------------------------------------------------

WORDS = [
    *sorted(EXTRAS), "nodes", "gpus", "nodePools", "gpu", "profile", "overrides", "devices", "device_count", "system",
    "config", "device_defaults", "memory", "total_bytes", "compute_capability", "major", "minor", "resources", "zones",
    "gpusPerZone", "strategy", "replicas", "name", "count", "id", "mig", "health", "metrics", "metadata", "status",
    "shares", "utilization", "fb-used", "started", "instances", "gpu-memory", "gpu-product", "gpuMemory", "gpuProduct",
    "gpuCount", "mig-strategy", "migStrategy", "node-autofill", "gpu-count", "allocatedBy", "podGpuUsageStatus",
]  # fmt: skip
TEXTS = ["h100", "time-slicing", "10-30", "unhealthy", "mixed", "a", "", "1g.5gb", "example.com/x"]
VALUES = st.sampled_from([*TEXTS, None, True, 0, 1, -1, 7, 2**70, 1.5, float("inf"), date(2026, 11, 19)])
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)),
    max_leaves=25,
)


def refusal(text: str) -> TopologyError | None:
    try:
        read(text, "n")
    except TopologyError as error:
        return error
    return None


@given(DOCUMENTS)
@settings(max_examples=400, deadline=None)
def test_whatever_is_written_is_read_or_refused_with_its_place(document: object) -> None:
    error = refusal(yaml.safe_dump(document))
    assert error is None or (error.line >= 1 and error.reason)


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    error = refusal(text)
    assert error is None or error.line >= 1
