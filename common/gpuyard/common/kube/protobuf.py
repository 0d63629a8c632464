"""Watches in protobuf: the API server writes these bytes once for all who watch, kube-scheduler among them.

Import it only where it is used: Python's protobuf takes memory of its own.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
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
    """A message, with texts as they are in JSON; raises `msgspec.DecodeError`."""
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        try:
            return kind.FromString(_mended(kind.DESCRIPTOR, raw))  # type: ignore[arg-type] # the same thing in C
        except DecodeError:
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


# --- what is no text --------------------------------------------------------------------------------------------------

_NUMBER, _SIZED = 0, 2
_WIDTHS = {1: 8, 5: 4}
_LONGEST = 70
"""Bits of a number, seven of them in each byte."""

_NO_TEXT = re.compile("[\udc80-\udcff]")
"""What Python makes of each byte that is part of no text."""


def _mended(kind: Descriptor, raw: bytes) -> bytes:
    """A message with U+FFFD for each byte that is part of no text, as JSON has it.

    Whoever writes in protobuf may write such bytes wherever the API server does not look. It passes them on, and they
    must not spoil the watch; Python refuses the whole message.
    """
    mended, at = bytearray(), 0
    while at < len(raw):
        tag, end = _number(raw, at)
        if tag & 7 == _SIZED:
            size, begin = _number(raw, end)
            inner = _mended_field(kind.fields_by_number.get(tag >> 3), raw[begin : begin + size])
            mended += raw[at:end] + _written(len(inner)) + inner
            at = begin + size
        else:
            end = _number(raw, end)[1] if tag & 7 == _NUMBER else end + _WIDTHS.get(tag & 7, len(raw))
            mended += raw[at:end]
            at = end
    if at > len(raw):
        raise DecodeError("it ends too early")
    return bytes(mended)


def _mended_field(field: FieldDescriptor | None, raw: bytes) -> bytes:
    if field is None:
        return raw
    if field.type == FieldDescriptor.TYPE_STRING:
        return _NO_TEXT.sub("\ufffd", raw.decode(errors="surrogateescape")).encode()
    return raw if field.message_type is None else _mended(field.message_type, raw)


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, and where it ends."""
    number = 0
    for shift, byte in zip(range(0, _LONGEST, 7), raw[at : at + _LONGEST], strict=False):
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that there is more
            return number, at
    raise DecodeError("a number without an end")


def _written(number: int) -> bytes:
    """A number of as many bytes as it needs."""
    low = number & 0x7F
    return bytes([low]) if low == number else bytes([low | 0x80]) + _written(number >> 7)


# --- the form ---------------------------------------------------------------------------------------------------------


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
