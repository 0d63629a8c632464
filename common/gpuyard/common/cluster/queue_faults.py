"""Queues that cannot be used as they are written: why not, and what holds instead, also after a restart.

What holds is written into the Queue's status, where people see it and whoever starts later finds it:

    status.conditions: {type: Accepted, status: "False", reason: QueueInvalid,
                        message: 'limit: … is negative; in force: {"resources": …}'}

Decided in docs/decisions.md: "What of a Queue held before it was spoilt stands in its status".
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

import msgspec
from gpuyard.common.cluster.objects import Queue
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import ObjectReference
from gpuyard.common.kube.resources import QUEUES
from gpuyard.engine.explain.sentences import LONGEST_TEXT, shortened
from gpuyard.engine.kube import objects

INVALID = "QueueInvalid"
"""The reason of Events and of the condition."""

LAST_GOOD = "its last good state stays in force"
NO_GOOD = "until it is put right it does not exist for gpuyard"
ACCEPTED = "Accepted"
IN_FORCE = "; in force: "
INTERVAL = 1.0

LONGEST_OBJECT_NAME = 253
"""Kubernetes has no longer names of objects."""

_SPEC = msgspec.json.Decoder(objects.QueueSpec)


class QueueFault(NamedTuple):
    """A Queue that is not used as it is written."""

    name: str
    uid: str
    why: str
    good: objects.QueueSpec | None
    """What holds instead; None: the queue does not exist for us."""

    @property
    def sentence(self) -> str:
        """What people are told."""
        return f"{self._cause}; {LAST_GOOD if self.good else NO_GOOD}"

    @property
    def condition(self) -> Json:
        """The condition that says so, in the Queue's status."""
        good = msgspec.json.encode(_lean(msgspec.to_builtins(self.good))).decode() if self.good else "nothing"
        return {"type": ACCEPTED, "status": "False", "reason": INVALID, "message": f"{self._cause}{IN_FORCE}{good}"}

    @property
    def _cause(self) -> str:
        """What is wrong, short enough for a condition: it quotes what a user wrote."""
        return shortened(self.why, LONGEST_TEXT)


def last_good(seen: Queue) -> objects.QueueSpec | None:
    """What the status of a Queue says that holds instead of its spec; None: nothing is said."""
    for condition in (seen.status.conditions if seen.status else None) or ():
        if condition.type == ACCEPTED and condition.status == "False":
            return _in_force(condition.message or "")
    return None


def _in_force(message: str) -> objects.QueueSpec | None:
    """What a message says that holds. Values of users, before it and in it, may have the same words in them."""
    parts = message.split(IN_FORCE)
    for at in range(1, len(parts)):
        with contextlib.suppress(msgspec.DecodeError):
            return _SPEC.decode(IN_FORCE.join(parts[at:]))
    return None


def _lean(value: object) -> object:
    """The same without what is not set; texts of users are no longer than the name of an object can be."""
    if isinstance(value, str):
        return shortened(value, LONGEST_OBJECT_NAME)
    if not isinstance(value, dict):
        return value
    return {key: _lean(part) for key, part in value.items() if part is not None}


async def tell(faults: Callable[[], Mapping[str, QueueFault]], recorder: Recorder) -> NoReturn:
    """Tell of each fault once, as an Event on its Queue, until cancelled."""
    told: dict[str, QueueFault] = {}
    while True:
        known = faults()
        for name, fault in known.items():
            if told.get(name) != fault:
                about = ObjectReference(QUEUES.api_version, QUEUES.kind, name, "", fault.uid)
                recorder.emit(about, INVALID, fault.sentence, action="Read", kind="Warning")
        told = dict(known)
        await asyncio.sleep(INTERVAL)
