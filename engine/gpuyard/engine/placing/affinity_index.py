"""Counts of pods by topology domain, for pod affinity and anti-affinity.

A `Group` is the set of pods that a term of an affinity is about. For each group that a cycle has asked about, the index
counts the pods in each domain, and `moved` keeps the counts current while the cycle tries places. So a question about
one node is one look-up, however many pods and nodes there are. An index is filled in steps:

    pods by label        one pass over all pods for each label key that a selector names
    counts of a group    one pass over the pods with the group's label
    terms of anti-affinity that keep others away    one pass over the kinds of pods that have any

Decided in docs/decisions.md: "Pod affinity is counted by domain, once a cycle".
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from gpuyard.engine.model import Labels, Node, Pod, PodTerm, Requirement
from gpuyard.engine.model.constraints import Hook, hooks, matches
from gpuyard.engine.model.snapshot import AvoidingKind, Snapshot, avoiding_kind
from gpuyard.engine.placing.scratch import ACTIVE, Place, Status, place_in
from gpuyard.engine.stepwise import paused, take_apart

EVERYWHERE = ("*",)
"""The namespaces of a term that is about the pods of every namespace."""

_AWAY = frozenset({Status.EVICTED, Status.MOVED, Status.GONE})


class Group(NamedTuple):
    """The pods that a term is about, and the node label whose values are the domains."""

    topology_key: str
    selector: tuple[Requirement, ...]
    namespaces: tuple[str, ...]

    @classmethod
    def of(cls, term: PodTerm, namespace: str) -> "Group":
        """The group of a term of a pod in this namespace."""
        return cls(term.topology_key, term.selector, term.namespaces or (namespace,))

    def has(self, pod: Pod) -> bool:
        """Whether the pod belongs to the group."""
        spaces = self.namespaces
        return (spaces == EVERYWHERE or pod.namespace in spaces) and matches(self.selector, pod.labels)


class Presence:
    """How many pods of a group are in each domain: those that stay or will be there, and those on their way out."""

    __slots__ = ("_nodes", "anywhere", "leaving", "staying", "topology_key")

    def __init__(self, topology_key: str, nodes: Mapping[str, Node]) -> None:
        self.topology_key = topology_key
        self._nodes = nodes
        self.staying = Counter[str]()
        self.leaving = Counter[str]()
        self.anywhere = 0
        """The pods that stay, those on nodes without the label too."""

    def domain(self, node: str) -> str | None:
        """The domain of a node; None where the node lacks the label, or is gone."""
        found = self._nodes.get(node)
        return None if found is None else found.labels.get(self.topology_key)

    def add(self, pod: Pod, place: Place, sign: int = 1) -> None:
        """Count a pod at its place, or (-1) no longer."""
        if place.status in ACTIVE:
            self.anywhere += sign
            if (domain := self.domain(place.node)) is not None:
                self.staying[domain] += sign
        if place.status in _AWAY and pod.holds and (domain := self.domain(pod.node)) is not None:
            self.leaving[domain] += sign

    def count(self, domain: str | None, *, now: bool) -> int:
        """The pods in a domain; with `now` also those on their way out."""
        if domain is None:
            return 0
        return self.staying[domain] + (self.leaving[domain] if now else 0)


class AffinityIndex:
    """The counts over one snapshot; `changed` are the places that a cycle has given and taken."""

    def __init__(self, snapshot: Snapshot, changed: Mapping[str, Place], newcomers: Mapping[str, Pod]) -> None:
        self._snapshot = snapshot
        self._changed = changed
        self._newcomers = newcomers
        """The pods with an anti-affinity that have got their first place in this cycle."""
        self._keys: set[str] = set()
        self._by_label: dict[tuple[str, str], list[Pod]] = {}
        self._sought: dict[Group, Presence] = {}
        self._sought_by: dict[Hook, list[Group]] = {}
        self._avoided: dict[Group, Presence] = {}
        self._avoided_by: dict[Hook, list[Group]] = {}
        self._kinds: dict[Group, list[AvoidingKind]] = {}
        self._listed: set[AvoidingKind] = set()
        self._has_kinds = False

    def dissolve(self) -> Generator[None, None, None]:
        """Take it apart in steps; nobody may use it any more."""
        yield from take_apart(self)

    # --- the pods that a term is about

    def sought(self, group: Group) -> Generator[None, None, Presence]:
        """Where the pods of a group are."""
        found = self._sought.get(group)
        if found is None:
            found = Presence(group.topology_key, self._snapshot.fleet.nodes)
            for hook in hooks(group.selector):
                for pod in paused((yield from self._pods_with(hook))):
                    if pod is None:
                        yield
                    elif group.has(pod):
                        found.add(pod, place_in(self._changed, pod))
            self._sought[group] = found
            for hook in hooks(group.selector):
                self._sought_by.setdefault(hook, []).append(group)
        return found

    def _pods_with(self, hook: Hook) -> Generator[None, None, Iterable[Pod]]:
        if hook is None:
            return self._snapshot.pods.values()
        key = hook[0]
        if key not in self._keys:
            for pod in paused(self._snapshot.pods.values()):
                if pod is None:
                    yield
                elif (value := pod.labels.get(key)) is not None:
                    self._by_label.setdefault((key, value), []).append(pod)
            self._keys.add(key)
        return self._by_label.get(hook, ())

    # --- the pods that keep others away

    def avoiding(self, pod: Pod) -> Generator[None, None, Mapping[Group, Presence]]:
        """The groups to which a pod belongs that others keep away from, and where those others are."""
        if not self._has_kinds:
            yield from self._list_kinds()
        found = {}
        for group in [group for group in _hooked(self._avoided_by, pod.labels) if group.has(pod)]:
            found[group] = yield from self._avoiders(group)
        return found

    def _list_kinds(self) -> Iterator[None]:
        """Find the terms of all kinds of pods that keep others away; `moved` adds those that come later."""
        for kind in paused(chain(self._snapshot.avoiding, map(avoiding_kind, self._newcomers.values()))):
            if kind is None:
                yield
            else:
                self._list(kind)
        self._has_kinds = True

    def _list(self, kind: AvoidingKind) -> None:
        if kind not in self._listed:
            self._listed.add(kind)
            for group in _groups_avoided(kind):
                if group not in self._kinds:
                    for hook in hooks(group.selector):
                        self._avoided_by.setdefault(hook, []).append(group)
                self._kinds.setdefault(group, []).append(kind)

    def _avoiders(self, group: Group) -> Generator[None, None, Presence]:
        found = self._avoided.get(group)
        if found is None:
            found = Presence(group.topology_key, self._snapshot.fleet.nodes)
            known = (self._snapshot.avoiding.get(kind, {}).values() for kind in self._kinds[group])
            new = (pod for pod in self._newcomers.values() if group in _groups_avoided(avoiding_kind(pod)))
            for pod in paused(chain(chain.from_iterable(known), new)):
                if pod is None:
                    yield
                else:
                    found.add(pod, place_in(self._changed, pod))
            self._avoided[group] = found
        return found

    # --- changes

    def moved(self, pod: Pod, before: Place, after: Place) -> None:
        """A pod's place has changed."""
        if self._has_kinds and pod.shape.pod_anti_affinity:
            self._list(avoiding_kind(pod))
        for presence in self._counted_in(pod):
            presence.add(pod, before, -1)
            presence.add(pod, after)

    def _counted_in(self, pod: Pod) -> Iterator[Presence]:
        for group in _hooked(self._sought_by, pod.labels):
            if group.has(pod):
                yield self._sought[group]
        if self._avoided and pod.shape.pod_anti_affinity:
            for group in _groups_avoided(avoiding_kind(pod)):
                if group in self._avoided:
                    yield self._avoided[group]


def _hooked(by_hook: Mapping[Hook, Iterable[Group]], labels: Labels) -> Iterator[Group]:
    """The groups to which a pod with these labels may belong."""
    if by_hook:
        yield from by_hook.get(None, ())
        for label in labels.items():
            yield from by_hook.get(label, ())


def _groups_avoided(kind: AvoidingKind) -> set[Group]:
    return {Group.of(term, kind.namespace) for term in kind.terms if not term.weight}
