"""docs/mock-reference.md: every key, label and metric of the mock. `python -m tests.mock.reference` writes it anew.

What there is comes from the code; only what it means stands here, and a test sees that neither has more than the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.profiles import PROFILES
from gpuyard.common.topology.reading import read
from gpuyard.dcgm_exporter.families import (
    FAMILIES,
    always,
    has_memory,
    has_memory_thermometer,
    has_profiling,
    remaps_rows,
    whole,
)
from gpuyard.dcgm_exporter.labels import HostnameLabel, IdleLabels
from gpuyard.dcgm_exporter.readings import devices
from gpuyard.gfd.labels import labels
from gpuyard.status_updater.attribution import MISSING, PART_REFUSED, REFUSED
from gpuyard.status_updater.updater import TOPOLOGY_REFUSED

from tests.mock.pages import page as scrape
from tests.mock.pages import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpuyard.common.topology.profiles import Profile

PAGE = Path(__file__).parents[2] / "docs" / "mock-reference.md"
HEAD = """\
# Mock GPUs: every key, label and metric

How to begin stands in [start.md](start.md), what a topology is in [mock.md](mock.md). This page is made of the code by
`python -m tests.mock.reference`, and a test sees that it is up to date.
"""

NODE = "gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960"
PLACES = {
    "map of all nodes": "{nodes: {}, config: {}, ?: 1}",
    "`config`": "{nodes: {}, config: {?: 1}}",
    "map of one node": "{gpus: [], ?: 1}",
    "map of pools": "{nodePools: {}, ?: 1}",
    "node": "nodes: {n: {?: 1}}",
    "pool": "nodePools: {p: {?: 1}}",
    "`gpu:` of a pool": "nodePools: {p: {gpu: {?: 1}}}",
    "`overrides`, profile": "nodePools: {p: {gpu: {overrides: {?: 1}}}}",
    "GPU (map of one node)": "{gpuProduct: x, gpuMemory: 1, gpus: [{?: 1}]}",
    "GPU": f"nodes: {{n: {{{NODE}, gpus: [{{?: 1}}]}}}}",
    "`mig`": f"nodes: {{n: {{{NODE}, gpus: [{{mig: [{{?: 1}}]}}]}}}}",
    "`sharing`": f"nodes: {{n: {{{NODE}, gpus: [], sharing: {{?: 1}}}}}}",
    "`numa`": f"nodes: {{n: {{{NODE}, gpus: [], numa: {{?: 1}}}}}}",
    "`otherDevices`": f"nodes: {{n: {{{NODE}, gpus: [], otherDevices: [{{?: 1}}]}}}}",
    "`node-autofill`": "{nodes: {}, config: {node-autofill: {?: 1}}}",
}
KEYS = {
    "backend": "`fake`; anything else (nvml-mock) is refused",
    "components": "of the peer's chart; without meaning here",
    "config": "of the peer's first form: `node-autofill`; beside pools as well",
    "count": "how many",
    "cpuPerZone": "of the peer; without meaning here",
    "cudaVersion": "CUDA version in the labels; the product's own when left out",
    "device_count": "how many GPUs; wins over the length of `devices`",
    "device_defaults": "`name`, `memory: {total_bytes}`, `compute_capability: {major, minor}`",
    "devices": "a list whose length is the number of GPUs",
    "distances": "of the peer; without meaning here",
    "driverVersion": "driver version in labels and metrics; the product's own when left out",
    "enabled": "`false` switches it off",
    "faults": "`allocate-error`, `refuse-register`, `drop-stream`, `slow-allocate=3s`, `crash`",
    "fbReserved": "MiB of each GPU that no pod gets; 0, or what the product holds back",
    "gpu": "a block: `backend`, `profile`, `overrides`",
    "gpu-count": "GPUs of a node; without a list `gpus` the node gets a map of its own, beside a list it says nothing",
    "gpu-memory": "MiB of each GPU",
    "gpu-product": "the model's name",
    "gpuCount": "GPUs of a node",
    "gpuMemory": "MiB of each GPU",
    "gpuOperator": "of the peer; without meaning here",
    "gpuProduct": "the model's name",
    "gpus": "a list of GPUs; `{}` is one whose id is made of the node's name and its index",
    "gpusPerZone": "how many GPUs each zone has: `[4, 4]`",
    "health": "`healthy` or `unhealthy`: kubelet takes an unhealthy one out of allocatable",
    "id": "kubelet's device id and the metrics' `UUID`: 1-63 characters, unique on the node, no `::`",
    "memPerZone": "of the peer; without meaning here",
    "metrics": "who uses it how much; the status updater writes it",
    "mig": "slices: `[{profile: 1g.5gb, count: 2}]`; `[]` is MIG on without a slice",
    "mig-strategy": "`none`, `single`, `mixed`",
    "migStrategy": "`none`, `single`, `mixed`",
    "name": "the resource, with its domain: `example.com/x`",
    "node-autofill": "of nodes that carry `nvidia.com/gpu.deploy.device-plugin=true` and are not listed",
    "nodePoolLabelKey": "the node label that names a node's pool; `run.ai/simulated-gpu-node-pool`",
    "nodePools": "pools by the value of that label",
    "nodes": "nodes by name",
    "numaNode": "the NUMA zone of this GPU, as the peer writes it",
    "numa": "`{zones: 2, gpusPerZone: [4, 4]}`: kubelet's NUMA hints",
    "nvlink": "of nvml-mock; without meaning here",
    "otherDevices": "more resources: `[{name: example.com/x, count: 3}]`",
    "overrides": "what differs from the profile",
    "pcie_topology": "of nvml-mock; without meaning here",
    "profile": "of a node or pool: a GPU model (below); of `mig`: a slice such as `1g.5gb`",
    "rename": "`true`: the shared resource is called `….shared`, and the product keeps its name",
    "replicas": "pods per GPU",
    "resources": "more resources: `[{example.com/x: 3}]`",
    "sharing": "`{strategy: time-slicing, replicas: 4}`",
    "status": "who uses it how much; the status updater writes it",
    "strategy": "`time-slicing` or `mps`",
    "system": "`driver_version`, `cuda_version`",
    "topologyManagerPolicy": "of the peer; without meaning here",
    "topologyManagerScope": "of the peer; without meaning here",
    "utilization": "how busy pods keep their GPUs when they do not say: `80`, `10-30` or a script; 100",
    "version": "of nvml-mock; without meaning here",
    "xid": "the error that the metrics show; 0-1023",
    "zones": "how many",
}  # fmt: skip
CARDS: Mapping[Callable[..., bool], str] = {
    always: "all",
    whole: "whole cards",
    has_memory: "all but MIG without a slice",
    has_memory_thermometer: "stacked memory",
    remaps_rows: "whole, Ampere and later",
    has_profiling: "Volta and later",
}
SERIES = {
    "gpu": "index on the node",
    "UUID": "the topology's id; of a slice, its card's",
    "pci_bus_id": "0x07 + index",
    "device": "`nvidia` and the index",
    "modelName": "the product as the topology says it",
    "GPU_I_PROFILE": "slices only",
    "GPU_I_ID": "slices only: the instance's number, as drivers give them out",
    "Hostname": "the node's name",
    "DCGM_FI_DRIVER_VERSION": "`driverVersion`",
    "container": "the user's; absent while the GPU is idle",
    "err_code": "`DCGM_FI_DEV_XID_ERRORS` only",
    "err_msg": "`DCGM_FI_DEV_XID_ERRORS` only",
    "namespace": "the user's; absent while the GPU is idle",
    "pod": "the user's; absent while the GPU is idle",
}
SWITCHES = {
    "hostnameLabel": (", ".join(HostnameLabel), "how the node's label is spelled"),
    "idleLabels": (", ".join(IdleLabels), "whether an idle GPU has empty pod labels"),
    "oldNames": ("false, true", "`uuid`, `pod_name`, `pod_namespace`, `container_name` instead"),
    "hashedHostname": ("false, true", "`nvidia-dcgm-exporter-` and six hexadecimal digits instead of the node's name"),
}
NODES = {
    "K80": "{gpu-product: Tesla-K80, gpu-memory: 11441, gpus: [{}, {}]}",
    "T4, shared by 4": (
        "{gpu-product: Tesla-T4, gpu-memory: 15360, gpus: [{}], sharing: {strategy: time-slicing, replicas: 4}}"
    ),
    "A100, MIG mixed": f"{{{NODE}, gpus: [{{mig: [{{profile: 1g.5gb, count: 2}}]}}]}}",
}
USED = (
    "nodes: {node-a: {%s, gpus: [{id: GPU-a, xid: 79, mig: [{profile: 1g.5gb}], metrics: {instances: {%s: "
    "{metadata: {namespace: team-a, pod: train-0, container: main}, utilization: 100, fb-used: 1000}}}}]}}"
)
PODS = {
    "annotation `run.ai/simulated-gpu-utilization`": "how busy its GPUs look: `80`, `10-30`, or a script of steps",
    "annotation `gpu-fraction`": "the part of each GPU that it uses: `0.5`",
    "annotation `gpu-memory`": "the MiB of each GPU that it uses, instead of a part",
    "annotation `gpu-fraction-num-devices`": "of how many GPUs",
    "label `runai-gpu-group`, annotation `runai-gpu`": "which shared GPU it is on",
    "annotation `run.ai/reserve_for_gpu_index`": "in a reservation namespace: which GPU the reservation pod holds",
    "label `workloadKind`": "`TrainingWorkload` 80-100 %, `InteractiveWorkload` 0 %",
    "a name that begins with `runai-idle-gpu-`": "0 %",
}
EVENTS = {
    TOPOLOGY_REFUSED: "on a ConfigMap: its topology cannot be read or not be written, with line, path and remedy",
    REFUSED: "on a pod: its utilization cannot be read; it counts as a pod that says nothing of it",
    PART_REFUSED: "on a pod: its part of a GPU cannot be read; it counts as a whole one",
    MISSING: "on a pod: it has more GPUs than are free on its node; none is shown for it",
}


def keys() -> dict[str, list[str]]:
    """Every key that a topology may have, and the places where."""
    found: dict[str, list[str]] = {}
    for place, document in PLACES.items():
        for key in known_at(document):
            found.setdefault(key, []).append(place)
    return found


def known_at(document: str) -> list[str]:
    """The keys that may stand where the document has an unknown one."""
    try:
        read(document.replace("?", "what-nobody-writes"), "n")
    except TopologyError as error:
        return str(error).partition("known here: ")[2].split(", ")
    raise AssertionError(document)


def series_labels() -> dict[str, str]:
    """Every label of a series, with its value on a slice that is used and reports an error."""
    [device] = devices(read(USED % (NODE, "nobody-yet")).nodes)
    assert device.instance is not None
    used = read(USED % (NODE, device.instance.id)).nodes
    [(found, _)] = samples(scrape(used))["DCGM_FI_DEV_XID_ERRORS"]
    return found


def node_labels() -> list[dict[str, str]]:
    """Every label of the sample nodes."""
    return [
        labels(read(f"{{mig-strategy: mixed, nodes: {{n: {body}}}}}").nodes["n"], "1700000000")
        for body in NODES.values()
    ]


def page() -> str:
    """The document."""
    found = node_labels()
    names = sorted({name for each in found for name in each})
    sections = (
        ("Keys of a topology", "Any other key is refused with its path and line.", ("key", "where", "meaning"),
         ((f"`{key}`", ", ".join(places), KEYS[key]) for key, places in sorted(keys().items()))),
        ("Profiles", "A node whose product has one of these names takes its constants; `profile` names one itself.",
         ("profile", "product", "GPUs", "MiB", "capability", "slices"), map(_profile, PROFILES.values())),
        ("What a pod may say", "", ("where", "meaning"), PODS.items()),
        ("Events", "", ("reason", "what happened"), ((f"`{reason}`", told) for reason, told in sorted(EVENTS.items()))),
        ("Metrics", "Port 9400, `/metrics`, families in this order. Memory is in MiB, energy in mJ.",
         ("family", "type", "text", "cards"), ((f"`{f.name}`", f.kind, f.help, CARDS[f.when]) for f in FAMILIES)),
        ("Labels of a metric", "In this order; here of a slice that is used and reports an error.",
         ("label", "for example", "meaning"), ((f"`{n}`", f"`{v}`", SERIES[n]) for n, v in series_labels().items())),
        ("Switches of the exporter", "ConfigMap `gpuyard-exporter`; the first value is what holds without it.",
         ("key", "values", "meaning"), ((f"`{key}`", *told) for key, told in SWITCHES.items())),
        ("Labels of a node", "As GPU feature discovery writes them; here of three nodes.", ("label", *NODES),
         ((f"`{name}`", *(_code(each.get(name)) for each in found)) for name in names)),
    )  # fmt: skip
    return HEAD + "".join(_section(*each) for each in sections)


def _profile(profile: Profile) -> tuple[str, ...]:
    capability = ".".join(map(str, profile.compute))
    slices = ", ".join(f"`{name}`" for name in profile.mig)
    return f"`{profile.name}`", profile.product, str(profile.count), str(profile.memory), capability, slices


def _code(value: str | None) -> str:
    return "" if value is None else f"`{value}`"


def _section(title: str, text: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join(filter(None, (f"\n## {title}\n", text and f"{text}\n", table))) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
