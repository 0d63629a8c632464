"""What kube-scheduler does not offer, whatever the engine thinks: places that were refused, pods that fit nowhere.

Both are forgotten after a while: what stood in the way (a port, a volume) may have gone.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from gpuyard.engine.model import Offer

FORGET = 300.0
"""Seconds for which a refused place is not tried again, and a blocked pod is not counted on."""


class _Blocked(msgspec.Struct, frozen=True):
    uid: str
    since: float
    """Since when the engine has room for it and kube-scheduler does not ask."""


class Refusals:
    """Remembers both, by pod."""

    def __init__(self) -> None:
        self._struck: dict[tuple[str, str], float] = {}
        self._idle: dict[str, _Blocked] = {}

    def strike(self, pod: str, node: str, now: float) -> None:
        """kube-scheduler does not offer this pod the node that was promised to it."""
        self._struck[pod, node] = now

    def count_on(self, pods: Mapping[str, str], asked: AbstractSet[str], now: float) -> None:
        """The engine has room for these pods (UIDs by key); about those in `asked` kube-scheduler has asked since."""
        known = self._idle
        self._idle = {
            key: known[key] if key in known and known[key].uid == uid else _Blocked(uid, now)
            for key, uid in pods.items()
            if key not in asked
        }

    def since(self, pod: str) -> float | None:
        """Since when a pod could go and nobody has asked about it."""
        return self._idle[pod].since if pod in self._idle else None

    def blocked(self, now: float, grace: float) -> frozenset[str]:
        """The pods that could have gone for longer than `grace`, had kube-scheduler only asked."""
        return frozenset(key for key, idle in self._idle.items() if grace <= now - idle.since < FORGET)

    def next_change(self, now: float, grace: float) -> float | None:
        """When the next pod will be blocked, or is given another chance."""
        ends = [idle.since + after for idle in self._idle.values() for after in (grace, FORGET)]
        return min((end for end in ends if end > now), default=None)

    def offers(self, now: float, grace: float, *, today: int) -> Mapping[str, Offer]:
        """The engine's view of both."""
        self._struck = {place: at for place, at in self._struck.items() if now - at < FORGET}
        made = {key: Offer(nodes=frozenset(), since=today) for key in self.blocked(now, grace)}
        for pod in {pod for pod, _ in self._struck}:
            nodes = frozenset(node for other, node in self._struck if other == pod)
            made.setdefault(pod, Offer(refused=nodes, since=today))
        return made
