"""Amounts of the three resources that queues share; `UNLIMITED` is larger than any number and equal to itself."""

from typing import NamedTuple

UNLIMITED = -1
"""A quota or limit without bound; it counts as larger than any number."""

GPU = 1000
"""One whole GPU in milli-GPUs."""

SCALE = 1_000_000
"""One, for weights, usage and the other ratios that are kept as scaled integers."""


class Amounts(NamedTuple):
    """How much of each resource that queues share: milli-GPUs, millicores, bytes."""

    gpu: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """The sum, resource by resource."""
        return Amounts(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: "Amounts") -> "Amounts":
        """The difference, resource by resource."""
        return Amounts(self[0] - other[0], self[1] - other[1], self[2] - other[2])

    def times(self, count: int) -> "Amounts":
        """So many times as much."""
        return Amounts(self[0] * count, self[1] * count, self[2] * count)


NOTHING = Amounts()
NO_BOUND = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)
RESOURCES = Amounts._fields

RATIO = 10**12
"""Ratios are whole multiples of one part in this many."""


def at_most(amounts: Amounts, bounds: Amounts) -> bool:
    """Whether no resource passes its bound."""
    return all(b == UNLIMITED or UNLIMITED != a <= b for a, b in zip(amounts, bounds, strict=True))


def plus_at_most(amounts: Amounts, more: Amounts, bounds: Amounts) -> bool:
    """Whether both together pass no bound; amounts in use are never `UNLIMITED`."""
    b0, b1, b2 = bounds
    return (
        (b0 == UNLIMITED or amounts[0] + more[0] <= b0)
        and (b1 == UNLIMITED or amounts[1] + more[1] <= b1)
        and (b2 == UNLIMITED or amounts[2] + more[2] <= b2)
    )


def smaller(a: int, b: int) -> int:
    """The smaller of two bounds."""
    if a == UNLIMITED:
        return b
    return a if b == UNLIMITED else min(a, b)


def larger(a: int, b: int) -> int:
    """The larger of two bounds."""
    return UNLIMITED if UNLIMITED in (a, b) else max(a, b)


def allocatable(quota: Amounts, limit: Amounts, fair: Amounts) -> Amounts:
    """What a queue may hold before others may take from it: the limit, but not beyond quota and fair share."""
    return Amounts(
        *(
            bound if deserved == UNLIMITED else smaller(bound, larger(deserved, share))
            for deserved, bound, share in zip(quota, limit, fair, strict=True)
        )
    )
