"""What a cache tells its readers: changes, in batches."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Changes that arrived together; `listed` marks those after which the cache equals a list just read."""

    changes: list[Change[T]]
    listed: bool = False
