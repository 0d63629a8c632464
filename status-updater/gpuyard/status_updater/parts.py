"""Pods that ask for parts of GPUs by annotation, and which GPUs they share.

A pod goes onto the GPUs of its groups; a group's first pod, and a pod without one, onto the lowest index with room.
Who has been put somewhere stays there. A GPU that the pod's annotation names is the only one for it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuyard.common.topology.model import Node
from gpuyard.status_updater.pods import INDEX, PARTS, Pod

FRACTION, MEMORY, DEVICES = PARTS
_MOST_DEVICES = 256
_ROUNDING = 1e-9


class Part(NamedTuple):
    """Of how many GPUs a pod takes how much: MiB of each, or a fraction of its memory."""

    devices: int = 1
    fraction: float = 1.0
    memory: int = 0

    def of(self, whole: int) -> int:
        """MiB of a GPU that has so many."""
        return min(self.memory, whole) if self.memory else int(whole * self.fraction)

    def room(self, whole: int) -> float:
        """The fraction of a GPU that has so many MiB."""
        return self.of(whole) / whole if self.memory and whole else self.fraction

    def __str__(self) -> str:
        each = f"{self.memory} MiB" if self.memory else f"{self.fraction:g}"
        return f"{each} of {'a GPU' if self.devices == 1 else f'each of {self.devices} GPUs'}"


def part(pod: Pod) -> tuple[Part, str]:
    """What a pod asks for, and what is wrong with it, if anything: then it counts as one whole GPU."""
    fraction, memory, devices = pod.annotation(FRACTION), pod.annotation(MEMORY), pod.annotation(DEVICES)
    if fraction and memory:
        return Part(), f"annotations {FRACTION} and {MEMORY} exclude each other; keep one"
    if devices and not (fraction or memory):
        return Part(), f"annotation {DEVICES} needs {FRACTION} or {MEMORY} beside it"
    if fraction and not 0 < (share := _number(fraction)) <= 1:
        return Part(), f"annotation {FRACTION}: is {fraction!r}; write a number above 0 and at most 1"
    if memory and not _whole(memory):
        return Part(), f"annotation {MEMORY}: is {memory!r}; write whole MiB"
    if devices and not 0 < _whole(devices) <= _MOST_DEVICES:
        return Part(), f"annotation {DEVICES}: is {devices!r}; write a whole number 1-{_MOST_DEVICES}"
    return Part(_whole(devices) or 1, share if fraction else 1.0, _whole(memory)), ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - more digits than any GPU has MiB


class Space(NamedTuple):
    """A node while pods are put onto its GPUs."""

    node: Node
    groups: dict[str, str]
    """The GPU of each group."""
    room: dict[str, float]
    """What is left of each GPU that may be given in parts."""


def keep(space: Space, pod: Pod, wanted: Part, known: Sequence[str]) -> list[str]:
    """The GPUs that a pod had before, where it may stay; none when it has to be chosen anew."""
    told = {space.groups[group] for group in pod.groups if group in space.groups}
    count = max(wanted.devices, len(told))
    if not told and (named := named_gpu(space.node, pod)):
        told = {named}
    stays = len(known) == count and told <= set(known) <= space.room.keys()
    return _put(space, pod, wanted, list(known)) if stays else []


def choose(space: Space, pod: Pod, wanted: Part) -> list[str]:
    """The GPUs of a pod, which are taken from the room; none when there are not enough."""
    chosen = list(dict.fromkeys(space.groups[group] for group in pod.groups if group in space.groups))
    named = "" if chosen else named_gpu(space.node, pod)
    for _ in range(wanted.devices - len(chosen)):
        among = [named] if named and not chosen else space.room
        device = _with_room(space, wanted, [each for each in among if each not in chosen])
        if device is None:
            return []
        chosen.append(device)
    return _put(space, pod, wanted, chosen)


def lacking(space: Space, pod: Pod, wanted: Part) -> str:
    """Why nothing could be chosen for a pod."""
    node = space.node.name
    if wanted.devices == 1 and named_gpu(space.node, pod):
        return f"asks for {wanted}, GPU {pod.annotation(INDEX)} on {node}, which it names, has not so much room"
    return f"asks for {wanted}, no GPU on {node} has so much room; none is shown for it"


def _put(space: Space, pod: Pod, wanted: Part, devices: list[str]) -> list[str]:
    fresh = [device for device in devices if device not in space.groups.values()]
    new = [group for group in pod.groups if group not in space.groups]
    space.groups.update(zip(new, fresh, strict=False))
    share = wanted.room(space.node.hardware.memory)
    space.room.update({device: space.room[device] - share for device in devices if device in space.room})
    return devices


def named_gpu(node: Node, pod: Pod) -> str:
    """The GPU that an annotation names by its index or id; empty when it names none."""
    named = pod.annotation(INDEX)
    return next((gpu.id for gpu in node.gpus if named in {str(gpu.index), gpu.id}), "")


def _with_room(space: Space, wanted: Part, devices: Iterable[str]) -> str | None:
    share = wanted.room(space.node.hardware.memory) - _ROUNDING
    return next((device for device in devices if space.room.get(device, -1.0) >= share), None)
