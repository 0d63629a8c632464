"""What others refuse, whatever the engine thinks: kube-scheduler a place or a pod, the API server an eviction.

    a plan's free place is not offered   the place is struck out for five minutes
    and again, for the same pod          the pod is blocked as well: 10, 20, 40, at most 60 minutes
    room, and nobody asks about the pod  it is blocked for five minutes, after `outrank.grace`
    no eviction would help, by its word  the pod is barred until kube-scheduler's word leaves hope in them
    an eviction is refused for good      the victim is spared: 5, 10, 20, 40, at most 60 minutes

Nobody is evicted, and no room is kept, for a pod that is blocked or barred. All but the last is forgotten after a
while: what stood in the way (a port, a volume) may have gone.

Decided in docs/decisions.md: "Evictions are not tried for ever".
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from gpuyard.common.plans.plan import Plan
from gpuyard.engine.kube.times import moment
from gpuyard.engine.kube.verdicts import causes, evictions_may_help
from gpuyard.engine.model import Offer
from gpuyard.extender.ledger import Entry

FORGET = 300.0
"""Seconds for which a refused place is not tried again, and a pod that nobody asks about is not counted on."""

LONGEST = 3600.0
"""Seconds for which a pod is blocked at most, however often places were refused to it."""


class _Idle(msgspec.Struct, frozen=True):
    uid: str
    since: float
    """Since when the engine has room for it and kube-scheduler does not ask."""


class _Struck(msgspec.Struct, frozen=True):
    uid: str
    nodes: frozenset[str]
    times: int
    at: float

    @property
    def until(self) -> float:
        """Until when it counts: twice as long each time."""
        return self.at + min(FORGET * 2.0 ** (self.times - 1), LONGEST)


class _Barred(msgspec.Struct, frozen=True):
    uid: str
    verdict: str | None


class Refusals:
    """Remembers them, by pod."""

    def __init__(self) -> None:
        self._struck: dict[str, _Struck] = {}
        self._spared: dict[str, _Struck] = {}
        self._idle: dict[str, _Idle] = {}
        self._barred: dict[str, _Barred] = {}

    # --- what happened ---

    def strike(self, pod: str, uid: str, node: str, now: float) -> None:
        """kube-scheduler does not offer this pod the node that was promised to it."""
        self._struck[pod] = _once_more(self._struck.get(pod), uid, now, node)

    def spare(self, pod: str, uid: str, now: float) -> None:
        """The API server does not let this pod be evicted."""
        self._spared[pod] = _once_more(self._spared.get(pod), uid, now)

    def bar(self, pod: str, uid: str, verdict: str | None) -> None:
        """By kube-scheduler's word no eviction helps this pod; None: it has to be heard first."""
        self._barred[pod] = _Barred(uid, verdict)

    def forget_idle(self, asked: Collection[str]) -> None:
        """kube-scheduler has asked about these."""
        self._idle = {key: one for key, one in self._idle.items() if key not in asked}

    def count_on(self, pods: Mapping[str, str], asked: Collection[str], now: float, grace: float) -> None:
        """The engine has room for these pods (UIDs by key); about those in `asked` kube-scheduler has asked since.

        Those that are blocked stay so: for them the engine has no room because of that very word.
        """
        self.forget_idle(asked)
        known = {key: one for key, one in self._idle.items() if now - one.since < FORGET}
        same = {key: one for key, one in known.items() if pods.get(key, one.uid) == one.uid}
        stay = {key: one for key, one in same.items() if key in pods or now - one.since >= grace}
        fresh = {key: _Idle(uid, now) for key, uid in pods.items() if key not in stay and key not in asked}
        self._idle = stay | fresh

    def renew(self, entries: Mapping[str, Entry], now: float) -> None:
        """Forget what concerns pods that are gone, what is long over, and whom evictions may help by now."""
        for of in (self._struck, self._spared):
            for key, one in list(of.items()):
                if not _is_known(key, one.uid, entries) or now >= one.until + LONGEST:
                    del of[key]
        self._idle = {key: one for key, one in self._idle.items() if _is_known(key, one.uid, entries)}
        self._barred = {key: one for key, one in self._barred.items() if _is_still_said(key, one, entries)}

    # --- what follows ---

    def has_news(self, entries: Mapping[str, Entry]) -> bool:
        """Whether kube-scheduler speaks so of a pod that is barred that evictions may help it."""
        return any(not _is_still_said(key, one, entries) for key, one in self._barred.items())

    @property
    def idle(self) -> Mapping[str, float]:
        """Since when pods could go and nobody has asked about them."""
        return {key: one.since for key, one in self._idle.items()}

    def blocked(self, now: float, grace: float) -> frozenset[str]:
        """The pods that are not counted on."""
        idle = (key for key, one in self._idle.items() if grace <= now - one.since < FORGET)
        struck = (key for key, one in self._struck.items() if one.times > 1 and now < one.until)
        return frozenset((*idle, *struck, *self._barred))

    def spared(self, now: float) -> frozenset[str]:
        """The pods that nobody may evict at this time."""
        return frozenset(key for key, one in self._spared.items() if now < one.until)

    def next_change(self, now: float, grace: float) -> float | None:
        """When the next pod will be blocked, or is given another chance."""
        ends = [one.since + after for one in self._idle.values() for after in (grace, FORGET)]
        ends += [one.until for one in (*self._struck.values(), *self._spared.values())]
        return min((end for end in ends if end > now), default=None)

    def offers(self, now: float, grace: float, *, today: int) -> Mapping[str, Offer]:
        """The engine's view of all of it."""
        made = {key: Offer(nodes=frozenset(), since=today) for key in self.blocked(now, grace)}
        for key, barred in self._barred.items():
            made[key] = Offer(nodes=frozenset(), since=today, in_vain=causes(barred.verdict or ""))
        for key, one in self._struck.items():
            if now < one.until:
                nodes: frozenset[str] | None = frozenset() if one.times > 1 else None
                made[key] = Offer(nodes=nodes, refused=one.nodes, since=today - int(now - one.at))
        return made


def recall(refusals: Refusals, plans: Iterable[Plan], entries: Mapping[str, Entry], now: float, today: float) -> None:
    """Remember, by the plans of whoever led before, to whom kube-scheduler did not offer which places."""
    for plan in plans:
        ended = moment(plan.status.finished) if plan.status.finished else 0
        for place in plan.spec.promises:
            entry = entries.get(place.pod)
            if place.pod in plan.status.refused and entry is not None and entry.seen.pod.created <= ended:
                refusals.strike(place.pod, entry.seen.pod.uid, place.node, now - max(0.0, today - ended))


def _once_more(before: _Struck | None, uid: str, now: float, *nodes: str) -> _Struck:
    if before is None or before.uid != uid:
        return _Struck(uid, frozenset(nodes), 1, now)
    return _Struck(uid, before.nodes.union(nodes), before.times + 1, now)


def _is_known(key: str, uid: str, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(key)
    return entry is not None and entry.seen.pod.uid == uid


def _is_still_said(key: str, barred: _Barred, entries: Mapping[str, Entry]) -> bool:
    """Whether evictions are still in vain: of how many nodes the verdict speaks makes no difference."""
    if not _is_known(key, barred.uid, entries):
        return False
    said = entries[key].seen.verdict
    return said == barred.verdict or (said is not None and not evictions_may_help(said))
