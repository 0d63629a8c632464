"""Reads snapshots from files: YAML or JSON, several documents a file. All becomes JSON first, as in kubectl.

Decided in docs/decisions.md: "YAML becomes JSON first".
"""

import json
import math
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path

import msgspec
import yaml
from gpuyard.engine.kube.decode import Harvest
from gpuyard.engine.kube.faults import Fault

STANDARD_INPUT = "-"

_SEPARATOR = re.compile(rb"^---.*$", re.MULTILINE)
_SNIFFED = 1000
"""Bytes of a file that may be white space before it is taken for YAML."""

_FLOW_STYLE = 1 << 20
"""Bytes up to which broken JSON is tried as YAML."""

_STREAM = json.JSONDecoder()
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_DEEPEST = 200
"""Levels of a YAML document; no object has nearly as many, and the C loader would overrun its stack."""

_MOST_VALUES = 1_000_000
"""What the aliases of one YAML document may expand to."""


class _Loader(yaml.CSafeLoader):
    """YAML as JSON knows it: times stay text, a number is what looks like one in JSON."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as in the base

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self._level = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Refuse to go down too far; the loader asks at each level."""
        super().descend_resolver(current_node, current_index)
        self._level += 1
        if self._level > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Come up a level."""
        super().ascend_resolver()
        self._level -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:  # noqa: FBT001, FBT002 - as in the base
        """Refuse a key that stands twice: two documents without `---` between them would swallow each other."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} stands twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


for _tag, _form, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?(?:0|[1-9]\d*)", list("-0123456789")),
    ("float", r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?", list("-0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_form})$"), _first)


def sources(path: str) -> Iterable[Path]:
    """The files that a path stands for: itself, or the YAML and JSON files of a folder; raises `OSError`."""
    root = Path(path)
    if not root.is_dir():
        return [root]
    return sorted(p for p in root.iterdir() if p.suffix in _SUFFIXES and p.is_file())


def gather(paths: Iterable[str], namespace: str = "") -> Harvest:
    """All objects of these files and folders, `-` being standard input; `namespace` is that of what names none."""
    harvest = Harvest(namespace)
    for path in paths:
        try:
            files = [] if path == STANDARD_INPUT else sources(path)
            if path == STANDARD_INPUT:
                take(harvest, "standard input", sys.stdin.buffer.read())
            for file in files:
                take(harvest, str(file), file.read_bytes())
        except OSError as error:
            harvest.faults.append(Fault(path, "", "", (error.strerror or str(error)).lower()))
    return harvest


def take(harvest: Harvest, source: str, text: bytes) -> None:
    """Take the objects of one file's text."""
    try:
        if not text.isascii():
            text.decode()
        if text[:_SNIFFED].lstrip()[:1] in {b"{", b"["}:
            _take_json(harvest, source, text)
        else:
            _take_yaml(harvest, source, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        harvest.faults.append(Fault(source, "", where, f"not YAML: {error.problem or error.context}"))
    except RecursionError:
        harvest.faults.append(Fault(source, "", "", "nested too deeply"))
    except (ValueError, TypeError, yaml.YAMLError, msgspec.DecodeError) as error:
        harvest.faults.append(Fault(source, "", "", str(error).partition("\n")[0]))


def _take_json(harvest: Harvest, source: str, text: bytes) -> None:
    try:
        harvest.take(source, text)
    except msgspec.DecodeError as error:
        if "trailing" in str(error):
            _take_stream(harvest, source, text)
        elif len(text) > _FLOW_STYLE or not _took_yaml(harvest, source, text):
            place = "" if "byte" in str(error) else f" (byte {len(text)})"
            raise ValueError(f"not JSON: {error}{place}") from None


def _take_stream(harvest: Harvest, source: str, text: bytes) -> None:
    for part in _SEPARATOR.split(text):
        for document in _json_stream(part.decode()):
            harvest.take(source, document)


def _took_yaml(harvest: Harvest, source: str, text: bytes) -> bool:
    """Take what looked like JSON as YAML in flow style; False if it is not that either."""
    try:
        _take_yaml(harvest, source, text)
    except yaml.YAMLError:
        return False
    return True


def _take_yaml(harvest: Harvest, source: str, text: bytes) -> None:
    for document in loaded(text):
        if b"*" in text and _weight(document, {}) > _MOST_VALUES:
            raise ValueError(f"aliases expand to more than {_MOST_VALUES} values")
        harvest.take(source, json.dumps(document).encode())


def loaded(text: bytes) -> Iterator[object]:
    """The documents of a YAML file; raises `ValueError` or `yaml.YAMLError`."""
    try:
        yield from yaml.load_all(text, _Loader)
    except (AttributeError, LookupError):
        # The library lets these through.
        raise ValueError(
            "not YAML: a value is not what its tag says, such as `!!bool soon`; leave the tag out"
        ) from None


def _json_stream(text: str) -> Iterator[bytes]:
    """Documents that stand one behind the other, as `kubectl get -o json` prints them in a loop."""
    at, end = 0, len(text.rstrip())
    while at < end:
        at += len(text[at:]) - len(text[at:].lstrip())
        start, (_, at) = at, _STREAM.raw_decode(text, at)
        yield text[start:at].encode()


def _weight(value: object, known: dict[int, int]) -> int:
    """How many values a document has once its aliases are written out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = 1
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_weight(part, known) for part in parts)
    return known[id(value)]


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    number = float(loader.construct_scalar(node))
    if not math.isfinite(number):
        raise ValueError(f"line {node.start_mark.line + 1}: {node.value} is too large a number")
    return number


_Loader.add_constructor("tag:yaml.org,2002:float", _float)
