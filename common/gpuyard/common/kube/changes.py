"""What a cache tells its readers: changes, in batches, merged while a reader is busy."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gpuyard.common.kube.objects import HasMeta

T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One object before and after: `old` None means created, `new` None means gone.

    An object that was deleted and made anew under the same name is two changes.
    """

    old: T | None
    new: T | None

    @property
    def uid(self) -> str:
        """Of the object, before or after."""
        known = self.new if self.new is not None else self.old
        return known.metadata.uid if known is not None else ""


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Changes that arrived together; `listed` marks those after which the cache equals a list just read."""

    changes: list[Change[T]]
    listed: bool = False


class Mailbox(Generic[T]):
    """Batches for one reader who may be slow: what waits is merged by object, so it never outgrows the cache."""

    def __init__(self) -> None:
        self._waiting: dict[str, Change[T]] = {}
        self._listed = False
        self._filled = asyncio.Event()

    def put(self, batch: Batch[T]) -> None:
        """Take a batch in; never blocks."""
        for change in batch.changes:
            earlier = self._waiting.get(change.uid)
            self._waiting[change.uid] = replace(change, old=earlier.old) if earlier else change
        self._listed |= batch.listed
        self._filled.set()

    async def take(self) -> Batch[T]:
        """All that waits, as one batch; waits until there is something."""
        await self._filled.wait()
        self._filled.clear()
        # Created and gone while nobody looked: nothing happened.
        changes = [change for change in self._waiting.values() if (change.old, change.new) != (None, None)]
        batch = Batch(changes, self._listed)
        self._waiting, self._listed = {}, False
        return batch

    async def __aiter__(self) -> AsyncIterator[Batch[T]]:
        while True:
            yield await self.take()
