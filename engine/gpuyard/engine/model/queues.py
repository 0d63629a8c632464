"""Queues as they are configured."""

import msgspec
from gpuyard.engine.model.amounts import NOTHING, SCALE, Amounts

MOST_LEVELS = 32
"""Of queues and of sub-groups, one below the other: nobody has more, and the engine walks them by recursion."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as configured; amounts per resource, `UNLIMITED` allowed in `quota` and `limit`, weights in `SCALE`."""

    name: str
    parent: str = ""
    priority: int = 100
    quota: Amounts = NOTHING
    limit: Amounts = NOTHING
    weight: Amounts = Amounts(SCALE, SCALE, SCALE)
    unset: tuple[str, ...] = ()
    """The bounds that count as 0 because nobody set them, as `gpu.limit`."""
    created: int = 0
    preempt_min_runtime: int | None = None
    reclaim_min_runtime: int | None = None
    display: str = ""
