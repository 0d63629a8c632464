"""Makes one snapshot of many objects, or says all that is wrong with them at once.

What one object says is read by the module of its kind; here is only what concerns several: names given twice, queues in
a circle, pods on nodes that nobody gave. The order of the objects never matters.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar, cast

import msgspec
from gpuyard.engine import model
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.decode import Found
from gpuyard.engine.kube.faults import Complain, Fault, Unreadable, printable
from gpuyard.engine.kube.gangs import Owners, gang, leaves
from gpuyard.engine.kube.meta import created, is_name, key_of, labels_of, meta_of, name_of, namespace_of, notes_of, read
from gpuyard.engine.kube.nodes import node
from gpuyard.engine.kube.others import budget, promises, topology
from gpuyard.engine.kube.pods import SUB_GROUP, device_ids, pod
from gpuyard.engine.kube.queues import history, queue
from gpuyard.engine.kube.times import moment
from gpuyard.engine.kube.workloads import (
    CLASSES,
    QUEUE,
    Claim,
    group_claim,
    pod_claim,
    two_queues,
    workload,
    workload_key,
)
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot

T = TypeVar("T", bound=objects.Object)
M = TypeVar("M")

_ALONE = model.Gang()
_NO_PARTS = frozenset[str]()
_DEFAULT_PART = "default"
"""The sub-group of pods that name none, where there is one of this name."""

_CLUSTER_WIDE = (objects.Node, objects.Queue, objects.PriorityClass, objects.Namespace, objects.Topology)


class Reading(msgspec.Struct, frozen=True):
    """A snapshot, and what its reader noticed that is no fault."""

    snapshot: Snapshot
    warnings: tuple[str, ...]


def assemble(found: Iterable[Found], settings: Settings, now: int | None = None) -> Reading:
    """Make a snapshot at `now`, by default the newest time of the input; raises `Unreadable` with every fault."""
    return _Assembly(found, settings, now).reading()


class _Assembly:
    """One reading: what is given by kind and key, the faults so far, and the object that is being read."""

    def __init__(self, found: Iterable[Found], settings: Settings, now: int | None) -> None:
        self._settings = settings
        self._faults: list[Fault] = []
        self._warnings: list[str] = []
        self._given: dict[type[objects.Object], dict[str, Found]] = defaultdict(dict)
        for one in found:
            self._at = one
            self._register(one)
        self._now = _newest(self._all()) if now is None else now
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
        named = frozenset(n.name for n in nodes)
        self._check_nodes(pods, named)
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
            pods=[_known_nomination(p, named) for p in pods],
            topologies=topologies,
            budgets=budgets,
            promises=[p for p in kept if p.node in named],
            history=past,
            namespaces={n: labels_of(o).get(QUEUE, "") for n, o in self._objects(objects.Namespace).items()},
        )
        return Reading(snapshot, tuple(self._warnings))

    # --- the objects one by one ---

    def _register(self, one: Found) -> None:
        seen = one.object
        given, name, key = self._given[type(seen)], name_of(seen), _key(seen)
        if not is_name(name):
            self._complain("metadata.name", _no_name(name))
        elif type(seen) not in _CLUSTER_WIDE and not is_name(namespace_of(seen)):
            self._complain("metadata.namespace", _no_name(namespace_of(seen)))
        elif key in given:
            self._complain("metadata.name", f"given twice, also in {given[key].source}")
        else:
            given[key] = one

    def _complain(self, field: str, why: str) -> None:
        self._faults.append(Fault(self._at.source, _thing(self._at), field, why))

    def _all(self) -> Iterable[objects.Object]:
        return (one.object for group in self._given.values() for one in group.values())

    def _objects(self, form: type[T]) -> dict[str, T]:
        """What is given of one kind, in the order of the keys."""
        given = self._given[form]
        return {key: cast("T", given[key].object) for key in sorted(given)}

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
        return self._each(
            objects.PodDisruptionBudget,
            lambda seen, complain: budget(seen, by_namespace[namespace_of(seen)], complain),
        )

    # --- pods and workloads ---

    def _workloads(self, topologies: Mapping[str, model.Topology]) -> tuple[list[model.Pod], list[model.Workload]]:
        groups = self._objects(objects.PodGroup)
        teams = self._teams(groups)
        pods: list[model.Pod] = []
        workloads = []
        for key in sorted(teams.keys() | groups.keys()):
            team = teams.get(key) or _Team()
            if key not in groups:
                workloads.append(self._ungrouped(key, team))
                pods += self._placed(team.pods, _ALONE)
                continue
            made = self._grouped(key, groups[key], team)
            self._check_topology(made.gang, topologies)
            workloads.append(made)
            pods += self._placed(team.pods, made.gang)
        return pods, workloads

    def _teams(self, groups: Mapping[str, objects.PodGroup]) -> dict[str, "_Team"]:
        teams: dict[str, _Team] = {}
        given, complain = self._given[objects.Pod], self._complain
        all_pods = self._objects(objects.Pod)
        devices = _device_indices(all_pods)
        for key, seen in all_pods.items():
            self._at = given[key]
            workload_, least = workload_key(seen, self._owners, groups, complain)
            team = teams.get(workload_)
            if team is None:
                team = teams[workload_] = _Team()
            team.pods.append(pod(seen, workload_, self._now, complain, devices.get(key, ())))
            team.claims.append(pod_claim(seen, self._classes, complain))
            team.least = max(team.least, least)
            team.named = team.named or notes_of(seen).pod_group is not None
        return teams

    def _grouped(self, key: str, seen: objects.PodGroup, team: "_Team") -> model.Workload:
        self._at = self._given[objects.PodGroup][key]
        claims = [group_claim(seen, self._classes, self._complain), *team.claims]
        self._warn_of_queues(claims)
        stale = "metadata.annotations.kai.scheduler/stale-podgroup-timestamp"
        return workload(
            key,
            claims,
            gang(seen, self._complain),
            default_queue=self._settings.default_queue,
            created=created(seen, self._now, self._complain),
            stale_since=read(moment, notes_of(seen).stale_since, stale, self._complain, None),
        )

    def _ungrouped(self, key: str, team: "_Team") -> model.Workload:
        claims, first = team.claims, team.pods[0]
        if team.named or len(claims) > 1 or claims[0].runai_queue:
            self._at = self._given[objects.Pod][first.key]
            self._warn_of_queues(claims)
        if team.named:
            self._warn(f"its PodGroup {key} is not given: counted as a gang with a minimum of {team.least}")
        return workload(
            key,
            claims,
            _ALONE if team.least == 1 else model.Gang(minimum=team.least),
            default_queue=self._settings.default_queue,
            created=first.created if len(team.pods) == 1 else min(p.created for p in team.pods),
        )

    def _placed(self, pods: Iterable[model.Pod], of: model.Gang) -> Iterable[model.Pod]:
        """The pods with the sub-groups that their gang really has."""
        parts = frozenset(leaf.name for leaf in leaves(of)) if of.parts else _NO_PARTS
        for one in pods:
            if one.group in parts or not (one.group or parts):
                yield one
                continue
            part = _DEFAULT_PART if _DEFAULT_PART in parts else ""
            if parts and not part:
                self._at = self._given[objects.Pod][one.key]
                wrong = f"{one.group!r} is no sub-group of {one.workload}" if one.group else "missing"
                self._complain(f"metadata.labels.{SUB_GROUP}", f"{wrong}; choose one of {', '.join(sorted(parts))}")
            yield msgspec.structs.replace(one, group=part)

    def _warn_of_queues(self, claims: Sequence[Claim]) -> None:
        if (two := two_queues(claims)) is not None:
            self._warn(f"two queues are named, {two[0]} and {two[1]}: {two[0]} counts")

    def _warn(self, what: str) -> None:
        self._warnings.append(printable(f"{self._at.source}: {_thing(self._at)}: {what}"))

    # --- what concerns several objects ---

    def _check_circles(self, queues: Mapping[str, model.Queue]) -> None:
        for name, first in queues.items():
            path = [name]
            while (above := queues.get(path[-1])) is not None and above.parent not in path[1:]:
                path.append(above.parent)
                if above.parent == name:
                    self._at = self._given[objects.Queue][first.name]
                    self._complain("spec.parentQueue", f"the queue is its own ancestor: {' → '.join(path)}")
                    break

    def _check_nodes(self, pods: Iterable[model.Pod], nodes: frozenset[str]) -> None:
        for one in pods:
            if one.holds and one.node not in nodes:
                self._at = self._given[objects.Pod][one.key]
                self._complain("spec.nodeName", f"there is no node {one.node!r} in the input")

    def _check_namespaces(self, pods: Iterable[model.Pod]) -> None:
        if self._settings.namespace_match == "off":
            return
        missing = {p.namespace: p.key for p in pods if p.namespace not in self._given[objects.Namespace]}
        for namespace, key in missing.items():
            self._at = self._given[objects.Pod][key]
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


class _Team:
    """The pods of one workload in the order of their names, what they say of it, its minimum without a PodGroup."""

    __slots__ = ("claims", "least", "named", "pods")

    def __init__(self) -> None:
        self.pods: list[model.Pod] = []
        self.claims: list[Claim] = []
        self.least = 1
        self.named = False


def _key(seen: objects.Object) -> str:
    if type(seen) in _CLUSTER_WIDE:
        return name_of(seen)
    return f"{seen.kind}/{key_of(seen)}" if isinstance(seen, objects.PodOwner) else key_of(seen)


def _thing(one: Found) -> str:
    key = name_of(one.object) if type(one.object) in _CLUSTER_WIDE else key_of(one.object)
    return f"{one.kind} {key}"


def _no_name(text: str) -> str:
    return f"{text[:80]!r} is not a name that Kubernetes accepts" if text else "missing"


def _newest(seen: Iterable[objects.Object]) -> int:
    """The newest time that any object carries; what is no time is told elsewhere."""
    texts = set[str | None]()
    for one in seen:
        meta = meta_of(one)
        texts |= {meta.creation_timestamp, meta.deletion_timestamp}
        if isinstance(one, objects.Pod) and one.status is not None:
            texts.add(one.status.start_time)
        if isinstance(one, objects.PodGroup):
            texts.add(notes_of(one).stale_since)
    return max((read(moment, text, "", _nobody, 0) for text in texts), default=0)


def _known_nomination(pod_: model.Pod, nodes: frozenset[str]) -> model.Pod:
    """The pod, without the promise of a node that is gone."""
    if not pod_.nominated or pod_.nominated in nodes:
        return pod_
    return msgspec.structs.replace(pod_, nominated="")


def _nobody(_field: str, _why: str) -> None:
    """Hears no complaint: the same value is read again where it is used."""


def _device_indices(seen: Mapping[str, objects.Pod]) -> dict[str, tuple[int, ...]]:
    """The indices of the GPUs that pods were given: on each node the ids count in their own order."""
    ids = {key: found for key, one in seen.items() if (found := device_ids(one))}
    on_node = defaultdict[str, set[str]](set)
    for key, names in ids.items():
        on_node[_node_of(seen[key])].update(names)
    ranks = {node_: {name: n for n, name in enumerate(sorted(names))} for node_, names in on_node.items()}
    return {
        key: tuple(sorted(rank[name] for name in set(names)))
        for key, names in ids.items()
        for rank in (ranks[_node_of(seen[key])],)
    }


def _node_of(seen: objects.Pod) -> str:
    return (seen.spec.node_name if seen.spec else None) or ""
