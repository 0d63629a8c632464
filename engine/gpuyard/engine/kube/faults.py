"""What is wrong with an input: one `Fault` per cause, told by file, object and field, all of them together.

Decided in docs/decisions.md: "One fault does not hide the others".
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

Complain = Callable[[str, str], None]
"""Takes a field and what is wrong with it. Who complains goes on with a default; the result is not used."""


def ignore(_field: str, _why: str) -> None:
    """Complain of nothing, where another reader of the same object does."""


class Fault(NamedTuple):
    """One thing that cannot be read; `str` gives its line."""

    source: str
    """The file, or what else the object came from."""
    thing: str
    """Kind and name of the object; empty when it has none."""
    field: str
    why: str

    def __str__(self) -> str:
        return printable(": ".join(part for part in self if part))


class Unreadable(ValueError):  # noqa: N818 - reads as what it says of the input
    """An input with faults; none of it may be used."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))


def printable(text: str) -> str:
    """The text with every control character written out, so that it stays one line and harmless on a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
