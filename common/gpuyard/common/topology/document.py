"""A YAML document with places: each value knows its path and line, so an error can say where it is.

The document is read as libyaml's node graph; nothing is constructed that was not asked for by name and type.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn

import yaml
from gpuyard.common.shallow import ShallowLoader

MAX_BYTES = 900 * 1024
BYTE_ORDER_MARK = "\ufeff"
_INT = "tag:yaml.org,2002:int"
_BOOL = "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"
_TRUE = {"true", "yes", "on"}


class TopologyError(ValueError):
    """The document breaks a rule: where, which, and what to write instead."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        place = f"line {line}, {path}" if path else f"line {line}"
        super().__init__(f"{place}: {reason}")


@dataclass(frozen=True, slots=True)
class Element:
    """One value of the document and its place."""

    node: yaml.Node
    path: str

    @property
    def line(self) -> int:
        """Counted from 1."""
        return int(self.node.start_mark.line) + 1

    @property
    def empty(self) -> bool:
        """Whether nothing is written here."""
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == _NULL

    @property
    def blank(self) -> bool:
        """Whether an empty text is written."""
        return isinstance(self.node, yaml.ScalarNode) and not self.empty and not str(self.node.value).strip()

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return isinstance(self.node, yaml.SequenceNode)

    def fail(self, reason: str) -> NoReturn:
        """Refuse this value.

        Raises:
            TopologyError: always.
        """
        raise TopologyError(self.path, self.line, reason)

    def entries(self) -> Iterator[tuple[str, "Element"]]:
        """Keys and values of a mapping, in their order; each key once."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(f"is {_kind(self.node)}; write a mapping")
        seen: set[str] = set()
        for key, value in self.node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise TopologyError(self.path, int(key.start_mark.line) + 1, "a key is a plain word")
            name = key.value
            path = f"{self.path}.{name}" if self.path else name
            if name in seen:
                raise TopologyError(path, int(key.start_mark.line) + 1, "is written twice; keep one")
            seen.add(name)
            # An empty value has no place of its own: its key's line is what a reader looks for.
            yield name, Element(value, path)

    def mapping(self, allowed: Collection[str]) -> dict[str, "Element"]:
        """The values by key; a key beyond the allowed ones is an error."""
        found = dict(self.entries())
        for name, element in found.items():
            if name not in allowed:
                element.fail(f"unknown key; known here: {', '.join(sorted(allowed))}")
        return found

    def items(self) -> list["Element"]:
        """The elements of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.fail(f"is {_kind(self.node)}; write a list")
        return [Element(node, f"{self.path}[{i}]") for i, node in enumerate(self.node.value)]

    def text(self) -> str:
        """A word, as written."""
        if not isinstance(self.node, yaml.ScalarNode) or self.empty:
            self.fail(f"is {_kind(self.node)}; write a text")
        return str(self.node.value)

    def number(self, low: int, high: int) -> int:
        """A whole number between two limits."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _INT:
            self.fail(f"is {_kind(self.node)}; write a whole number {low}-{high}")
        try:
            value = int(self.node.value.replace("_", ""), 0)
        except ValueError:
            self.fail(f"is {self.node.value!r}; write a whole number {low}-{high}")
        if not low <= value <= high:
            self.fail(f"is {value}; write a whole number {low}-{high}")
        return value

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _BOOL:
            self.fail(f"is {_kind(self.node)}; write true or false")
        return self.node.value.lower() in _TRUE

    def choice(self, allowed: Collection[str]) -> str:
        """One of some words."""
        written = self.text()
        if written not in allowed:
            self.fail(f"is {written!r}; write one of {', '.join(sorted(allowed))}")
        return written


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "empty" if node.tag == _NULL else repr(node.value)


def check_size(text: str) -> None:
    """Raise `TopologyError` for a document that is too large for a ConfigMap."""
    if (size := len(text.encode())) > MAX_BYTES:
        raise TopologyError(
            "", 1, f"{size} bytes are more than {MAX_BYTES}; give nodes a ConfigMap topology-<node> of their own"
        )


def without_mark(text: str) -> tuple[str, str]:
    """The byte order mark with which some editors begin a file, if there is one, and the rest of the document.

    The places of what is read count from behind it.
    """
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    return mark, text.removeprefix(BYTE_ORDER_MARK)


def compose(text: str) -> Element:
    """The root of a document.

    Raises:
        TopologyError: no YAML, nothing in it, more than one document, or too large for a ConfigMap.
    """
    check_size(text)
    try:
        root = yaml.compose(text, Loader=ShallowLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise TopologyError("", int(mark.line) + 1 if mark else 1, f"no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise TopologyError("", 1, f"no YAML: {error}") from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _NULL):
        raise TopologyError("", 1, "the document is empty; write nodes:, nodePools: or gpus:")
    return Element(root, "")
