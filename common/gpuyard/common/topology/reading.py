"""From a document to the topology: each of the five forms ends in the same model.

The top key says the form: `nodes` is a whole cluster, `nodePools` are nodes by label, `gpus` is one node.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from gpuyard.common.topology.document import Element, compose
from gpuyard.common.topology.hardware import Found, read_hardware, read_memory, read_numa, read_product, read_strategy
from gpuyard.common.topology.ids import MAX_GPUS, MAX_LENGTH, REPLICA, gpu_id
from gpuyard.common.topology.model import (
    Form,
    Gpu,
    Hardware,
    MigInstance,
    MigStrategy,
    Node,
    Pool,
    Topology,
    instances,
)
from gpuyard.common.topology.pools import counted, read_autofill, read_pools
from gpuyard.common.topology.profiles import MIG_SLICES, MigProfile
from gpuyard.common.topology.spelling import EXTRAS, NODE, OF_FORM, Spelling
from gpuyard.common.topology.usage import read_instances, read_usage

MOCK_LABEL = "gpuyard.io/mock"
MAX_XID = 1023
MAX_ZONE = 1000
NO_PROFILES: Mapping[str, str] = MappingProxyType({})


def read(text: str, node: str = "", profiles: Mapping[str, str] | None = NO_PROFILES) -> Topology:
    """Read a topology. `node` is the name of the node that a document in the per-node form describes.

    `profiles` are the documents of users' own profiles; with None, pools are left unread.

    Raises:
        TopologyError: with the path and the line of the first thing that is wrong.
    """
    return read_root(compose(text), node, profiles)


def read_root(root: Element, node: str = "", profiles: Mapping[str, str] | None = NO_PROFILES) -> Topology:
    """Read a topology from the root of its document, as `read` does."""
    match form_of(root):
        case Form.POOLS:
            return Topology(Form.POOLS) if profiles is None else read_pools(root, profiles)
        case Form.NODE:
            return Topology(Form.NODE, {node: _node_document(root, node)})
        case form:
            return _cluster(root, form)


def form_of(root: Element) -> Form:
    """How the document is written."""
    keys = dict(root.entries())
    if "nodePools" in keys:
        return Form.POOLS
    if "gpus" in keys:
        return Form.NODE
    if "nodes" not in keys:
        root.fail("has neither nodes: nor nodePools: nor gpus:; one of them says which GPUs there are")
    if "config" in keys or any("status" in gpu for gpu in _gpu_keys(keys["nodes"])):
        return Form.CLUSTER_STATUS
    return Form.CLUSTER


def _gpu_keys(nodes: Element) -> list[Mapping[str, Element]]:
    """The keys of every GPU, where the document has that shape; what has not is refused when it is read."""
    if not nodes.is_mapping:
        return []
    bodies = [dict(node.entries()) for _, node in nodes.entries() if node.is_mapping]
    lists = [body["gpus"] for body in bodies if "gpus" in body and body["gpus"].is_list]
    return [dict(gpu.entries()) for gpus in lists for gpu in gpus.items() if gpu.is_mapping]


def _cluster(root: Element, form: Form) -> Topology:
    found = root.mapping({"nodes", "mig-strategy", "config"})
    strategy = read_strategy(found.get("mig-strategy"))
    bodies = {} if found["nodes"].empty else dict(found["nodes"].entries())
    nodes = {name: element for name, element in bodies.items() if not is_counted(element)}
    read_nodes = {name: _node(name, element, OF_FORM[form], strategy) for name, element in nodes.items()}
    _refuse_aliases(nodes)
    pools = [_count(name, element, strategy) for name, element in bodies.items() if name not in nodes]
    return Topology(form, read_nodes, (*pools, *read_autofill(found.get("config"), strategy)))


def is_counted(node: Element) -> bool:
    """Whether a node's GPUs are told by their number alone. Usage has no place there: it gets a map of its own."""
    keys = dict(node.entries())
    listed = keys["gpus"].is_list and keys["gpus"].items() if "gpus" in keys else []
    return "gpu-count" in keys and not listed


def _count(name: str, element: Element, strategy: MigStrategy) -> Pool:
    found = element.mapping(EXTRAS | {"gpus", "gpu-count", "gpu-memory", "gpu-product"})
    return counted(name, "", name, element, found, strategy)


def _refuse_aliases(nodes: Mapping[str, Element]) -> None:
    """Two nodes that share one list have one place for the usage of both."""
    seen: dict[int, str] = {}
    for name, element in nodes.items():
        gpus = dict(element.entries())["gpus"]
        first = seen.setdefault(id(gpus.node), name)
        if first != name and not gpus.empty:
            element.fail(f"is an alias of {first}; write the GPUs out, each has a usage of its own")


def _node(name: str, element: Element, spelling: Spelling, strategy: MigStrategy) -> Node:
    found = element.mapping(EXTRAS | {"gpus", "gpu-count", spelling.product, spelling.memory})
    if "gpu-count" in found:
        # Beside a list it says nothing: the list counts.
        found["gpu-count"].number(0, MAX_GPUS)
    return _built(name, element, found, spelling, strategy)


def _node_document(root: Element, name: str) -> Node:
    found = root.mapping(EXTRAS | {"gpus", NODE.product, NODE.memory, NODE.mig_strategy})
    return _built(name, root, found, NODE, read_strategy(found.get(NODE.mig_strategy)))


def _built(name: str, element: Element, found: Found, spelling: Spelling, strategy: MigStrategy) -> Node:
    if missing := {spelling.product, spelling.memory, "gpus"} - found.keys():
        element.fail(f"misses {min(missing)}")
    listed = found["gpus"].is_list and bool(found["gpus"].items())
    product, memory = read_product(found[spelling.product], needed=listed), read_memory(found[spelling.memory])
    hardware = read_hardware(found, product, memory, strategy, profile=None)
    gpus = _gpus(name, found["gpus"], hardware, spelling)
    return Node(name, replace(hardware, numa=read_numa(found.get("numa"), len(gpus))), gpus)


def _gpus(node: str, element: Element, hardware: Hardware, spelling: Spelling) -> tuple[Gpu, ...]:
    items = [] if element.empty else element.items()
    if len(items) > MAX_GPUS:
        element.fail(f"has {len(items)} GPUs; a node has at most {MAX_GPUS}")
    if len({id(item.node) for item in items}) < len(items):
        element.fail("names one GPU twice by an alias; write each GPU out")
    gpus = tuple(_gpu(node, index, item, hardware, spelling) for index, item in enumerate(items))
    first: dict[str, int] = {}
    for gpu, item in zip(gpus, items, strict=True):
        if first.setdefault(gpu.id, gpu.index) != gpu.index:
            item.fail(f"id {gpu.id!r} is that of gpus[{first[gpu.id]}] already; ids are unique on a node")
    return gpus


def _gpu(node: str, index: int, element: Element, hardware: Hardware, spelling: Spelling) -> Gpu:
    found = element.mapping({"id", "health", "xid", "mig", "numaNode", spelling.usage})
    device = _id(found["id"]) if "id" in found else gpu_id(node, index)
    usage = found.get(spelling.usage)
    return Gpu(
        id=device,
        index=index,
        usage=read_usage(usage, spelling) if usage else Gpu(device, index).usage,
        healthy="health" not in found or found["health"].choice({"healthy", "unhealthy"}) == "healthy",
        xid=found["xid"].number(0, MAX_XID) if "xid" in found else 0,
        zone=found["numaNode"].number(0, MAX_ZONE) if "numaNode" in found else None,
        mig=_mig(device, found["mig"], hardware, usage, spelling) if "mig" in found else None,
    )


def _id(element: Element) -> str:
    device = element.text()
    if not 0 < len(device) <= MAX_LENGTH:
        element.fail(f"has {len(device)} characters; an id has 1-{MAX_LENGTH}")
    if REPLICA in device or not device.isprintable() or " " in device:
        element.fail(f"is {device!r}; an id has no blank and no {REPLICA!r}, which marks a shared replica")
    return device


def _mig(
    device: str, element: Element, hardware: Hardware, usage: Element | None, spelling: Spelling
) -> tuple[MigInstance, ...]:
    known = hardware.profile.mig
    if not known:
        element.fail(f"{hardware.product} has no MIG; give the node a product that has, or a profile such as a100")
    profiles = tuple(profile for item in ([] if element.empty else element.items()) for profile in _slices(item, known))
    if (used := sum(profile.slices for profile in profiles)) > MIG_SLICES:
        element.fail(f"takes {used} slices; a GPU has {MIG_SLICES}")
    for profile in {profile.name: profile for profile in profiles}.values():
        if sum(p.slices == profile.slices for p in profiles) > len(profile.gi_ids):
            element.fail(f"has more than {len(profile.gi_ids)} instances of {profile.slices} slices")
    return instances(device, profiles, read_instances(usage, spelling))


def _slices(element: Element, known: Mapping[str, MigProfile]) -> list[MigProfile]:
    found = element.mapping({"profile", "count"})
    if "profile" not in found:
        element.fail(f"misses profile; write one of {', '.join(known)}")
    count = found["count"].number(0, MIG_SLICES) if "count" in found else 1
    return [known[found["profile"].choice(known)]] * count
