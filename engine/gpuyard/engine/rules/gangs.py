"""What starts and what is evicted together: the chunks of a workload.

    starting    below its minimum: all that is missing, together; above: one more pod
    evicting    a surplus pod; then a surplus sub-group; then all the rest

A sub-group counts as *satisfied* with its minimum of active pods, or of satisfied parts.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum

from gpuyard.engine.model import Gang, Pod, Workload

Pods = list[Pod]


class Stand(IntEnum):
    """Where a workload stands with its minimum; the order is the one in which workloads of a queue go first."""

    BELOW = 0
    EXACT = 1
    ABOVE = 2


class Team:
    """A workload and its pods during a cycle. `active` counts pods per sub-group, kept by the scratch."""

    __slots__ = ("active", "pods", "workload")

    def __init__(self, workload: Workload, pods: Sequence[Pod], active: dict[str, int]) -> None:
        self.workload = workload
        self.pods = pods
        self.active = active

    def has(self, gang: Gang) -> int:
        """The active pods of a leaf, the satisfied parts of another sub-group."""
        if gang.parts:
            return sum(self.satisfied(part) for part in gang.parts)
        return self.active.get(gang.name, 0)

    def satisfied(self, gang: Gang) -> bool:
        """Whether a sub-group has its minimum."""
        return self.has(gang) >= gang.minimum

    @property
    def stand(self) -> Stand:
        """Whether it is below, exactly at or above its minimum."""
        gang = self.workload.gang
        if not gang.parts:
            have = self.active.get(gang.name, 0)
            return Stand((have >= gang.minimum) + (have > gang.minimum))
        if not self.satisfied(gang):
            return Stand.BELOW
        return Stand.ABOVE if _has_surplus(self, gang) else Stand.EXACT


def starting_chunk(team: Team, waits: Callable[[Pod], bool]) -> Pods:
    """The pods that start next, all or none, out of those that wait; empty when too few exist."""
    gang = team.workload.gang
    if len(team.pods) == 1 and not gang.parts:
        pod = team.pods[0]
        return [pod] if waits(pod) and gang.minimum <= 1 else []
    by_leaf: dict[str, Pods] = {}
    for pod in team.pods:
        if waits(pod):
            by_leaf.setdefault(pod.group, []).append(pod)
    return _missing(gang, team, by_leaf)


def _missing(gang: Gang, team: Team, waiting: dict[str, Pods]) -> Pods:
    have = team.has(gang)
    if not gang.parts:
        pods = waiting.get(gang.name, [])
        wanted = max(1, gang.minimum - have)
        return pods[:wanted] if len(pods) >= wanted else []
    parts = sorted(gang.parts, key=lambda part: _part_order(team, part))
    if have >= gang.minimum:
        return next(filter(None, (_missing(part, team, waiting) for part in parts)), [])
    chunks = [chunk for part in parts if not team.satisfied(part) and (chunk := _missing(part, team, waiting))]
    wanted = gang.minimum - have
    return [pod for chunk in chunks[:wanted] for pod in chunk] if len(chunks) >= wanted else []


def _part_order(team: Team, part: Gang) -> tuple[bool, int, str]:
    have = team.has(part)
    satisfied = have >= part.minimum
    return (satisfied, have * 1_000_000 // max(1, part.minimum) if satisfied else 0, part.name)


def evicting_chunk(team: Team, active: Callable[[Pod], bool]) -> Pods:
    """The pods that would be evicted next, last to start first; empty when none is active."""
    gang = team.workload.gang
    by_leaf: dict[str, Pods] = {}
    for pod in reversed(team.pods):
        if active(pod):
            by_leaf.setdefault(pod.group, []).append(pod)
    return _surplus(gang, team, by_leaf) or [pod for leaf in gang.leaves for pod in by_leaf.get(leaf.name, [])]


def _surplus(gang: Gang, team: Team, running: dict[str, Pods]) -> Pods:
    have = team.has(gang)
    if not gang.parts:
        return running.get(gang.name, [])[:1] if have > gang.minimum else []
    if have == 0:
        return []
    parts = sorted(gang.parts, key=lambda part: _part_order(team, part), reverse=True)
    found = next(filter(None, (_surplus(part, team, running) for part in parts)), [])
    if found or have <= gang.minimum:
        return found
    wholes = ([pod for leaf in part.leaves for pod in running.get(leaf.name, [])] for part in parts)
    return next(filter(None, wholes), [])


def _has_surplus(team: Team, gang: Gang) -> bool:
    return team.has(gang) > gang.minimum or any(_has_surplus(team, part) for part in gang.parts)


def shortfall(team: Team, exists: Callable[[Pod], bool]) -> tuple[int, int, str] | None:
    """Of a gang that is not whole: pods that exist, pods needed, the sub-group that is short; None: it is whole."""
    counts: dict[str, int] = {}
    for pod in team.pods:
        if exists(pod):
            counts[pod.group] = counts.get(pod.group, 0) + 1
    gang = team.workload.gang
    if gang.stands(counts):
        return None
    short = next((leaf for leaf in gang.leaves if counts.get(leaf.name, 0) < leaf.minimum), gang)
    return counts.get(short.name, 0), short.minimum, short.name
