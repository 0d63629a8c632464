"""Who is next: queues by how far they are from what is theirs, workloads in a queue by priority and age.

Two queues are compared, each with its best workload, by these rules; the first difference decides:

    1  not over its fair share in all three resources
    2  starved: with the workload still within its quota
    3  higher priority
    4  not using, with the workload, a resource of which it may have nothing
    5  smaller dominant share, with the workload and without the victims chosen already
    6  smaller dominant share as it is
    7  allocatable smaller in some resource, larger in none
    8  older, then by name

`rank` gives what is compared, `before` compares; rule 7 is no total order, so there is no sort key.
"""

from typing import NamedTuple

from gpuyard.engine.model import GPU, NOTHING, UNLIMITED, Amounts
from gpuyard.engine.model.amounts import RATIO, at_most, plus_at_most
from gpuyard.engine.rules.accounts import Account

_NO_SHARE_FACTOR = 1000
_UNITS = Amounts(GPU, 1, 1)


class Rank(NamedTuple):
    """What decides between two queues: rules 1 to 6 as one key (smaller is first), then 7 and 8."""

    key: tuple[bool, bool, int, bool, int, int]
    allocatable: Amounts
    age: tuple[int, str]


def rank(queue: Account, need: Amounts, total: Amounts, taken: Amounts = NOTHING) -> Rank:
    """The rank of a queue whose best workload needs `need`; `taken` are its victims chosen already."""
    allocated, fair = queue.allocated, queue.fair_share
    over = fair[0] != UNLIMITED and fair[1] != UNLIMITED and fair[2] != UNLIMITED
    over = over and fair[0] < allocated[0] and fair[1] < allocated[1] and fair[2] < allocated[2]
    with_need = allocated.plus(need)
    bounds = queue.allocatable
    # To look at each resource is worth it only where there is one of which the queue may have nothing.
    offends = 0 in bounds and any(a > 0 and bound == 0 for a, bound in zip(with_need, bounds, strict=True))
    return Rank(
        (
            over,
            not plus_at_most(allocated, need, queue.quota),
            -queue.priority,
            offends,
            dominant_share(with_need.minus(taken), bounds, total),
            dominant_share(allocated, bounds, total),
        ),
        bounds,
        (queue.created, queue.name),
    )


def before(left: Rank, right: Rank) -> bool:
    """Whether the left queue goes first."""
    if left.key != right.key:
        return left.key < right.key
    if left.allocatable != right.allocatable:
        if at_most(left.allocatable, right.allocatable):
            return True
        if at_most(right.allocatable, left.allocatable):
            return False
    return left.age < right.age


def dominant_share(amounts: Amounts, bounds: Amounts, total: Amounts) -> int:
    """The largest part, in `RATIO`, that `amounts` is of what may be had of each resource."""
    return max(map(_part, amounts, bounds, total, _UNITS))


def _part(amount: int, bound: int, total: int, unit: int) -> int:
    if bound == UNLIMITED:
        bound = total
    if bound == 0:
        return amount * _NO_SHARE_FACTOR * RATIO // unit
    return amount * RATIO // bound
