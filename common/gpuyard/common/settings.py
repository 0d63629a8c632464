"""Settings files: a versioned kind, read strictly, with file, line and path in every error.

apiVersion: gpuyard.io/v1alpha1
kind: ExtenderConfig            the name of the class that describes it
filter: {maxNodes: 32}

A setting that was removed (`Strict.removed`) is accepted for a while with a warning: an upgrade does not refuse a file
that was good.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
import yaml
from gpuyard.common.shallow import ShallowLoader
from gpuyard.engine.model.settings import Removed, duration
from msgspec import inspect

API_VERSION = "gpuyard.io/v1alpha1"


class SettingsError(Exception):
    """Settings that cannot be used; the text says where, what and what would do."""


class Seconds(int):
    """Whole seconds, written as `90s`, `5m`, `1h30m` or, where that means something, `-1s`."""


class Span(Seconds):
    """At least one second."""


class _Loader(ShallowLoader):
    """Reads dates as the texts that they are, as Kubernetes does: no setting is one."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in ShallowLoader.yaml_implicit_resolvers.items()
}


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of a kind and of its sections: unknown fields are refused, names are camelCase outside.

    Write `class ExtenderConfig(Strict, frozen=True)`, so that type checkers see what msgspec inherits.
    """

    removed: ClassVar[Mapping[str, Removed]] = {}
    """Settings of the kind that there are no more, by their dotted keys."""


K = TypeVar("K", bound=Strict)


def ignore(_warning: str) -> None:
    """Drop a warning."""


def parse(text: bytes, kind: type[K], origin: str, warn: Callable[[str], None] = ignore) -> K:
    """The settings in `text`; raises `SettingsError`. `warn` is told of each removed one that is still given."""
    root, content = _read_yaml(text, origin)
    for node in _duplicates(root):
        raise SettingsError(f"{_at(origin, node)}: {node.value!r} is given twice; keep one")
    if not isinstance(content, dict):
        raise SettingsError(f"{_at(origin, root)}: expected `apiVersion: {API_VERSION}` and `kind: {kind.__name__}`")
    for field, expected in (("apiVersion", API_VERSION), ("kind", kind.__name__)):
        if (told := content.pop(field, None)) != expected:
            raise SettingsError(f"{_at(origin, root)}: {field} is {told!r}; this reads {expected!r}")
    for key, removed in kind.removed.items():
        if _take_out(content, key.split(".")):
            warn(f"{_at(origin, _found(root, key.split('.')))}: {key}: {removed}")
    try:
        return msgspec.convert(content, kind, dec_hook=_read_special)
    except msgspec.ValidationError as error:
        raise SettingsError(_explain(str(error), kind, root, origin)) from None


def load(path: Path, kind: type[K], warn: Callable[[str], None] = ignore) -> K:
    """The settings in a file; raises `SettingsError`. `warn` is told of each removed one that is still given."""
    try:
        return parse(path.read_bytes(), kind, str(path), warn)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; name the file with --config") from None


def check(path: Path, kind: type[Strict]) -> int:
    """What `--check-config` does: say whether the file can be used; returns the exit code."""
    try:
        load(path, kind, lambda warning: print(f"warning: {warning}", file=sys.stderr))  # noqa: T201
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    print(f"{path}: a valid {kind.__name__}")  # noqa: T201
    return 0


def _take_out(content: dict[str, object], path: Sequence[str]) -> bool:
    """Remove a setting, and sections in which nothing else is given; whether it was given."""
    name, *rest = path
    inner = content.get(name)
    if rest and not (isinstance(inner, dict) and _take_out(inner, rest)):
        return False
    if name not in content:
        return False
    if not rest or not inner:
        del content[name]
    return True


def _read_yaml(text: bytes, origin: str) -> tuple[yaml.Node, object]:
    """The document twice: as nodes that know their lines, and as plain values."""
    try:
        root = yaml.compose(text, _Loader) or yaml.MappingNode("tag:yaml.org,2002:map", [])
        return root, yaml.load(text, _Loader) or {}  # noqa: S506 - it makes no more than the safe one
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{origin}{line}: not YAML: {error.problem}") from None
    except RecursionError:
        raise SettingsError(f"{origin}: nested too deep") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{origin}: not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, AttributeError, LookupError) as error:
        # A number of too many digits, a value that its `!!tag` does not allow. The library lets such errors through.
        raise SettingsError(f"{origin}: not YAML: {error}") from None


def _duplicates(root: yaml.Node) -> Iterator[yaml.Node]:
    """Keys that an earlier key of the same mapping already has; YAML libraries take the last one silently."""
    pending, looked_at = [root], set[int]()
    while pending:
        node = pending.pop()
        # An alias is the node that it names: it may stand in many places, also within itself.
        if id(node) in looked_at:
            continue
        looked_at.add(id(node))
        seen = set()
        for key, value in _children(node):
            if isinstance(key, yaml.Node):
                if key.value in seen:
                    yield key
                seen.add(key.value)
            pending.append(value)


def _children(node: yaml.Node) -> Iterator[tuple[yaml.Node | int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def _read_special(wanted: type, value: object) -> object:
    if issubclass(wanted, Seconds) and isinstance(value, str):
        seconds = wanted(duration(value))
        if wanted is Span and seconds < 1:
            raise ValueError(f"Expected at least 1s, got {value!r}")
        return seconds
    raise ValueError(f"Expected a duration such as `60s` or `5m`, got {value!r}")


def _explain(message: str, kind: type[Strict], root: yaml.Node, origin: str) -> str:
    """The message of a failed conversion with the line that it speaks of."""
    why, _, path = message.partition(" - at `$")
    steps = re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", path)
    names = [name or int(index) for name, index in steps]
    if unknown := re.search(r"unknown field `(.+)`", why):
        names.append(unknown[1])
    if bad := re.fullmatch(r"Invalid enum value (.+)", why):
        why = f"{bad[1]} is none of {', '.join(_allowed(kind, names))}"
    return f"{_at(origin, _found(root, names))}: {'.'.join(map(str, names)) or 'the file'}: {why}"


def _allowed(kind: type[Strict], names: Iterable[str | int]) -> Iterator[str]:
    """The values that the field of this path takes."""
    known = inspect.type_info(kind)
    for name in names:
        if isinstance(known, inspect.StructType):
            known = next(field.type for field in known.fields if field.encode_name == name)
    for option in known.types if isinstance(known, inspect.UnionType) else (known,):
        if isinstance(option, inspect.LiteralType):
            yield from map(str, option.values)


def _found(root: yaml.Node, names: Iterable[str | int]) -> yaml.Node:
    """The node of this path, as far as there is one."""
    node = root
    for name in names:
        node = _step(node, name) or node
    return node


def _step(node: yaml.Node, name: str | int) -> yaml.Node | None:
    for key, value in _children(node):
        if name == (key.value if isinstance(key, yaml.Node) else key):
            return value
    return None


def _at(origin: str, node: yaml.Node) -> str:
    return f"{origin}:{node.start_mark.line + 1}" if node.start_mark else origin
