"""The GPUs that KAI's reservation pods hold, and the pods of KAI that share them.

Whether the part of such a pod counts depends on its reservation pods (`engine/kube/parts.py`), and the watch may show
either of them first.
"""

from collections.abc import Iterable

from gpuyard.common.cluster.objects import Pod
from gpuyard.engine.kube.parts import Card, of_kai, reserved
from gpuyard.engine.model import Pod as EnginePod


class Cards:
    """Which shared GPUs are held, and for whom."""

    def __init__(self) -> None:
        self._holders: dict[Card, set[str]] = {}
        self._sharers: dict[Card, set[str]] = {}
        self._held_by: dict[str, tuple[Card, ...]] = {}
        self._shared_by: dict[str, tuple[Card, ...]] = {}
        self._concerned: set[str] = set()

    def __contains__(self, card: object) -> bool:
        """Whether a reservation pod holds this GPU."""
        return card in self._holders

    def put(self, seen: Pod, pod: EnginePod) -> None:
        """Take note of a pod that is new or changed."""
        key = pod.key
        shares, holds = of_kai(seen), reserved(pod)
        if shares != self._shared_by.get(key, ()):
            _move(key, self._shared_by, self._sharers, shares)
        if (held := self._held_by.get(key, ())) != holds:
            _move(key, self._held_by, self._holders, holds)
            self._concern({*held, *holds})

    def drop(self, key: str) -> None:
        """Take note that a pod is gone."""
        _move(key, self._shared_by, self._sharers, ())
        self._concerned.discard(key)
        self._concern(self._held_by.get(key, ()))
        _move(key, self._held_by, self._holders, ())

    def take_concerned(self) -> list[str]:
        """The pods that share GPUs which were reserved, or are reserved no more, since the last call."""
        concerned, self._concerned = self._concerned, set()
        return sorted(concerned)

    def _concern(self, cards: Iterable[Card]) -> None:
        for card in cards:
            self._concerned |= self._sharers.get(card, set())


def _move(key: str, of: dict[str, tuple[Card, ...]], among: dict[Card, set[str]], cards: tuple[Card, ...]) -> None:
    """Count a pod among those of these GPUs, and of no others."""
    for card in of.pop(key, ()):
        among[card].discard(key)
        if not among[card]:
            del among[card]
    for card in cards:
        among.setdefault(card, set()).add(key)
    if cards:
        of[key] = cards
