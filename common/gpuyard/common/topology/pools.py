"""Pools of nodes: what each node with a label is made of. Flat (`gpuProduct`, `gpuCount`, …) or with a `gpu:` block."""

from dataclasses import replace

from gpuyard.common.topology.document import Element
from gpuyard.common.topology.hardware import (
    MAX_COUNT,
    Found,
    read_hardware,
    read_memory,
    read_product,
    read_profile,
    read_strategy,
    resource,
)
from gpuyard.common.topology.ids import MAX_GPUS, gpu_id
from gpuyard.common.topology.model import (
    Form,
    Gpu,
    MigStrategy,
    Node,
    OtherDevice,
    Pool,
    Topology,
)
from gpuyard.common.topology.profiles import Profile
from gpuyard.common.topology.spelling import EXTRAS
from gpuyard.common.topology.usage import MAX_MEMORY

LABEL = "run.ai/simulated-gpu-node-pool"
_FLAT = frozenset({"gpuProduct", "gpuCount", "gpuMemory"})
_POOL = _FLAT | EXTRAS | {"gpu", "resources", "numa"}
_MIB = 1024 * 1024
_GPU = "nvidia.com/gpu"


def read_pools(root: Element) -> Topology:
    """All pools of a document."""
    found = root.mapping({"nodePools", "nodePoolLabelKey", "migStrategy"})
    label = found["nodePoolLabelKey"].text() if "nodePoolLabelKey" in found else LABEL
    strategy = read_strategy(found.get("migStrategy"))
    pools = found["nodePools"].entries()
    return Topology(Form.POOLS, pools=tuple(_pool(name, label, element, strategy) for name, element in pools))


def node_of(pool: Pool, name: str) -> Node:
    """A node of this pool."""
    gpus = tuple(Gpu(gpu_id(name, index), index) for index in range(pool.count))
    return Node(name, pool.hardware, gpus)


def _pool(name: str, label: str, element: Element, strategy: MigStrategy) -> Pool:
    found = element.mapping(_POOL)
    if "gpu" in found and (flat := _FLAT & found.keys()):
        found[min(flat)].fail("stands beside gpu:; write either the flat keys or gpu:")
    product, memory, count, profile = _block(found["gpu"]) if "gpu" in found else _flat(element, found)
    hardware = read_hardware(found, product, memory, strategy, profile)
    if "resources" in found:
        others = hardware.other_devices + _resources(found["resources"])
        hardware = replace(hardware, other_devices=others)
    return Pool(name, label, name, count, hardware)


def _flat(element: Element, found: Found) -> tuple[str, int, int, Profile | None]:
    if missing := {"gpuProduct", "gpuMemory"} - found.keys():
        element.fail(f"misses {min(missing)}; write gpuProduct, gpuMemory and gpuCount, or a gpu: block")
    count = found["gpuCount"].number(0, MAX_GPUS) if "gpuCount" in found else 0
    return read_product(found["gpuProduct"]), read_memory(found["gpuMemory"]), count, None


def _block(element: Element) -> tuple[str, int, int, Profile | None]:
    """A `gpu:` block: a profile's product, memory and count, and what the overrides say instead."""
    found = element.mapping({"backend", "profile", "overrides"})
    if "backend" in found and found["backend"].choice({"fake", "mock"}) == "mock":
        found["backend"].fail("is mock (nvml-mock), which gpuyard does not run; write fake")
    profile = read_profile(found["profile"]) if "profile" in found else None
    product, memory, count = _overrides(found.get("overrides"))
    if profile is None:
        if not product:
            element.fail("names no GPU; write profile: h100, or overrides.device_defaults.name")
        return product, memory, count, None
    return product or profile.product, memory or profile.memory, count or profile.count, profile


def _overrides(element: Element | None) -> tuple[str, int, int]:
    """Product, memory and count, each empty or 0 where the overrides leave it. The rest only nvidia-smi would show."""
    if element is None or element.empty:
        return "", 0, 0
    found = element.mapping({"version", "system", "device_defaults", "devices", "device_count", "nvlink"})
    defaults = dict(found["device_defaults"].entries()) if "device_defaults" in found else {}
    memory = dict(defaults["memory"].entries()) if "memory" in defaults else {}
    size = memory["total_bytes"].number(0, MAX_MEMORY * _MIB) // _MIB if "total_bytes" in memory else 0
    count = found["device_count"].number(0, MAX_GPUS) if "device_count" in found else 0
    listed = found["devices"].items() if "devices" in found else []
    if len(listed) > MAX_GPUS:
        found["devices"].fail(f"has {len(listed)} GPUs; a node has at most {MAX_GPUS}")
    return read_product(defaults["name"]) if "name" in defaults else "", size, count or len(listed)


def _resources(element: Element) -> tuple[OtherDevice, ...]:
    pairs = [pair for item in element.items() for pair in item.entries()]
    return tuple(
        OtherDevice(resource(count, name), count.number(0, MAX_COUNT)) for name, count in pairs if name != _GPU
    )
