"""Makes one snapshot of many objects, or says all that is wrong with them at once.

What one object says is read by the module of its kind; here is only what concerns several: names given twice, queues in
a circle, pods on nodes that nobody gave. The order of the objects never matters.

Decided in docs/decisions.md: "An object that is given twice is a fault".
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar, cast

import msgspec
from gpuyard.engine import model
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.decode import Found
from gpuyard.engine.kube.faults import Complain, Fault, Unreadable, printable
from gpuyard.engine.kube.gangs import Owners, part_of, parts_of
from gpuyard.engine.kube.meta import is_name, key_of, meta_of, name_of, namespace_of, notes_of, read
from gpuyard.engine.kube.nodes import node
from gpuyard.engine.kube.others import budget, promises, rule, topology
from gpuyard.engine.kube.parts import Card, beside, reserved
from gpuyard.engine.kube.pod_facts import NOT_BORN, PodFacts
from gpuyard.engine.kube.queues import history, queue
from gpuyard.engine.kube.times import moment
from gpuyard.engine.kube.workloads import (
    CLASSES,
    Birth,
    Claim,
    Member,
    all_claims,
    apart,
    group_claim,
    queue_label,
    ranked,
    together,
    two_queues,
    workload,
    workload_key,
)
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from msgspec.structs import replace

T = TypeVar("T", bound=objects.Object)
M = TypeVar("M")

_CLUSTER_WIDE = frozenset({objects.Node, objects.Queue, objects.PriorityClass, objects.Namespace, objects.Topology})
_is_namespace = lru_cache(maxsize=1 << 10)(is_name)
"""Namespaces are few."""


class Reading(msgspec.Struct, frozen=True):
    """A snapshot, and what its reader noticed that is no fault."""

    snapshot: Snapshot
    warnings: tuple[str, ...]


def assemble(found: Iterable[Found[Any]], settings: Settings, now: int | None = None) -> Reading:
    """Make a snapshot at `now`, by default the newest time of the input; raises `Unreadable` with every fault."""
    return _Assembly(found, settings, now).reading()


_Team = list[Found[PodFacts]]
"""The pods of one workload."""


class _Assembly:
    """One reading: what is given by kind and key, the faults so far, and the object that is being read."""

    def __init__(self, found: Iterable[Found[Any]], settings: Settings, now: int | None) -> None:
        self._settings = settings
        self._faults: list[Fault] = []
        self._warnings: list[str] = []
        self._ranks: dict[Claim, Claim] = {}
        self._given: dict[type[objects.Object], dict[str, Found[Any]]] = defaultdict(dict)
        self._least: dict[str, int] = {}
        self._named: set[str] = set()
        self._newest = 0
        """The newest time that any pod carries."""
        self._with_devices: list[PodFacts] = []
        self._held: set[Card] = set()
        """The GPUs that reservation pods of KAI hold."""
        self._offers: dict[str, model.Offer] = {}
        for one in found:
            self._at = one
            self._register(one)
        self._now = max(self._newest, _newest(self._others())) if now is None else now
        self._nodes = frozenset(self._given[objects.Node])
        self._owners: Owners = {
            (namespace_of(o), o.kind or "", name_of(o)): o for o in self._objects(objects.PodOwner).values()
        }
        self._classes = {**CLASSES} | {name: c.value for name, c in self._objects(objects.PriorityClass).items()}

    def reading(self) -> Reading:
        nodes = self._each(objects.Node, node)
        queues = self._each(objects.Queue, lambda seen, complain: queue(seen, self._now, complain))
        topologies = self._each(objects.Topology, topology)
        self._check_circles({q.name: q for q in queues})
        pods, workloads = self._workloads({t.name: t for t in topologies})
        self._check_namespaces(pods)
        kept = chain.from_iterable(self._each(objects.Plan, promises))
        budgets = self._budgets(pods)
        past = self._history()
        if self._faults:
            raise Unreadable(self._faults)
        snapshot = Snapshot.build(
            now=self._now,
            nodes=nodes,
            queues=queues,
            workloads=workloads,
            pods=pods,
            topologies=topologies,
            budgets=budgets,
            promises=[p for p in kept if p.node in self._nodes],
            history=past,
            namespaces={n: queue_label(o) for n, o in self._objects(objects.Namespace).items()},
        )
        return Reading(replace(snapshot, offers=self._offers), tuple(sorted(self._warnings)))

    # --- the objects one by one ---

    def _register(self, one: Found[Any]) -> None:
        seen = one.object
        form, name, key = type(seen), name_of(seen), _key(seen)
        given = self._given[form]
        if not is_name(name):
            self._complain("metadata.name", _no_name(name))
        elif form not in _CLUSTER_WIDE and not _is_namespace(namespace_of(seen)):
            self._complain("metadata.namespace", _no_name(namespace_of(seen)))
        elif key in given:
            self._complain("metadata.name", f"given twice, also in {given[key].source}")
        else:
            given[key] = one
            if form is PodFacts:
                self._note(seen)

    def _note(self, told: PodFacts) -> None:
        pod = told.pod
        for at in (pod.created, pod.started, pod.deleted_at):
            if at is not None and at > self._newest:
                self._newest = at
        if told.device_ids:
            self._with_devices.append(told)
        self._held.update(reserved(pod))
        if told.in_vain:
            self._offers[pod.key] = model.Offer(in_vain=told.in_vain)

    def _complain(self, field: str, why: str) -> None:
        self._faults.append(Fault(self._at.source, _thing(self._at), field, why))

    def _others(self) -> Iterable[objects.Object]:
        """All but the pods."""
        return (one.object for form, group in self._given.items() if form is not PodFacts for one in group.values())

    def _objects(self, form: type[T]) -> dict[str, T]:
        """What is given of one kind, in the order of the keys."""
        given = cast("dict[str, Found[T]]", self._given[form])
        return {key: given[key].object for key in sorted(given)}

    @property
    def _pods(self) -> dict[str, Found[PodFacts]]:
        return cast("dict[str, Found[PodFacts]]", self._given[PodFacts])

    def _each(self, form: type[T], translate: Callable[[T, Complain], M]) -> list[M]:
        out = []
        for key, seen in self._objects(form).items():
            self._at = self._given[form][key]
            out.append(translate(seen, self._complain))
        return out

    def _history(self) -> dict[str, model.Amounts]:
        past: dict[str, model.Amounts] = {}
        for part in self._each(objects.QueueUsage, history):
            past |= part
        return past

    def _budgets(self, pods: Sequence[model.Pod]) -> list[model.Budget]:
        by_namespace = defaultdict[str, list[model.Pod]](list)
        for one in pods if self._given[objects.PodDisruptionBudget] else ():
            by_namespace[one.namespace].append(one)

        def read_one(seen: objects.PodDisruptionBudget, complain: Complain) -> model.Budget:
            about = rule(seen, complain)
            return budget(seen, (pod.key for pod in by_namespace[about.namespace] if about.covers(pod)))

        return self._each(objects.PodDisruptionBudget, read_one)

    # --- pods and workloads ---

    def _workloads(self, topologies: Mapping[str, model.Topology]) -> tuple[list[model.Pod], list[model.Workload]]:
        groups, teams = self._objects(objects.PodGroup), self._teams()
        devices = _device_indices(self._with_devices)
        pods: list[model.Pod] = []
        workloads: list[model.Workload] = []
        for key in {**teams, **groups}:
            team = teams.get(key, [])
            made = self._grouped(key, groups[key], team) if key in groups else self._ungrouped(key, team)
            parts = parts_of(made.gang)
            if made.gang is not model.ALONE:
                self._check_topology(made.gang, topologies)
            workloads.append(made)
            pods += [self._in_company(one, key, parts, devices) for one in team]
        return pods, workloads

    def _teams(self) -> dict[str, "_Team"]:
        """The pods by workload, in the order of their names."""
        teams = defaultdict[str, _Team](list)
        groups = self._given[objects.PodGroup]
        for one in self._pods.values():
            notes = notes_of(one.object)
            if not (self._owners or notes.pod_group or notes.batch_minimum):
                teams[apart(one.object.pod.key, groups)].append(one)
                continue
            self._at = one
            key, least = workload_key(one.object, self._owners, groups, self._complain)
            teams[key].append(one)
            if notes.pod_group:
                self._named.add(key)
            if least > 1:
                self._least[key] = max(least, self._least.get(key, 1))
        for team in teams.values():
            if len(team) > 1:
                team.sort(key=lambda one: one.object.pod.key)
        return teams

    def _in_company(
        self, one: Found[PodFacts], workload: str, parts: frozenset[str], devices: Mapping[str, tuple[int, ...]]
    ) -> model.Pod:
        """The pod as it is among all that is given."""
        self._at, pod = one, one.object.pod
        if pod.node and pod.node not in self._nodes and pod.holds:
            self._complain("spec.nodeName", f"there is no node {pod.node!r} in the input")
        if one.object.of_kai:
            pod = beside(pod, self._held)
        if pod.group or parts:
            pod = replace(pod, group=part_of(pod.group, workload, parts, self._complain))
        if pod.workload != workload or pod.created == NOT_BORN or one.object.device_ids:
            return replace(
                pod,
                workload=workload,
                created=self._born(one),
                devices=devices.get(pod.key, ()) if pod.holds else (),
            )
        return pod

    def _born(self, one: Found[PodFacts]) -> int:
        created = one.object.pod.created
        return self._now if created == NOT_BORN else created

    def _members(self, team: "_Team") -> Iterator[Member]:
        for one in team:
            self._at = one
            yield Member(self._ranked(one.object.claim), one.object.pod.holds)

    def _ranked(self, claim: Claim) -> Claim:
        """The claim with the priority of its class; pods mostly say one of few things."""
        found = self._ranks.get(claim)
        if found is None:
            found = ranked(claim, self._classes, self._complain)
            if found.priority is not None or not claim.priority_class:
                self._ranks[claim] = found
        return found

    def _grouped(self, key: str, seen: objects.PodGroup, team: "_Team") -> model.Workload:
        members = list(self._members(team))
        self._at = self._given[objects.PodGroup][key]
        claims, standing = all_claims(group_claim(seen, self._classes, self._complain), members)
        self._warn_of_queues(claims)
        return self._made(key, seen, together(claims, standing), Birth(self._now))

    def _ungrouped(self, key: str, team: "_Team") -> model.Workload:
        claims, standing = all_claims(None, self._members(team))
        least = self._least.get(key, 1) if self._least else 1
        self._at = team[0]
        if len(claims) > 1 or claims[0].runai_queue:
            self._warn_of_queues(claims)
        if key in self._named:
            self._warn(f"its PodGroup {key} is not given: counted as a gang with a minimum of {least}")
        born = min(map(self._born, team)) if len(team) > 1 else self._born(team[0])
        return self._made(key, None, together(claims, standing), Birth(born, least))

    def _made(self, key: str, group: objects.PodGroup | None, claim: Claim, birth: Birth) -> model.Workload:
        default_queue = self._settings.default_queue
        return workload(key, group, [claim], birth, default_queue=default_queue, complain=self._complain)

    def _warn_of_queues(self, claims: Sequence[Claim]) -> None:
        if (two := two_queues(claims)) is not None:
            self._warn(f"two queues are named, {two[0]} and {two[1]}: {two[0]} counts")

    def _warn(self, what: str) -> None:
        self._warnings.append(printable(f"{self._at.source}: {_thing(self._at)}: {what}"))

    # --- what concerns several objects ---

    def _check_circles(self, queues: Mapping[str, model.Queue]) -> None:
        for name, first in queues.items():
            path = [name]
            self._at = self._given[objects.Queue][first.name]
            while (above := queues.get(path[-1])) is not None and above.parent not in path[1:]:
                path.append(above.parent)
                if above.parent == name:
                    self._complain("spec.parentQueue", f"the queue is its own ancestor: {' → '.join(path)}")
                    break
                if len(path) > model.MOST_LEVELS + 1:
                    self._complain("spec.parentQueue", f"more than {model.MOST_LEVELS} queues one below the other")
                    break

    def _check_namespaces(self, pods: Iterable[model.Pod]) -> None:
        if self._settings.namespace_match == "off":
            return
        missing = {p.namespace: p.key for p in pods if p.namespace not in self._given[objects.Namespace]}
        for namespace, key in missing.items():
            self._at = self._given[PodFacts][key]
            self._complain("metadata.namespace", f"namespaceMatch needs the Namespace {namespace!r} in the input")

    def _check_topology(self, of: model.Gang, topologies: Mapping[str, model.Topology]) -> None:
        wants = of.topology
        if wants is not None and (found := topologies.get(wants.topology)) is None:
            self._complain("spec.topologyConstraint", f"there is no Topology {wants.topology!r} in the input")
        elif wants is not None and found is not None:
            for level in (wants.required, wants.preferred):
                if level and level not in found.levels:
                    self._complain("spec.topologyConstraint", f"{level!r} is no level of Topology {wants.topology}")
        for part in of.parts:
            self._check_topology(part, topologies)


def _key(seen: objects.Object) -> str:
    if isinstance(seen, PodFacts):
        return seen.pod.key
    if type(seen) in _CLUSTER_WIDE:
        return name_of(seen)
    return f"{seen.kind}/{key_of(seen)}" if isinstance(seen, objects.PodOwner) else key_of(seen)


def _thing(one: Found[Any]) -> str:
    key = name_of(one.object) if type(one.object) in _CLUSTER_WIDE else key_of(one.object)
    return f"{one.kind} {key}"


def _no_name(text: str) -> str:
    return f"{text[:80]!r} is not a name that Kubernetes accepts" if text else "missing"


def _newest(seen: Iterable[objects.Object]) -> int:
    """The newest time that these objects carry; what is no time is told elsewhere."""
    texts = set[str | None]()
    for one in seen:
        texts |= {meta_of(one).creation_timestamp, meta_of(one).deletion_timestamp}
        if isinstance(one, objects.PodGroup):
            texts.add(notes_of(one).stale_since)
    return max((read(moment, text, "", _nobody, 0) for text in texts), default=0)


def _nobody(_field: str, _why: str) -> None:
    """Hears no complaint: the same value is read again where it is used."""


def _device_indices(given: Sequence[PodFacts]) -> dict[str, tuple[int, ...]]:
    """The indices of the GPUs that pods were given: on each node the ids count in their own order."""
    on_node = defaultdict[str, set[str]](set)
    for one in given:
        on_node[one.pod.node].update(one.device_ids)
    ranks = {node_: {name: n for n, name in enumerate(sorted(names))} for node_, names in on_node.items()}
    return {one.pod.key: tuple(sorted(ranks[one.pod.node][name] for name in set(one.device_ids))) for one in given}
