"""How many pods must start together: by PodGroup, by annotation, by the object that owns the pods."""

from collections.abc import Mapping

from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import labels_of, namespace_of, notes_of, read
from gpuyard.engine.kube.pods import SUB_GROUP, minimum, owner_of
from gpuyard.engine.model import MOST_LEVELS, Gang, TopologyConstraint

OwnerKey = tuple[str, str, str]
"""Namespace, kind and name of an owner of pods."""

Owners = Mapping[OwnerKey, objects.PodOwner]
"""The given owners of pods."""

LWS = "LeaderWorkerSet"
OWNER_GROUPS: Mapping[str, str] = {
    "Job": "batch",
    "RayCluster": "ray.io",
    LWS: "leaderworkerset.x-k8s.io",
    **dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "MPIJob"), "kubeflow.org"),
}
"""The kinds of owners that can say how many pods start together, with the API group of each."""

DEFAULT_PART = "default"
"""The sub-group of pods that name none, where there is one of this name."""

NO_PARTS = frozenset[str]()

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_INDEX = "leaderworkerset.sigs.k8s.io/group-index"

_NO_SPEC = objects.OwnerSpec()


def gang(seen: objects.PodGroup, complain: Complain) -> Gang:
    """The gang that a PodGroup describes."""
    spec = seen.spec or objects.PodGroupSpec()
    topology = _topology(spec.topology_constraint)
    if not spec.sub_groups:
        return Gang(minimum=_least(spec.min_member, 1, "spec.minMember", complain), topology=topology)
    if _broken(spec.sub_groups, complain):
        return Gang()
    parts = _parts(spec.sub_groups, None, complain)
    return Gang(
        minimum=_least(spec.min_sub_group, len(parts), "spec.minSubGroup", complain), parts=parts, topology=topology
    )


def parts_of(of: Gang) -> frozenset[str]:
    """The names of the sub-groups that hold pods."""
    return frozenset(leaf.name for leaf in of.leaves) if of.parts else NO_PARTS


def part_of(named: str, workload: str, parts: frozenset[str], complain: Complain) -> str:
    """The sub-group of a pod, of those that its gang really has; a label without such a PodGroup says nothing."""
    if named in parts or not parts:
        return named if parts else ""
    if DEFAULT_PART not in parts:
        wrong = f"{named!r} is no sub-group of {workload}" if named else "missing"
        complain(f"metadata.labels.{SUB_GROUP}", f"{wrong}; choose one of {', '.join(sorted(parts))}")
    return DEFAULT_PART


def owner_key(seen: objects.Object) -> OwnerKey | None:
    """The owner that can say how many pods start with this one; None: it has no such owner."""
    owner = owner_of(seen)
    if owner is None:
        return None
    # Anybody can write the label, but a LeaderWorkerSet makes the StatefulSets that own its pods.
    if owner.kind == "StatefulSet" and (leads := labels_of(seen).get(LWS_NAME)):
        return namespace_of(seen), LWS, leads
    # Any version of the API will do.
    ours = OWNER_GROUPS.get(owner.kind)
    known = ours is not None and owner.api_version.partition("/")[0] in {"", ours}
    return (namespace_of(seen), owner.kind, owner.name) if known else None


def owned_gang(seen: objects.Object, owners: Owners, complain: Complain) -> tuple[str, int] | None:
    """(key, minimum) of the gang a pod without PodGroup belongs to by its owner; None: it is a workload of its own."""
    owner = owner_of(seen)
    if owner is None:
        return None
    key, namespace = owner_key(seen), namespace_of(seen)
    found = owners.get(key) if key else None
    text = notes_of(seen).batch_minimum
    if not text and found and found.kind == owner.kind:
        text = notes_of(found).batch_minimum
    if text is not None:
        field = "metadata.annotations.kai.scheduler/batch-min-member"
        return f"{namespace}/{owner.name}", read(minimum, text, field, complain, 1)
    least = owned_minimum(found) if found else None
    if key is None or least is None:
        return None
    if key[1] == LWS:
        return f"{namespace}/{key[2]}-{labels_of(seen).get(LWS_INDEX, '0')}", least
    return f"{namespace}/{owner.name}", least


def owned_minimum(owner: objects.PodOwner) -> int | None:
    """How many pods of this owner must start together; None: each starts alone."""
    spec = owner.spec or _NO_SPEC
    if owner.kind == "RayCluster":
        return 1 + sum(_ray_workers(g) for g in spec.worker_group_specs or ())
    if owner.kind == "LeaderWorkerSet":
        if spec.startup_policy == "LeaderReady":
            # Its workers are made only once the leader runs.
            return 1
        return (spec.leader_worker_template and spec.leader_worker_template.size) or 1
    replicas = spec.pytorch or spec.tensorflow or spec.xgboost or spec.jax or spec.mpi
    if replicas is None:
        return None
    policy = spec.run_policy.scheduling_policy if spec.run_policy else None
    elastic = spec.elastic_policy.min_replicas if spec.elastic_policy and owner.kind == "PyTorchJob" else None
    everyone = sum(1 if r.replicas is None else r.replicas for r in replicas.values())
    return max(1, elastic or (policy.min_available if policy else None) or everyone)


def _ray_workers(group: objects.WorkerGroup) -> int:
    return (group.min_replicas or 0) * (group.num_of_hosts or 1)


def _least(value: int | None, default: int, field: str, complain: Complain) -> int:
    if value is not None and value < 0:
        complain(field, f"{value} is negative")
    return max(1, default if value is None else value)


def _topology(seen: objects.TopologyConstraint | None) -> TopologyConstraint | None:
    if seen is None or not seen.topology:
        return None
    return TopologyConstraint(seen.topology, seen.required_topology_level or "", seen.preferred_topology_level or "")


def _broken(groups: list[objects.SubGroup], complain: Complain) -> bool:
    """Whether the sub-groups are no tree; says why."""
    parents = {g.name: g.parent or "" for g in groups}
    before = set[str]()
    broken = False
    for n, group in enumerate(groups):
        why = _misplaced(group, parents, before)
        if why:
            complain(f"spec.subGroups[{n}]", why)
            broken = True
        before.add(group.name)
    return broken


def _misplaced(group: objects.SubGroup, parents: Mapping[str, str], before: set[str]) -> str:
    if not group.name:
        return "has no name"
    if group.name in before:
        return f"the name {group.name!r} is given twice"
    if group.parent and group.parent not in parents:
        return f"its parent {group.parent!r} is not a sub-group of this PodGroup"
    name, seen = parents[group.name], {group.name}
    while name:
        if name in seen:
            return f"is its own ancestor, by its parent {group.parent!r}"
        seen.add(name)
        if len(seen) > MOST_LEVELS:
            return f"more than {MOST_LEVELS} sub-groups one below the other"
        name = parents.get(name, "")
    return ""


def _parts(groups: list[objects.SubGroup], parent: str | None, complain: Complain) -> tuple[Gang, ...]:
    out = []
    for n, group in enumerate(groups):
        if (group.parent or None) != parent:
            continue
        parts, field = _parts(groups, group.name, complain), f"spec.subGroups[{n}]"
        least = (
            _least(group.min_sub_group, len(parts), f"{field}.minSubGroup", complain)
            if parts
            else _least(group.min_member, 1, f"{field}.minMember", complain)
        )
        out.append(Gang(name=group.name, minimum=least, parts=parts, topology=_topology(group.topology_constraint)))
    return tuple(sorted(out, key=lambda g: g.name))
