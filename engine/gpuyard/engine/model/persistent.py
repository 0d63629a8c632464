"""A mapping that is never changed: a change gives another one, which shares all that is the same in both."""

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")

_PARTS = 128
"""So that of 50,000 entries one change copies about 400; the list of the parts is no longer than that either."""

_LAST = _PARTS - 1


class PersistentMap(Mapping[K, V]):
    """Entries in parts by their hash; equal parts of two mappings are one and the same. Made by `changed` alone."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[dict[K, V]] = [{}] * _PARTS
        self._size = 0

    def changed(self, changes: Mapping[K, V | None]) -> "PersistentMap[K, V]":
        """With these entries, and without those whose value is None."""
        before, parts, size = self._parts, self._parts, self._size
        for key, value in changes.items():
            n = hash(key) & _LAST
            part = parts[n]
            if part.get(key) is value:
                continue
            if parts is before:
                parts = before.copy()
            if part is before[n]:
                part = parts[n] = part.copy()
            size -= len(part)
            if value is not None:
                part[key] = value
            else:
                del part[key]
            size += len(part)
        if parts is before:
            return self
        other = PersistentMap[K, V]()
        other._parts, other._size = parts, size
        return other

    def changes_since(self, before: "PersistentMap[K, V]") -> Iterator[tuple[V | None, V | None]]:
        """The values that differ, as they were and as they are; None: not there. Equal parts are not looked at."""
        for old, new in zip(before._parts, self._parts, strict=True):  # noqa: SLF001 - a mapping of the same kind
            if old is not new:
                yield from ((value, new.get(key)) for key, value in old.items() if new.get(key) is not value)
                yield from ((None, value) for key, value in new.items() if key not in old)

    def __getitem__(self, key: K) -> V:
        return self._parts[hash(key) & _LAST][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self._parts[hash(key) & _LAST].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._parts[hash(key) & _LAST]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(filter(None, self._parts))

    def values(self) -> ValuesView[V]:
        """All values, in the order of the keys."""
        return _Values(self, self._parts)

    def items(self) -> ItemsView[K, V]:
        """All keys with their values."""
        return _Items(self, self._parts)


class _Values(ValuesView[V]):
    """The values without a look-up each."""

    def __init__(self, of: PersistentMap[Any, V], parts: Iterable[dict[Any, V]]) -> None:
        super().__init__(of)
        self._parts = parts

    def __iter__(self) -> Iterator[V]:
        # Most parts of a small mapping are empty.
        return chain.from_iterable(map(dict.values, filter(None, self._parts)))


class _Items(ItemsView[K, V]):
    """The entries without a look-up each."""

    def __init__(self, of: PersistentMap[K, V], parts: Iterable[dict[K, V]]) -> None:
        super().__init__(of)
        self._parts = parts

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(map(dict.items, filter(None, self._parts)))
