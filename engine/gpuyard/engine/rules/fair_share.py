"""Fair share: what each queue is due of the cluster, divided top-down among siblings, one resource at a time.

A division has three phases, each a function below:

    quota      everybody its quota, as far as it asks for it; priority plays no part
    surplus    what is left by weight, higher priorities first, in rounds until nobody wants less than its part
    remainder  the parts of whole units that rounding left over, one unit each, largest first

Fair share orders and limits taking from others. It never keeps a free GPU from anybody.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
from gpuyard.engine.model import GPU, MOST_LEVELS, NOTHING, RESOURCES, SCALE, UNLIMITED, Amounts, Queue
from gpuyard.engine.model.amounts import RATIO, smaller
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.snapshot import Snapshot

UNITS = Amounts(GPU, 1, 1)
"""The unit of each resource below which surplus is not divided."""


class Claim(msgspec.Struct, kw_only=True):
    """One sibling's claim on one resource, and its share as it grows."""

    name: str
    quota: int
    limit: int
    weight: int
    priority: int = 100
    created: int = 0
    request: int = 0
    usage: int = 0
    """Past use as a share of the cluster, in `SCALE`."""
    share: int = 0
    remainder: int = 0

    @property
    def requestable(self) -> int:
        """What it could use within its limit."""
        return smaller(self.limit, self.request)

    @property
    def satisfied(self) -> bool:
        """Whether more would be of no use to it."""
        return self.request <= self.share or UNLIMITED != self.limit <= self.share


def divide(total: int, claims: Sequence[Claim], k: int = SCALE, unit: int = 1) -> None:
    """Set `share` of each claim: divide `total` among siblings; `k` weighs past use (in `SCALE`)."""
    left = _quota_phase(total, claims)
    for _, level in groupby(sorted(claims, key=lambda c: -c.priority), key=lambda c: c.priority):
        if left > 0:
            left = _surplus_phase(left, list(level), k, unit)
    for claim in sorted(claims, key=_remainder_order):
        if left > 0 and claim.remainder:
            given = min(unit, left)
            claim.share += given
            left -= given


def _quota_phase(total: int, claims: Iterable[Claim]) -> int:
    left = total
    for claim in claims:
        quota = total if claim.quota == UNLIMITED else claim.quota
        claim.share = min(quota, claim.requestable)
        left -= claim.share
    return left


def _surplus_phase(left: int, level: Sequence[Claim], k: int, unit: int) -> int:
    """Rounds among claims of one priority; a further round only if somebody took strictly less than its part."""
    again = True
    while again and left > 0:
        weights = _share_weights([c for c in level if not c.satisfied], k)
        whole = sum(weight for _, weight in weights)
        start, again = left, False
        for claim, weight in weights:
            want = claim.requestable - claim.share
            part = start * weight
            if want * whole <= part:
                again |= want * whole < part
                given, claim.remainder = want, 0
            else:
                given = part // (whole * unit) * unit
                claim.remainder = (part - given * whole) * RATIO // (whole * unit)
            claim.share += given
            left -= given
    return left


def _share_weights(claims: Sequence[Claim], k: int) -> list[tuple[Claim, int]]:
    """The weight of each in the division: its configured one, less what it had more than its due in the past."""
    total = sum(c.weight for c in claims)
    raw = ((c, c.weight * (SCALE + k) * SCALE - k * c.usage * total) for c in claims if c.weight)
    return [(c, weight) for c, weight in raw if weight > 0]


def _remainder_order(claim: Claim) -> tuple[int, int, int, str]:
    return (-claim.priority, -claim.remainder, claim.created, claim.name)


def fair_shares(snapshot: Snapshot, k: int = SCALE) -> dict[str, Amounts]:
    """The fair share of every queue that hangs on a root, and not too deep, from the whole cluster down."""
    out: dict[str, Amounts] = {"": snapshot.total}
    for level in levels(snapshot):
        for parent, siblings in groupby(level, key=lambda queue: queue.parent):
            out |= _divide_level(snapshot, list(siblings), out[parent], k)
    del out[""]
    return out


def levels(snapshot: Snapshot) -> Iterator[list[Queue]]:
    """The queues from the roots down, siblings side by side; without those that hang on no root, or too deep."""
    children: dict[str, list[Queue]] = {}
    for name in sorted(snapshot.queues):
        queue = snapshot.queues[name]
        children.setdefault(queue.parent, []).append(queue)
    above = [""]
    for _ in range(MOST_LEVELS):
        level = [queue for parent in above for queue in children.get(parent, ())]
        yield level
        above = [queue.name for queue in level]


def _divide_level(snapshot: Snapshot, queues: Sequence[Queue], amount: Amounts, k: int) -> Mapping[str, Amounts]:
    columns = []
    for n in range(len(RESOURCES)):
        claims = [
            Claim(
                name=q.name,
                quota=q.quota[n],
                limit=q.limit[n],
                weight=q.weight[n],
                priority=q.priority,
                created=q.created,
                request=snapshot.use.get(q.name, UNUSED).requested[n],
                usage=snapshot.history.get(q.name, NOTHING)[n],
            )
            for q in queues
        ]
        divide(amount[n], claims, k, UNITS[n])
        columns.append([c.share for c in claims])
    return {q.name: Amounts(*row) for q, row in zip(queues, zip(*columns, strict=True), strict=True)}
