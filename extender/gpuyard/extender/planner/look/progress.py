"""How far a plan has come, read from the pods as they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuyard.common.plans.plan import Place, Plan, Victim, promise
from gpuyard.engine.model import Pod, State
from gpuyard.engine.rules.promises import inherits
from gpuyard.extender.ledger import Entry

Pods = Mapping[str, Pod]
"""The pods as the watches show them, by key."""


class SeenPods(Mapping[str, Pod]):
    """The pods of a ledger as the watches show them, whatever was granted."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Pod:
        """The pod of this key."""
        return self._entries[key].seen.pod

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._entries)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)


class Taker(NamedTuple):
    """Who has taken a place."""

    pod: str = ""
    uid: str = ""


Taken = Mapping[str, Taker]
"""Who has taken which place, by the pod that the place names."""

NONE_TAKEN: Taken = {}


class Progress(NamedTuple):
    """What is left to do."""

    left: tuple[Victim, ...]
    """Those who are still there."""
    due: tuple[Victim, ...]
    """Those of them who have not been told to go."""
    going: tuple[Victim, ...]
    """Those of them who are on their way out, whoever told them."""
    stuck: tuple[Victim, ...]
    """Those who should have been gone long ago."""
    taken: Taken
    """The places that have been taken: who goes again later needs another plan."""
    deserted: frozenset[str]
    """Those of them on which nobody stands any more, by the pods that they name."""
    open: tuple[Place, ...]
    """The places that are kept and not taken yet."""
    claimed: bool
    """Whether somebody waits for whom it was made (or it was made for nobody)."""


def progress(  # noqa: PLR0913, PLR0917 - the plan, the pods, and what of them the pods do not show
    plan: Plan,
    pods: Pods,
    at: Mapping[str, tuple[Pod, ...]],
    since: int,
    is_stuck: Callable[[Pod], bool],
    queue_of: Callable[[Pod], str],
    before: Taken = NONE_TAKEN,
) -> Progress:
    """How far a plan has come that was made at `since`; `at` are the pods on each node."""
    heirs = _Heirs(plan, pods, queue_of)
    left = [(victim, pod) for victim in plan.spec.evictions if (pod := _still_there(victim, pods))]
    told = set(plan.status.evicted)
    taken = _taken(heirs, at, since, before)
    open_places = tuple(p for p in plan.spec.promises if p.pod not in taken and heirs.want(p))
    claims = [place for place in plan.spec.promises if not plan.is_moved(place)]
    return Progress(
        left=tuple(victim for victim, _ in left),
        due=tuple(v for v, pod in left if pod.state is not State.TERMINATING and v.uid not in told),
        going=tuple(victim for victim, pod in left if pod.state is State.TERMINATING),
        stuck=tuple(victim for victim, pod in left if is_stuck(pod)),
        taken=taken,
        deserted=frozenset(place for place, taker in taken.items() if not _stands(taker, pods)),
        open=open_places,
        claimed=not claims or any(place in open_places or place.pod in taken for place in claims),
    )


def _still_there(victim: Victim, pods: Pods) -> Pod | None:
    pod = pods.get(victim.pod)
    return pod if pod is not None and pod.uid == victim.uid and pod.holds else None


class _Heirs:
    """Knows which pods may take the places that a plan keeps."""

    def __init__(self, plan: Plan, pods: Pods, queue_of: Callable[[Pod], str]) -> None:
        self.plan = plan
        self.pods = pods
        self._queue_of = queue_of

    def may_take(self, place: Place, pod: Pod) -> bool:
        """Whether a pod inherits a place."""
        return inherits(promise(self.plan, place), pod, self._queue_of(pod))

    def named(self, place: Place) -> Pod | None:
        """The pod that a place names; a later one of its name is another pod, unless it has the same owner."""
        pod = self.pods.get(place.pod)
        if pod is None or not self.may_take(place, pod):
            return None
        return pod if place.uid in ("", pod.uid) or (place.owner and pod.owner == place.owner) else None

    def stands(self, taker: Taker) -> bool:
        """Whether a pod that has taken a place is still there."""
        return _stands(taker, self.pods)

    def want(self, place: Place) -> bool:
        """Whether a pod will come for a place: one that is moved comes back, one that waited may have been deleted."""
        if self.plan.is_moved(place):
            return True
        waiting = self.named(place)
        if waiting is not None and waiting.state is State.PENDING:
            return True
        same = (pod for pod in self.pods.values() if place.owner and pod.owner == place.owner)
        return any(pod.state is State.PENDING and self.may_take(place, pod) for pod in same)


def _taken(heirs: _Heirs, at: Mapping[str, tuple[Pod, ...]], since: int, before: Taken) -> Taken:
    """Which pod has taken which place, also earlier. No pod takes two, or the one that names another pod."""
    gone, taken, places = heirs.plan.victims, dict(before), heirs.plan.spec.promises
    own = {place.pod for place in places}

    def take(place: Place, pods: Iterable[Pod]) -> None:
        takers = (Taker(pod.key, pod.uid) for pod in pods if pod.uid not in gone)
        free = (taker for taker in takers if heirs.stands(taker) and taker not in taken.values())
        if place.pod not in taken and (taker := next(free, None)):
            taken[place.pod] = taker

    for place in places:
        take(place, [pod] if (pod := heirs.named(place)) else ())
    for place in places:
        # One of the same owner that was there before the plan has not come for the place.
        others = (pod for pod in at.get(place.node, ()) if pod.key not in own and pod.created >= since)
        take(place, (pod for pod in others if heirs.may_take(place, pod)))
    return taken


def _stands(taker: Taker, pods: Pods) -> bool:
    pod = pods.get(taker.pod)
    return pod is not None and pod.uid == taker.uid and pod.active
