"""Watches in protobuf: the API server writes these bytes once for all who watch, kube-scheduler among them.

Import it only where it is used: Python's protobuf takes memory of its own.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message
from gpuyard.common.kube.forms import Event, Form, Unread
from gpuyard.common.kube.frames import FrameCutter
from gpuyard.common.kube.watch_pb2 import Refusal, WatchEvent

M = TypeVar("M", bound=Message)

_MAGIC = b"k8s\0"
_ESCAPED = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"})


def unwrapped(kind: type[M], raw: Unread) -> M:
    """What is around each object, with the object in it; raises `msgspec.DecodeError`, as readers of JSON do."""
    whole = bytes(raw)
    if not whole.startswith(_MAGIC):
        raise msgspec.DecodeError(f"protobuf begins with {_MAGIC!r}, not with {whole[:4]!r}")
    return parsed(kind, whole[len(_MAGIC) :])


def parsed(kind: type[M], raw: bytes) -> M:
    """A message; raises `msgspec.DecodeError`."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise msgspec.DecodeError(f"no {kind.DESCRIPTOR.name} in protobuf: {error}") from None


def as_json(message: Message) -> bytes:
    """A message as the API server writes it in JSON, byte for byte, if the order there is that of the numbers."""
    return msgspec.json.encode(_plain(message)).decode().translate(_ESCAPED).encode()


def _plain(value: object) -> object:
    if isinstance(value, Message):
        return {field.json_name: _plain(inner) for field, inner in value.ListFields()}
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    return [_plain(inner) for inner in value]  # type: ignore[attr-defined] # what is left is repeated


class _Protobuf:
    """A frame for each event."""

    media = "application/vnd.kubernetes.protobuf"

    def cutter(self) -> FrameCutter:
        return FrameCutter()

    def event(self, frame: bytes, /) -> Event:
        seen = parsed(WatchEvent, frame)
        kind, raw = seen.type, seen.object.raw
        return Event(kind, as_json(unwrapped(Refusal, raw).status) if kind == "ERROR" else raw)

    def status(self, body: bytes, /) -> bytes:
        try:
            return as_json(unwrapped(Refusal, body).status)
        except msgspec.DecodeError:
            return body


PROTOBUF: Form = _Protobuf()
