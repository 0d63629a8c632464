"""Which devices of one resource kubelet is told of, and how a device goes.

    offered by the topology ──────────▶ told, healthy or not as the topology says
    no longer offered                ─▶ told as unhealthy, so that no new pod gets it
    no longer offered, used by no pod,
    and told as unhealthy before     ─▶ gone

kubelet looks up a used device without checking that it is still there; so none goes while somebody has it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.common.topology.resources import Offer

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class Device(NamedTuple):
    """What kubelet is told of a device."""

    id: str
    health: str
    zone: int | None = None


@dataclass(slots=True)
class Inventory:
    """The devices of one resource, in the order of the topology; those on their way out last."""

    offers: tuple[Offer, ...] = ()
    leaving: tuple[str, ...] = field(default=())

    @property
    def devices(self) -> list[Device]:
        """All devices that kubelet is told of."""
        told = [Device(offer.id, HEALTHY if offer.healthy else UNHEALTHY, offer.zone) for offer in self.offers]
        return told + [Device(device, UNHEALTHY) for device in self.leaving]

    @property
    def health(self) -> dict[str, str]:
        """The word for each device's health."""
        return {device.id: device.health for device in self.devices}

    def offer(self, offers: Sequence[Offer]) -> bool:
        """From now on these; whether kubelet must be told anew."""
        before = self.devices
        kept = {offer.id for offer in offers}
        self.leaving = tuple(device.id for device in before if device.id not in kept)
        self.offers = tuple(offers)
        return self.devices != before

    def adopt(self, used: Collection[str]) -> bool:
        """Devices that pods have, but nobody offers: from before our own restart."""
        strange = tuple(device for device in sorted(used) if device not in self.health)
        self.leaving += strange
        return bool(strange)

    def release(self, used: Collection[str]) -> bool:
        """Let those go that no pod has; whether kubelet must be told anew."""
        staying = tuple(device for device in self.leaving if device in used)
        gone = staying != self.leaving
        self.leaving = staying
        return gone


def preferred(available: Sequence[str], must: Sequence[str], size: int, order: Sequence[str]) -> list[str]:
    """The devices to prefer: those that must be in it, then the lowest index; the same answer every time.

    Raises:
        ValueError: there are not so many.
    """
    if size > len(available) or size < len(must):
        raise ValueError(f"{size} devices are asked for, {len(available)} are available and {len(must)} must be in it")
    rank = {device: position for position, device in enumerate(order)}
    rest = sorted(set(available) - set(must), key=lambda device: (rank.get(device, len(rank)), device))
    return [*must, *rest][:size]
