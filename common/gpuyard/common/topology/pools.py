"""Pools of nodes: what each node with a label is made of. Flat (`gpuProduct`, `gpuCount`, …) or with a `gpu:` block."""

from collections.abc import Mapping
from dataclasses import replace

from gpuyard.common.topology.document import Element
from gpuyard.common.topology.hardware import (
    MAX_COUNT,
    Found,
    read_hardware,
    read_memory,
    read_numa,
    read_product,
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
from gpuyard.common.topology.resources import GPU
from gpuyard.common.topology.specs import Spec, named, read_spec
from gpuyard.common.topology.spelling import EXTRAS

LABEL = "run.ai/simulated-gpu-node-pool"
AUTOFILL_LABEL = "nvidia.com/gpu.deploy.device-plugin"
"""What users of `node-autofill` put on their nodes; the mock itself never writes it."""
_FLAT = frozenset({"gpuProduct", "gpuCount", "gpuMemory"})
_POOL = _FLAT | EXTRAS | {"gpu", "resources"}


def read_pools(root: Element, profiles: Mapping[str, str]) -> Topology:
    """All pools of a document. `profiles` are the documents of users' own profiles, by name."""
    found = root.mapping({"nodePools", "nodePoolLabelKey", "migStrategy", "gpuOperator", "components", "config"})
    label = found["nodePoolLabelKey"].text() if "nodePoolLabelKey" in found else LABEL
    strategy = read_strategy(found.get("migStrategy"))
    pools = [] if found["nodePools"].empty else found["nodePools"].entries()
    made = tuple(_pool(name, label, each, strategy, profiles) for name, each in pools)
    return Topology(Form.POOLS, pools=made + read_autofill(found.get("config"), strategy))


def read_autofill(element: Element | None, strategy: MigStrategy) -> tuple[Pool, ...]:
    """Nodes that the document does not list, but whose user asked for a device plugin there."""
    if element is None or element.empty:
        return ()
    settings = element.mapping({"node-autofill"}).get("node-autofill")
    if settings is None or settings.empty:
        return ()
    found = settings.mapping({"enabled", "gpu-count", "gpu-memory", "gpu-product"})
    if "enabled" in found and not found["enabled"].flag():
        return ()
    return (counted("node-autofill", AUTOFILL_LABEL, "true", settings, found, strategy),)


def counted(  # noqa: PLR0913, PLR0917
    name: str, label: str, value: str, element: Element, found: Found, strategy: MigStrategy
) -> Pool:
    """A pool in the words of the oldest form: `gpu-count`, `gpu-memory`, `gpu-product`."""
    if missing := {"gpu-count", "gpu-memory", "gpu-product"} - found.keys():
        element.fail(f"misses {min(missing)}")
    count = found["gpu-count"].number(0, MAX_GPUS)
    product = read_product(found["gpu-product"], needed=count > 0)
    hardware = read_hardware(found, product, read_memory(found["gpu-memory"]), strategy, profile=None)
    return Pool(name, label, value, count, replace(hardware, numa=read_numa(found.get("numa"), count)))


def node_of(pool: Pool, name: str) -> Node:
    """A node of this pool."""
    gpus = tuple(Gpu(gpu_id(name, index), index) for index in range(pool.count))
    return Node(name, pool.hardware, gpus)


def _pool(name: str, label: str, element: Element, strategy: MigStrategy, profiles: Mapping[str, str]) -> Pool:
    found = element.mapping(_POOL)
    if "gpu" in found and (flat := _FLAT & found.keys()):
        found[min(flat)].fail("stands beside gpu:; write either the flat keys or gpu:")
    spec, profile = _block(found["gpu"], profiles) if "gpu" in found else (_flat(element, found), None)
    hardware = read_hardware(found, spec.product, spec.memory, strategy, profile)
    others = _resources(found["resources"]) if "resources" in found else ()
    hardware = replace(
        hardware,
        driver_version=hardware.driver_version or spec.driver,
        cuda_version=hardware.cuda_version or spec.cuda,
        other_devices=hardware.other_devices + others,
        numa=read_numa(found.get("numa"), spec.count),
    )
    return Pool(name, label, name, spec.count, hardware)


def _flat(element: Element, found: Found) -> Spec:
    count = found["gpuCount"].number(0, MAX_GPUS) if "gpuCount" in found else 0
    # Nodes without GPUs are told by their count, or by what they have instead.
    needed = count > 0 or not found.keys() & {"gpuCount", "otherDevices"}
    if needed and (missing := {"gpuProduct", "gpuMemory"} - found.keys()):
        element.fail(f"misses {min(missing)}; write gpuProduct, gpuMemory and gpuCount, or a gpu: block")
    product = read_product(found["gpuProduct"], needed=count > 0) if "gpuProduct" in found else ""
    return Spec(product, read_memory(found["gpuMemory"]) if "gpuMemory" in found else 0, count)


def _block(element: Element, profiles: Mapping[str, str]) -> tuple[Spec, Profile | None]:
    """A `gpu:` block: what a profile describes, and what the overrides say instead."""
    found = element.mapping({"backend", "profile", "overrides"})
    if "backend" in found and (backend := found["backend"].text()) != "fake":
        found["backend"].fail(f"is {backend!r}; nvml-mock is not run by gpuyard; write fake")
    spec, profile = named(found["profile"], profiles) if "profile" in found else (Spec(), None)
    if "overrides" in found and not found["overrides"].empty:
        spec = spec.with_overrides(read_spec(found["overrides"]))
    if not spec.product:
        element.fail("names no GPU; write profile: h100, or overrides.device_defaults.name")
    return spec, profile


def _resources(element: Element) -> tuple[OtherDevice, ...]:
    pairs = [pair for item in element.items() for pair in item.entries()]
    return tuple(OtherDevice(resource(count, name), count.number(0, MAX_COUNT)) for name, count in pairs if name != GPU)
