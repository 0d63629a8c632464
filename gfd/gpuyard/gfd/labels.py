"""The labels of a node, as GPU feature discovery v0.20 writes them.

MIG strategy   cards with MIG on                   labels
none           shown as they are, 0 replicas       gpu.*
single         all alike                           gpu.* of the slice, product <model>-MIG-<profile>
otherwise                           gpu.* with 0 everywhere, product <model>-MIG-INVALID
mixed          each profile on its own             gpu.* with 0 replicas, and mig-<profile>.*
"""

from collections.abc import Iterable

from gpuyard.common.topology.model import Gpu, Hardware, MigInstance, MigStrategy, Node
from gpuyard.common.topology.profiles import GENERIC, MIG_SLICES, MigProfile, product_label
from gpuyard.common.topology.resources import mig_resource

PREFIX = "nvidia.com/"
TIMESTAMP = f"{PREFIX}gfd.timestamp"
MACHINE = "gpuyard-mock"
MAX_VALUE = 63
FAKE = "run.ai/fake.gpu"

Labels = dict[str, str]

_FAMILIES = (
    ((3, 0), "kepler"), ((5, 0), "maxwell"), ((6, 0), "pascal"), ((7, 0), "volta"), ((7, 5), "turing"),
    ((8, 0), "ampere"), ((8, 9), "ada-lovelace"), ((9, 0), "hopper"), ((10, 0), "blackwell"), ((13, 0), "rubin"),
)  # fmt: skip
_DECODERS = {1: 0, 2: 1, 3: 2, 4: 2, 7: 5}


def labels(node: Node, timestamp: str = "") -> Labels:
    """All labels of a node; none when it has no GPU."""
    if not node.gpus:
        return {}
    hardware = node.hardware
    found = _machine(hardware) | _versions(hardware) | _model(hardware) | _by_strategy(node)
    if hardware.mig_strategy is not MigStrategy.NONE:
        found["mig.strategy"] = hardware.mig_strategy.value
    if timestamp:
        found["gfd.timestamp"] = timestamp
    return {PREFIX + name: value for name, value in found.items()} | {FAKE: "true"}


def family(compute: tuple[int, int]) -> str:
    """The generation's name by compute capability."""
    return [name for since, name in _FAMILIES if since <= compute][-1]


def _machine(hardware: Hardware) -> Labels:
    known = hardware.profile is not GENERIC
    return {"gpu.machine": MACHINE, "gpu.present": "true", "gpu.mode": "compute" if known else "unknown"}


def _versions(hardware: Hardware) -> Labels:
    # A driver's version may end before its revision: NVIDIA's label is there all the same, and empty.
    major, minor, revision = (*hardware.driver.split("."), "", "")[:3]
    cuda_major, cuda_minor = (*hardware.cuda.split("."), "0")[:2]
    return {
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver-version.full": hardware.driver,
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
        "cuda.runtime-version.full": f"{cuda_major}.{cuda_minor}",
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
    }


def _model(hardware: Hardware) -> Labels:
    major, minor = hardware.profile.compute
    return {
        "gpu.family": family((major, minor)),
        "gpu.compute.major": str(major),
        "gpu.compute.minor": str(minor),
        "mig.capable": _flag(bool(hardware.profile.mig)),
        "mps.capable": _flag(_strategy(hardware) == "mps"),
        "vgpu.present": "false",
    }


def _by_strategy(node: Node) -> Labels:
    cut = [gpu for gpu in node.gpus if gpu.mig is not None]
    if not cut:
        return _cards(node)
    if node.hardware.mig_strategy is MigStrategy.SINGLE:
        return _single(node)
    cards = _cards(node) | ({"gpu.replicas": "0"} if len(cut) == len(node.gpus) else {})
    return cards | (_mixed(node) if node.hardware.mig_strategy is MigStrategy.MIXED else {})


def _cards(node: Node) -> Labels:
    hardware = node.hardware
    return _resource("gpu", hardware, product_label(hardware.product), len(node.gpus), hardware.memory)


def _single(node: Node) -> Labels:
    product = product_label(node.hardware.product)
    cuts = {tuple(each.profile for each in gpu.mig or ()) for gpu in node.gpus}
    profiles = {profile for cut in cuts for profile in cut}
    if len(profiles) != 1 or any(not gpu.mig for gpu in node.gpus):
        invalid = _value(f"{product}-MIG-INVALID")
        return {"gpu.product": invalid, "gpu.count": "0", "gpu.replicas": "0", "gpu.memory": "0"}
    [profile] = profiles
    return _slice("gpu", node.hardware, profile, sum(len(cut) for cut in _instances(node.gpus)))


def _mixed(node: Node) -> Labels:
    slices = [each for cut in _instances(node.gpus) for each in cut]
    found: Labels = {}
    for profile in {each.profile.name: each.profile for each in slices}.values():
        count = sum(each.profile == profile for each in slices)
        name = mig_resource(profile.name).removeprefix(PREFIX)
        found |= _slice(name, node.hardware, profile, count)
    return found


def _instances(gpus: Iterable[Gpu]) -> list[tuple[MigInstance, ...]]:
    return [gpu.mig for gpu in gpus if gpu.mig]


def _slice(prefix: str, hardware: Hardware, profile: MigProfile, count: int) -> Labels:
    product = f"{product_label(hardware.product)}-MIG-{profile.name.replace('+', '.')}"
    extended = profile.name.endswith("+me") or profile.slices == MIG_SLICES
    return _resource(prefix, hardware, product, count, profile.memory) | {
        f"{prefix}.multiprocessors": str(profile.multiprocessors),
        f"{prefix}.slices.gi": str(profile.slices),
        f"{prefix}.slices.ci": str(profile.slices),
        f"{prefix}.engines.copy": str(profile.slices),
        f"{prefix}.engines.decoder": str(max(_DECODERS[profile.slices], int(extended))),
        f"{prefix}.engines.encoder": "0",
        f"{prefix}.engines.jpeg": str(int(extended)),
        f"{prefix}.engines.ofa": str(int(extended)),
    }


def _resource(prefix: str, hardware: Hardware, product: str, count: int, memory: int) -> Labels:
    """What is said of each resource: whole cards, or slices of one profile."""
    sharing = hardware.sharing
    replicas = sharing.replicas if sharing else 1
    if sharing and replicas > 1 and not sharing.rename:
        product = f"{product}-SHARED"
    found = {
        f"{prefix}.product": _value(product),
        f"{prefix}.count": str(count),
        f"{prefix}.replicas": str(replicas),
        f"{prefix}.sharing-strategy": _strategy(hardware),
    }
    return found | ({f"{prefix}.memory": str(memory)} if memory else {})


def _strategy(hardware: Hardware) -> str:
    sharing = hardware.sharing
    return sharing.strategy if sharing and sharing.replicas > 1 else "none"


def _value(text: str) -> str:
    """What the API server takes for a label: one value too long would refuse all the others."""
    return text[:MAX_VALUE].strip("-_.")


def _flag(value: bool) -> str:  # noqa: FBT001 - it is the value
    return str(value).lower()
