"""What every object carries: name, namespace, labels, age; and how a value is read or complained about."""

import hashlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import NO_LABELS, Labels

A = TypeVar("A")

LONGEST_NAME = 253
"""Kubernetes has no longer names."""

NO_META = objects.Meta()
NO_NOTES = objects.Notes()

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATH = re.compile(r"(?P<why>.*?)(?: - at (?P<part>`key` in )?`\$\.?(?P<path>.*)`)?", re.DOTALL)


def meta_of(seen: objects.Object) -> objects.Meta:
    """The object's metadata, never None."""
    return seen.metadata or NO_META


def notes_of(seen: objects.Object) -> objects.Notes:
    """The object's annotations, never None."""
    return (seen.metadata or NO_META).annotations or NO_NOTES


def labels_of(seen: objects.Object) -> Labels:
    """The object's labels, never None."""
    return (seen.metadata or NO_META).labels or NO_LABELS


def name_of(seen: objects.Object) -> str:
    """The object's name; empty when it has none."""
    return (seen.metadata or NO_META).name or ""


def bounded(name: str) -> str:
    """A name or UID of another object, as somebody wrote it; one that no object can have is replaced by its digest."""
    return name if len(name) <= LONGEST_NAME else hashlib.sha256(name.encode(errors="replace")).hexdigest()


def namespace_of(seen: objects.Object) -> str:
    """The namespace of a namespaced object."""
    return (seen.metadata or NO_META).namespace or "default"


def key_of(seen: objects.Object) -> str:
    """`namespace/name` of a namespaced object."""
    meta = seen.metadata or NO_META
    return f"{meta.namespace or 'default'}/{meta.name or ''}"


def created(seen: objects.Object, now: int, complain: Complain) -> int:
    """When the object was made; one that does not say is being submitted `now`."""
    return read(moment, meta_of(seen).creation_timestamp, "metadata.creationTimestamp", complain, now)


def read(parse: Callable[[Any], A], value: object, field: str, complain: Complain, default: A) -> A:
    """Parse a value if there is one; complain of the field and give the default if that fails."""
    if value is None:
        return default
    try:
        return parse(value)
    except ValueError as why:
        complain(field, str(why))
        return default


def is_name(text: str) -> bool:
    """Whether Kubernetes would accept this as an object's name."""
    return _NAME.fullmatch(text) is not None


def explained(error: msgspec.DecodeError, prefix: str = "") -> tuple[str, str]:
    """Field and cause of what the decoder said."""
    found = _PATH.fullmatch(str(error))
    why, part, path = found.group("why", "part", "path") if found else (str(error), None, None)
    field = ".".join(x for x in (prefix, path) if x).replace(".[", "[")
    return field, ("a key: " if part else "") + why[:1].lower() + why[1:].replace("`", "")
