"""Pods that ask for parts of GPUs by annotation, and which GPUs they share.

A pod goes onto the GPUs of its groups; a group's first pod, and a pod without one, onto the lowest index with room.
"""

from collections.abc import Collection, Mapping
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


def choose(node: Node, pod: Pod, wanted: Part, groups: dict[str, str], room: dict[str, float]) -> list[str]:
    """The GPUs of a pod, which are taken from the room; none when there are not enough."""
    share = wanted.room(node.hardware.memory)
    chosen = list(dict.fromkeys(groups[group] for group in pod.groups if group in groups))
    for _ in range(wanted.devices - len(chosen)):
        device = _named(node, pod, chosen) or _with_room(room, share, chosen)
        if device is None:
            return []
        chosen.append(device)
    fresh = [device for device in chosen if device not in groups.values()]
    groups |= dict(zip((group for group in pod.groups if group not in groups), fresh, strict=False))
    for device in chosen:
        room[device] = room.get(device, 1.0) - share
    return chosen


def _named(node: Node, pod: Pod, chosen: Collection[str]) -> str | None:
    """The GPU that an annotation names by its index or id."""
    named = pod.annotation(INDEX)
    if chosen:
        return None
    return next((gpu.id for gpu in node.gpus if named in {str(gpu.index), gpu.id}), None)


def _with_room(room: Mapping[str, float], share: float, chosen: Collection[str]) -> str | None:
    fitting = (device for device, left in room.items() if left + _ROUNDING >= share and device not in chosen)
    return next(fitting, None)
