"""The forms in which the API server writes a watch: JSON for all kinds, protobuf (`kube.protobuf`) for its own.

A form says how the stream is cut into events and how an event, or a refusal, is opened. How the objects themselves are
read in it, their readers know.
"""

from typing import NamedTuple, Protocol

import msgspec
from gpuyard.common.kube.lines import LineCutter

Unread = bytes | msgspec.Raw
"""An object as a form has it."""


class Event(NamedTuple):
    """One event of a watch; the object of an `ERROR` is JSON in any form."""

    type: str
    object: Unread


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)


class Cutter(Protocol):
    """Cuts a stream, however the network has cut it."""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """The events that this chunk completes, unopened."""


class Form(Protocol):
    """One way to write a watch."""

    @property
    def media(self) -> str:
        """What it is called in `Accept` and `Content-Type`."""

    def cutter(self) -> Cutter:
        """What cuts one stream."""

    def event(self, frame: bytes, /) -> Event:
        """Open an event; raises `msgspec.DecodeError`."""

    def status(self, body: bytes, /) -> bytes:
        """The `Status` of a refusal, as JSON; what is none as it came."""


class _Json:
    """A line for each event."""

    media = "application/json"

    def cutter(self) -> LineCutter:
        return LineCutter()

    def event(self, frame: bytes, /) -> Event:
        line = _LINE.decode(frame)
        return Event(line.type, line.object)

    def status(self, body: bytes, /) -> bytes:
        return body


JSON: Form = _Json()
