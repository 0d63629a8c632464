"""The topology as values: what every mock component reads, whatever form the user wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate

from gpuyard.common.topology.ids import mig_id
from gpuyard.common.topology.profiles import MigProfile, Profile
from gpuyard.common.topology.utilization import FULL, Utilization, value


class MigStrategy(StrEnum):
    """How MIG instances are shown to Kubernetes."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """The container that a device's usage is shown under."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Share:
    """What one pod takes of one device."""

    uid: str
    utilization: Utilization
    fb_used: int
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Who uses a device and how much; the status updater writes it, nobody else."""

    owner: Owner | None = None
    shares: tuple[Share, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nobody uses the device."""
        return self.owner is None and not self.shares

    def utilization(self, now: float) -> int:
        """Percent of all pods together, at most 100."""
        parts = (value(s.utilization, seed=s.uid, now=now, started=s.started) for s in self.shares)
        return min(sum(parts), FULL)

    def fb_used(self, room: int) -> int:
        """MiB of all pods together, at most `room`."""
        return min(sum(share.fb_used for share in self.shares), max(room, 0))


FREE = Usage()


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One slice of a GPU."""

    id: str
    profile: MigProfile
    gi: int
    usage: Usage = FREE


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a node. `mig` is None while MIG is off, and empty while it is on without an instance."""

    id: str
    index: int
    usage: Usage = FREE
    healthy: bool = True
    xid: int = 0
    zone: int | None = None
    """Its NUMA zone, where the GPU itself says it."""
    mig: tuple[MigInstance, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Several pods on one GPU, as NVIDIA's device plugin offers it."""

    strategy: str
    replicas: int
    rename: bool = False


@dataclass(frozen=True, slots=True)
class OtherDevice:
    """A resource beside the GPUs."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong on a node, on purpose."""

    allocate_error: bool = False
    refuse_register: bool = False
    drop_stream: bool = False
    slow_allocate: float = 0.0
    crash: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a node is made of, apart from its GPUs' ids: what a pool says once for all its nodes."""

    product: str
    memory: int
    profile: Profile
    mig_strategy: MigStrategy = MigStrategy.NONE
    driver_version: str = ""
    cuda_version: str = ""
    fb_reserved: int = 0
    utilization: Utilization | None = None
    sharing: Sharing | None = None
    other_devices: tuple[OtherDevice, ...] = ()
    faults: Faults = field(default_factory=Faults)
    numa: tuple[int, ...] = ()
    """GPUs in each NUMA zone; empty where there are no zones."""

    @property
    def driver(self) -> str:
        """The driver's version, the profile's when none is written."""
        return self.driver_version or self.profile.driver

    @property
    def cuda(self) -> str:
        """The CUDA runtime's version, the profile's when none is written."""
        return self.cuda_version or self.profile.cuda

    def zone(self, index: int) -> int | None:
        """The NUMA zone of the GPU of this index."""
        ends = accumulate(self.numa)
        return next((zone for zone, end in enumerate(ends) if index < end), None)


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its GPUs."""

    name: str
    hardware: Hardware
    gpus: tuple[Gpu, ...]

    @property
    def room(self) -> int:
        """MiB of one GPU that pods can use."""
        return self.hardware.memory - self.hardware.fb_reserved

    def devices(self) -> Iterator[tuple[str, Usage]]:
        """Each device with its usage: GPUs, and the slices of those with MIG."""
        for gpu in self.gpus:
            yield gpu.id, gpu.usage
            for instance in gpu.mig or ():
                yield instance.id, instance.usage


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that carry a label, and what each of them is made of. Without a label it is the one node of that name."""

    name: str
    label: str
    value: str
    count: int
    hardware: Hardware

    def takes(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of it."""
        return (labels.get(self.label) if self.label else node) == self.value


class Form(StrEnum):
    """How a topology is written; usage goes back in the same form."""

    CLUSTER = "cluster, metrics"  # nodes: with metrics per GPU
    CLUSTER_STATUS = "cluster, status"  # nodes: with status per GPU
    POOLS = "pools"  # nodePools:
    NODE = "node"  # gpus: of one node


@dataclass(frozen=True, slots=True)
class Topology:
    """One document, read."""

    form: Form
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()


def instances(gpu: str, profiles: tuple[MigProfile, ...], usage: Mapping[str, Usage]) -> tuple[MigInstance, ...]:
    """The slices of a GPU, in the order in which their profiles are written."""
    taken: list[int] = []
    made: list[MigInstance] = []
    for profile in profiles:
        gi = next(gi for gi in profile.gi_ids if gi not in taken)
        n = sum(1 for instance in made if instance.profile == profile)
        taken.append(gi)
        device = mig_id(gpu, profile.name, n)
        made.append(MigInstance(device, profile, gi, usage.get(device, FREE)))
    return tuple(made)
