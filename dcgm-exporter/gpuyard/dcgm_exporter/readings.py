"""What a device's sensors say at a time. All of it follows from the topology: load is who uses it and how much.

Values fit together: memory free, used and reserved are its size; clocks and power idle with the card; energy is the
integral of the power that was shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.common.topology.model import Gpu, MigInstance, Node, Usage
from gpuyard.common.topology.profiles import MIG_SLICES, Profile
from gpuyard.common.topology.utilization import FULL

SLICE_IDLE = 0.000062
SLICE_BUSY = 0.999917
TEMPERATURE_SPREAD = 4


class Device(NamedTuple):
    """What has series of its own: a card, or a slice of one."""

    node: Node
    gpu: Gpu
    instance: MigInstance | None = None

    @property
    def profile(self) -> Profile:
        """The constants of its card."""
        return self.node.hardware.profile

    @property
    def usage(self) -> Usage:
        """Who uses it."""
        return self.gpu.usage if self.instance is None else self.instance.usage

    @property
    def key(self) -> tuple[str, str]:
        """The card, for what is counted per card."""
        return self.node.name, self.gpu.id


def devices(nodes: Mapping[str, Node]) -> Iterator[Device]:
    """All devices in the order of nodes, GPUs and slices."""
    for name in sorted(nodes):
        node = nodes[name]
        for gpu in node.gpus:
            if gpu.mig:
                yield from (Device(node, gpu, instance) for instance in gpu.mig)
            else:
                yield Device(node, gpu)


class Reading(NamedTuple):
    """All sensors of a device at one moment."""

    utilization: int
    engine: float
    sm_clock: float
    memory_clock: float
    temperature: float
    power: float
    energy: float
    nvlink: float
    xid: int
    fb_free: int
    fb_used: int
    fb_reserved: int


@dataclass(slots=True)
class _Meter:
    """Counters of one card, and what is added to them each second until the next reading."""

    at: float
    power: float
    traffic: float
    energy: float = 0.0
    nvlink: float = 0.0


@dataclass(slots=True)
class Meters:
    """The counters of all cards. They rise by what was last shown, for as long as it was shown."""

    cards: dict[tuple[str, str], _Meter] = field(default_factory=dict)

    def read(self, card: tuple[str, str], now: float, power: float, traffic: float) -> tuple[float, float]:
        """Energy in mJ and NVLink traffic so far; from now on they rise at these new rates."""
        meter = self.cards.setdefault(card, _Meter(now, power, traffic))
        passed = max(now - meter.at, 0.0)
        meter.energy += meter.power * passed * 1000
        meter.nvlink += meter.traffic * passed
        meter.at, meter.power, meter.traffic = max(now, meter.at), power, traffic
        return meter.energy, meter.nvlink

    def keep(self, cards: set[tuple[str, str]]) -> None:
        """Forget the cards that are gone."""
        for card in self.cards.keys() - cards:
            del self.cards[card]


def load_of(gpu: Gpu, now: float) -> float:
    """How busy a whole card is, 0-1: a slice counts by its size."""
    if gpu.mig is None:
        return gpu.usage.utilization(now) / FULL
    slices = sum(each.usage.utilization(now) * each.profile.slices for each in gpu.mig)
    return min(slices / (FULL * MIG_SLICES), 1.0)


def reading(device: Device, now: float, meters: Meters) -> Reading:
    """What the device's sensors say now."""
    node, gpu, instance = device
    profile = node.hardware.profile
    usage = device.usage
    utilization = usage.utilization(now)
    load = utilization / FULL if gpu.mig is None else load_of(gpu, now)
    power = profile.power.at(load)
    energy, nvlink = meters.read(device.key, now, power, profile.nvlink * load)
    size, reserved = memory_of(device)
    used = usage.fb_used(size - reserved)
    return Reading(
        utilization=utilization,
        engine=_engine(utilization, instance),
        sm_clock=profile.sm_clock.busy if load else profile.sm_clock.idle,
        memory_clock=profile.memory_clock.busy if load else profile.memory_clock.idle,
        temperature=profile.temperature.at(load) + gpu.index % TEMPERATURE_SPREAD,
        power=power,
        energy=energy,
        nvlink=nvlink,
        xid=gpu.xid,
        fb_free=size - reserved - used,
        fb_used=used,
        fb_reserved=reserved,
    )


def memory_of(device: Device) -> tuple[int, int]:
    """MiB in all and MiB reserved."""
    if device.instance is not None:
        return device.instance.profile.memory, device.instance.profile.reserved
    return device.node.hardware.memory, device.node.hardware.fb_reserved


def _engine(utilization: int, instance: MigInstance | None) -> float:
    if instance is None:
        return utilization / FULL
    return SLICE_IDLE + (SLICE_BUSY - SLICE_IDLE) * utilization / FULL
