"""Which workload a pod belongs to, and what a workload is: its queue, its rank, its gang.

A pod and a PodGroup each say a part of it, a `Claim`. The workload is made of the claims of its PodGroup and its pods:
of each part the first claim that says it. It is made anew whenever one of them changes.

Decided in docs/decisions.md: "A pod's priority 0 without a class is no class".
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.gangs import Owners, owned_gang
from gpuyard.engine.kube.gangs import gang as gang_of
from gpuyard.engine.kube.meta import (
    NO_META,
    NO_NOTES,
    bounded,
    created,
    key_of,
    labels_of,
    namespace_of,
    notes_of,
    read,
)
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import ALONE, NO_LABELS, Gang, Workload
from gpuyard.engine.model.settings import duration
from msgspec.structs import replace

A = TypeVar("A")

QUEUE = "kai.scheduler/queue"
RUNAI_QUEUE = "runai/queue"
"""The older label for the queue; `kai.scheduler/queue` wins."""

PREEMPTIBILITY = "kai.scheduler/preemptibility"
PRIORITY_CLASS = "priorityClassName"
"""A label on pods and PodGroups that names the priority class, before `spec`."""

SCHEDULERS = ("default-scheduler", "kai-scheduler")
"""The schedulers whose pods are ours to serve."""

Classes = Mapping[str, int]
"""The value of each priority class."""

CLASSES: Classes = {
    "train": 50,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Known without being given: the product's classes and Kubernetes' own."""

DEFAULT_PRIORITY = 50
PREEMPTIBLE_BELOW = 100

_NO_SPEC = objects.PodSpec()
_ANSWERS = {"preemptible": True, "non-preemptible": False}


class Claim(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a pod or a PodGroup says of its workload; None and "" where it says nothing."""

    queue: str = ""
    runai_queue: str = ""
    scheduler: str = ""
    priority_class: str = ""
    priority: int | None = None
    preemptible: bool | None = None
    preemption_delay: int | None = None
    staleness_grace: int | None = None
    display: str = ""

    @property
    def named_queue(self) -> str:
        """The queue that is named; empty when none is."""
        return self.queue or self.runai_queue


_SILENT = Claim()


def workload_key(
    seen: objects.Object, owners: Owners, pod_groups: Mapping[str, object], complain: Complain
) -> tuple[str, int]:
    """(key, minimum) of a pod's workload; the minimum counts where no PodGroup says otherwise.

    `pod_groups` are the PodGroups by key: a pod that belongs to none of them never gets the key of one.
    """
    meta = seen.metadata or NO_META
    notes = meta.annotations or NO_NOTES
    found = owned_gang(seen, owners, complain) if owners or notes.batch_minimum else None
    if group := notes.pod_group:
        return f"{namespace_of(seen)}/{bounded(group)}", found[1] if found else 1
    key, least = found or (key_of(seen), 1)
    return apart(key, pod_groups), least


def apart(key: str, pod_groups: Mapping[str, object]) -> str:
    """The key of a workload that is none of these PodGroups, whatever it is called."""
    return beside_group(key) if key in pod_groups else key


def beside_group(key: str) -> str:
    """The key of a workload that is none of a PodGroup's of the same name."""
    return f"{key}.alone"


def pod_claim(seen: objects.Pod, classes: Classes, complain: Complain) -> Claim:
    """What a pod says of its workload."""
    return ranked(own_claim(seen, complain), classes, complain)


def ranked(claim: Claim, classes: Classes, complain: Complain) -> Claim:
    """A pod's own claim with the priority that its class gives it."""
    if not claim.priority_class and claim.priority:
        return claim
    return replace(claim, priority=_priority(claim.priority_class, claim.priority, classes, complain))


def own_claim(seen: objects.Pod, complain: Complain) -> Claim:
    """What a pod says of its workload, before anybody asks what its priority class means."""
    spec, meta = seen.spec or _NO_SPEC, seen.metadata or NO_META
    labels = meta.labels or NO_LABELS
    said, complaints = _said(
        labels.get(QUEUE, ""),
        labels.get(RUNAI_QUEUE, ""),
        spec.scheduler_name or "",
        labels.get(PRIORITY_CLASS) or spec.priority_class_name or "",
        spec.priority,
        labels.get(PREEMPTIBILITY),
        meta.annotations or NO_NOTES,
    )
    for field, why in complaints:
        complain(field, why)
    return said


@lru_cache(maxsize=1 << 13)
def _said(  # noqa: PLR0913, PLR0917 - all that a claim follows from, hashable: many pods say the same
    queue: str,
    runai_queue: str,
    scheduler: str,
    named: str,
    priority: int | None,
    preemptible: str | None,
    notes: objects.Notes,
) -> tuple[Claim, tuple[tuple[str, str], ...]]:
    complaints: list[tuple[str, str]] = []

    def complain(field: str, why: str) -> None:
        complaints.append((field, why))

    said = Claim(
        queue=queue,
        runai_queue=runai_queue,
        scheduler="" if scheduler in SCHEDULERS else scheduler,
        priority_class=named,
        priority=priority,
        preemptible=_preemptible(preemptible, f"metadata.labels.{PREEMPTIBILITY}", complain),
        preemption_delay=_delay(None, notes, complain) if notes.preemption_delay else None,
        staleness_grace=_grace(None, notes, complain) if notes.staleness_grace else None,
        display=notes.display or "",
    )
    return said, tuple(complaints)


def group_claim(seen: objects.PodGroup, classes: Classes, complain: Complain) -> Claim:
    """What a PodGroup says of its workload: `spec` before labels and annotations; no class is the default one."""
    spec, labels, notes = seen.spec or objects.PodGroupSpec(), labels_of(seen), notes_of(seen)
    named = group_class(seen)
    answer, label = spec.preemptibility, labels.get(PREEMPTIBILITY)
    return Claim(
        queue=spec.queue or labels.get(QUEUE, ""),
        runai_queue=labels.get(RUNAI_QUEUE, ""),
        priority_class=named,
        priority=_priority(named, None, classes, complain) if named else DEFAULT_PRIORITY,
        preemptible=_preemptible(answer or label, "spec.preemptibility" if answer else PREEMPTIBILITY, complain),
        preemption_delay=_delay(spec.preemption_delay, notes, complain),
        staleness_grace=_grace(spec.staleness_grace_period, notes, complain),
        display=notes.display or "",
    )


def group_class(seen: objects.PodGroup) -> str:
    """The priority class that a PodGroup names; empty: none."""
    spec = seen.spec or objects.PodGroupSpec()
    return labels_of(seen).get(PRIORITY_CLASS) or spec.priority_class_name or ""


def queue_label(seen: objects.Namespace) -> str:
    """The queue whose pods may be in this namespace, where `namespaceMatch` is `label`; empty: none is named."""
    return labels_of(seen).get(QUEUE, "")


def two_queues(claims: Sequence[Claim]) -> tuple[str, str] | None:
    """(the queue that wins, another one that is named too), where pods and PodGroup do not agree."""
    wins = merged(claims).named_queue
    named = (name for c in claims for name in (c.queue, c.runai_queue))
    other = next((name for name in named if name and name != wins), None)
    return (wins, other) if other is not None else None


def merged(claims: Sequence[Claim]) -> Claim:
    """One claim of several: of each part the first that is said."""
    if len(claims) == 1:
        return claims[0]
    ranked = next((c for c in claims if c.priority is not None), _SILENT)
    return Claim(
        queue=_first(c.queue for c in claims) or "",
        runai_queue=_first(c.runai_queue for c in claims) or "",
        scheduler=_first(c.scheduler for c in claims) or "",
        priority_class=ranked.priority_class,
        priority=ranked.priority,
        preemptible=_first(c.preemptible for c in claims),
        preemption_delay=_first(c.preemption_delay for c in claims),
        staleness_grace=_first(c.staleness_grace for c in claims),
        display=_first(c.display for c in claims) or "",
    )


class Member(NamedTuple):
    """A pod among those of its workload."""

    claim: Claim
    holds: bool
    """Whether it has a node, or is on its way to one."""


def all_claims(group: Claim | None, members: Iterable[Member]) -> tuple[list[Claim], int]:
    """What a PodGroup, if any, and the pods say, in the order in which it counts; and how many of these claims stand.

    The PodGroup's comes first, then those of pods that have a node: they count in their queue already.
    """
    waiting: list[Claim] = []
    claims = [] if group is None else [group]
    for member in members:
        (claims if member.holds else waiting).append(member.claim)
    standing = len(claims) if len(claims) > (group is not None) else 0
    return claims + waiting, standing


def together(claims: Sequence[Claim], standing: int) -> Claim:
    """One claim of several, of which the first `standing` are the PodGroup's and those of pods that have a node.

    What decides which queue pays is theirs to say, even where they say nothing; 0: no pod has a node.
    """
    said = merged(claims)
    return fixed(said, merged(claims[:standing])) if 0 < standing < len(claims) else said


def fixed(claim: Claim, then: Claim) -> Claim:
    """A claim with what decides which queue pays and which pods may be evicted as it was then.

    A workload that named no queue then may name one later: it counted nowhere.
    """
    paying = then if then.named_queue else claim
    return replace(
        claim,
        queue=paying.queue,
        runai_queue=paying.runai_queue,
        priority_class=then.priority_class,
        priority=then.priority,
        preemptible=then.preemptible,
    )


class Birth(NamedTuple):
    """What a workload without a PodGroup has from its pods beside their claims."""

    created: int
    """When the first of its pods was made."""
    minimum: int = 1
    """The most that any of its pods, or the owner of one, says: so many start together."""


def workload(  # noqa: PLR0913 - what a workload is made of, by name
    key: str,
    group: objects.PodGroup | None,
    claims: Sequence[Claim],
    birth: Birth,
    *,
    default_queue: str,
    complain: Complain,
) -> Workload:
    """Make a workload of its PodGroup, if any, and of what that and its pods say, in the order of their names."""
    if group is None:
        gang = ALONE if birth.minimum == 1 else Gang(minimum=birth.minimum)
        return _workload(key, claims, gang, default_queue, birth.created, None)
    field = "metadata.annotations.kai.scheduler/stale-podgroup-timestamp"
    return _workload(
        key,
        claims,
        gang_of(group, complain),
        default_queue,
        created(group, birth.created, complain),
        read(moment, notes_of(group).stale_since, field, complain, None),
    )


def _workload(  # noqa: PLR0913, PLR0917 - what a workload is made of
    key: str, claims: Sequence[Claim], gang: Gang, default_queue: str, born: int, stale_since: int | None
) -> Workload:
    said = merged(claims)
    priority = DEFAULT_PRIORITY if said.priority is None else said.priority
    return Workload(
        key=key,
        queue=said.named_queue or default_queue or None,
        scheduler=said.scheduler,
        priority=priority,
        priority_class=said.priority_class,
        preemptible=priority < PREEMPTIBLE_BELOW if said.preemptible is None else said.preemptible,
        gang=gang,
        created=born,
        preemption_delay=said.preemption_delay or 0,
        stale_since=stale_since,
        staleness_grace=said.staleness_grace,
        display=said.display,
    )


def _first(values: Iterable[A | None]) -> A | None:
    """The first value that says something: neither None nor an empty text."""
    return next((v for v in values if v is not None and v != ""), None)


def _priority(named: str, value: int | None, classes: Classes, complain: Complain) -> int | None:
    # The API server writes priority 0 into every pod without a class: that is no choice of anybody.
    if not named:
        return value or None
    found = classes.get(named, value)
    if found is None:
        known = ", ".join(sorted(classes))
        complain("spec.priorityClassName", f"there is no PriorityClass {named!r} in the input; known are {known}")
    return found


def _preemptible(answer: str | None, field: str, complain: Complain) -> bool | None:
    if answer is None:
        return None
    if answer not in _ANSWERS:
        complain(field, f"{answer!r} is none of {', '.join(_ANSWERS)}")
    return _ANSWERS.get(answer)


def _delay(said: str | None, notes: objects.Notes, complain: Complain) -> int | None:
    return _either(said, "spec.preemptionDelay", notes.preemption_delay, "preemption-delay", complain)


def _grace(said: str | None, notes: objects.Notes, complain: Complain) -> int | None:
    return _either(said, "spec.stalenessGracePeriod", notes.staleness_grace, "staleness-grace-period", complain)


def _either(said: str | None, field: str, note: str | None, name: str, complain: Complain) -> int | None:
    if said is not None:
        return read(duration, said, field, complain, None)
    return read(duration, note, f"metadata.annotations.kai.scheduler/{name}", complain, None)
