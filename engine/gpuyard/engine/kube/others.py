"""Disruption budgets, topologies, plans: what stands beside queues and workloads."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import created, explained, key_of, name_of, namespace_of
from gpuyard.engine.kube.selectors import selector
from gpuyard.engine.model import GPU, Budget, Labels, Pod, Promise, Requirement, Shape, Topology
from msgspec.structs import replace

_FINISHED = frozenset({"Kept", "Impossible", "Expired"})
_ELASTIC = "elastic"
"""The phase of plans that others write; they promise something once they are accepted."""

_shape = msgspec.json.Decoder(Shape)

_MOST_DEVICES = 4096
_AMOUNTS: Mapping[str, tuple[int, int | None]] = {
    "gpus": (0, None),
    "fraction": (0, GPU),
    "gpu_memory": (0, None),
    "devices": (1, _MOST_DEVICES),
    "cpu": (0, None),
    "memory": (0, None),
}
"""The least and the most of each amount of a promised shape: less than nothing would make room for others."""


class Rule(NamedTuple):
    """Which pods a disruption budget is about."""

    namespace: str
    selector: tuple[Requirement, ...]

    def covers(self, pod: Pod) -> bool:
        """Whether the budget is about a pod."""
        return pod.namespace == self.namespace and all(meets(pod.labels, one) for one in self.selector)


def rule(seen: objects.PodDisruptionBudget, complain: Complain) -> Rule:
    """Which pods this budget is about."""
    wanted = seen.spec.selector if seen.spec else None
    return Rule(namespace_of(seen), selector(wanted, "spec.selector", complain))


def budget(seen: objects.PodDisruptionBudget, covered: Iterable[str]) -> Budget:
    """Translate a disruption budget that covers these pods; without a status it allows nothing."""
    allowed = seen.status.disruptions_allowed if seen.status else None
    return Budget(key_of(seen), frozenset(covered), max(0, allowed or 0))


def meets(labels: Labels, requirement: Requirement) -> bool:
    """Whether labels of a pod meet one requirement of a selector."""
    key, operator, values = requirement
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) == (operator == "Exists")


def topology(seen: objects.Topology, complain: Complain) -> Topology:
    """Translate a topology."""
    levels = tuple(level.node_label for level in (seen.spec or objects.TopologySpec()).levels or ())
    if not levels:
        complain("spec.levels", "missing; at least one nodeLabel is needed, the widest first")
    if len(set(levels)) < len(levels):
        complain("spec.levels", "a nodeLabel is given twice")
    return Topology(name_of(seen), levels)


def promises(seen: objects.Plan, complain: Complain) -> list[Promise]:
    """The promises of a plan but those that were met and left again; none when it is finished or not accepted yet."""
    spec, status = seen.spec or objects.PlanSpec(), seen.status or objects.PlanStatus()
    elastic = spec.phase == _ELASTIC
    if status.state in _FINISHED or (elastic and not status.accepted):
        return []
    since = created(seen, 0, complain) if elastic else 0
    kept, deserted = spec.promises or [], status.deserted or ()
    read_one = _workload_promise if elastic else _promise
    read_ones = [read_one(name_of(seen), one, f"spec.promises[{n}]", complain) for n, one in enumerate(kept)]
    return [replace(one, since=since) for one in read_ones if one and (elastic or one.pod not in deserted)]


def _workload_promise(plan: str, seen: objects.PlanPromise, field: str, complain: Complain) -> Promise | None:
    """What an elastic plan promises to a workload."""
    asked = seen.amounts
    if seen.pod or not seen.workload or asked is None:
        complain(field, "a promise of an elastic plan names a workload and amounts, and no pod")
        return None
    if asked.gpus < 1 or asked.cpu < 0 or asked.memory < 0:
        complain(f"{field}.amounts", "gpus is at least 1, cpu and memory are at least 0")
        return None
    return Promise(
        plan=plan,
        workload=seen.workload,
        shape=Shape(gpus=asked.gpus, cpu=asked.cpu, memory=asked.memory),
        node=seen.node,
        queue=seen.queue,
        priority=seen.priority,
    )


def _promise(plan: str, seen: objects.PlanPromise, field: str, complain: Complain) -> Promise | None:
    if not seen.pod:
        complain(f"{field}.pod", "missing")
        return None
    try:
        shape = _shape.decode(seen.shape)
    except msgspec.DecodeError as error:
        complain(*explained(error, f"{field}.shape"))
        return None
    wrong = list(_impossible(shape))
    for part, why in wrong:
        complain(f"{field}.shape{part}", why)
    if wrong:
        return None
    return Promise(
        plan=plan,
        pod=seen.pod,
        owner=seen.owner,
        workload=seen.workload,
        shape=shape,
        node=seen.node,
        gpu_groups=seen.gpu_groups,
        queue=seen.queue,
        priority=seen.priority,
    )


def _impossible(shape: Shape) -> Iterator[tuple[str, str]]:
    """What no pod can ask for, by field of the shape: nobody but us writes plans, but anybody may give one."""
    for name, (least, most) in _AMOUNTS.items():
        value = getattr(shape, name)
        if value < least:
            yield f".{name}", f"{value} is less than {least}"
        elif most is not None and value > most:
            yield f".{name}", f"{value} is more than {most}"
    if sum(map(bool, (shape.gpus, shape.fraction, shape.gpu_memory))) > 1:
        yield "", "only one of gpus, fraction and gpu_memory may be set"
