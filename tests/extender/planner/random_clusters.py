"""Small clusters by seed: nodes, queues in trees, workloads of which some run and some wait.

What runs at the start stands where the engine has put it, with a few pods gone since, so that there are holes.
"""

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from gpuyard.engine.kube.assemble import assemble
from gpuyard.engine.kube.decode import Harvest
from gpuyard.engine.kube.times import written
from gpuyard.engine.model.results import FinalState, Outcome
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.settle import settle

from tests.extender.builders import Json, meta, node, pod, topology

NOW = 1_800_000_000
GIB = 1024
SIZES = (16 * GIB, 80 * GIB)
"""The MiB of a GPU."""

PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
SECONDS = 10
"""Between the creation of two workloads; their pods are a second apart."""


class Workload(NamedTuple):
    """What somebody submits. Those that differ in the name only are equal: it does not matter which of them runs."""

    name: str
    queue: str
    gpus: int = 1
    fraction: str = ""
    memory: int = 0
    """MiB of one GPU."""
    priority: str = "train"
    fixed: bool = False
    bare: bool = False
    """Nobody creates its pod again."""
    size: int = 1
    """How many pods it has."""
    minimum: int = 1
    parts: tuple[tuple[str, int, int], ...] = ()
    """Sub-groups: name, minimum, pods."""
    required: str = ""
    preferred: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    tolerates: bool = False
    cpu: int = 0

    @property
    def kind(self) -> "Workload":
        """What equal workloads have in common."""
        return self._replace(name="")

    @property
    def is_gang(self) -> bool:
        """Whether it has a PodGroup."""
        return self.minimum > 1 or bool(self.parts)


class Cluster(NamedTuple):
    """The objects that plan reads, and what they were made of."""

    objects: tuple[Json, ...]
    workloads: dict[str, Workload]
    """By name: each pod says in `LABEL` whose it is."""


LABEL = "workload"


def random_cluster(seed: int) -> Cluster:
    """The cluster of a seed."""
    chance = random.Random(seed)
    nodes, queues = _nodes(chance), _queues(chance)
    leaves = [one["metadata"]["name"] for one in queues if one["leaf"]]
    base = [*nodes, *({**one, "leaf": None} for one in queues), topology("racks", "rack", "kubernetes.io/hostname")]
    old = _workloads(chance, [*leaves, *[leaves[0]] * len(leaves)], "old", chance.randint(3, 12), nodes)
    new = _workloads(chance, leaves, "new", chance.randint(1, 7), nodes)
    running = _left_over(chance, base, _objects(old, NOW - 10_000))
    fresh = _objects(new, NOW - 5_000)
    return Cluster((*base, *running, *fresh), {one.name: one for one in (*old, *new)})


def read(objects: Iterable[Json], now: int = NOW) -> Snapshot:
    """The objects as plan reads them from a file."""
    harvest = Harvest()
    for one in objects:
        harvest.take("cluster", msgspec.json.encode(one))
    return assemble(harvest.found, Settings(), now).snapshot


def planned(objects: Iterable[Json], settings: Settings, now: int = NOW) -> Outcome:
    """What plan says."""
    return settle(read(objects, now), settings)


def placed(one: Json, at: str, groups: tuple[str, ...], since: int) -> Json:
    """The pod once it runs."""
    names = {"runai-gpu-group": groups[0]} if groups else {}
    about = one["metadata"] | {"labels": one["metadata"]["labels"] | names}
    status = {"phase": "Running", "startTime": written(since)}
    return one | {"metadata": about, "spec": one["spec"] | {"nodeName": at}, "status": status}


# --- the parts


def _nodes(chance: random.Random) -> list[Json]:
    gpus, labelled = chance.choice((2, 4, 8)), chance.random() < 0.5
    made = []
    for number in range(chance.randint(2, 6)):
        labels = {"rack": chance.choice("ab"), "kubernetes.io/hostname": f"n{number}", "pool": chance.choice("xy")}
        if labelled:
            labels["nvidia.com/gpu.memory"] = str(chance.choice(SIZES))
        one = node(f"n{number}", chance.choice((gpus, gpus, 2)), **labels)
        if chance.random() < 0.15:
            one["spec"] = {"taints": [{"key": "only", "value": "some", "effect": "NoSchedule"}]}
        one["status"]["allocatable"]["cpu"] = chance.choice(("8", "64"))
        made.append(one)
    return made


def _queues(chance: random.Random) -> list[Json]:
    made = []
    for top in range(chance.randint(1, 2)):
        leaves = chance.randint(1, 3)
        if leaves == 1:
            made.append(_queue(chance, f"q{top}", "", leaf=True))
            continue
        made.append(_queue(chance, f"q{top}", "", leaf=False))
        made += [_queue(chance, f"q{top}{leaf}", f"q{top}", leaf=True) for leaf in range(leaves)]
    return made


def _queue(chance: random.Random, name: str, parent: str, *, leaf: bool) -> Json:
    quota = chance.choice((0, 1, 2, 4, 8)) if leaf else chance.choice((-1, 8))
    limit = chance.choice((-1, -1, -1, -1, -1, 4.5, 8)) if leaf else chance.choice((-1, -1, 12))
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": chance.choice((1, 1, 2))}
    spec = {"parentQueue": parent, "priority": chance.choice((100, 100, 200)), "resources": {"gpu": gpu}}
    about = meta(name, creationTimestamp=written(NOW - 20_000))
    return {"kind": "Queue", "metadata": about, "spec": spec, "leaf": leaf}


def _workloads(chance: random.Random, leaves: list[str], stem: str, count: int, nodes: list[Json]) -> list[Workload]:
    most = max(int(one["status"]["allocatable"]["nvidia.com/gpu"]) for one in nodes)
    return [_workload(chance, f"{stem}{number}", chance.choice(leaves), most, nodes) for number in range(count)]


def _workload(chance: random.Random, name: str, queue: str, most: int, nodes: list[Json]) -> Workload:
    gpus = chance.choice([size for size in (1, 1, 2, 4, 8) if size <= most])
    made = Workload(
        name, queue, gpus, priority=chance.choice((*PRIORITIES, *["train"] * 6, *["build-preemptible"] * 4))
    )
    made = made._replace(fixed=chance.random() < 0.15, cpu=chance.choice((0, 0, 1, 4)))
    if chance.random() < 0.15:
        made = made._replace(selector=(("pool", chance.choice("xy")),))
    made = made._replace(tolerates=chance.random() < 0.3)
    labelled = all("nvidia.com/gpu.memory" in one["metadata"]["labels"] for one in nodes)
    kind = chance.random()
    if kind < 0.2:
        return made._replace(gpus=0, fraction=chance.choice(("0.25", "0.5", "0.7")))
    if kind < 0.3 and labelled:
        return made._replace(gpus=0, memory=chance.choice((4, 8, 12)) * GIB)
    if kind < 0.6:
        return _gang(chance, made)
    return made._replace(bare=chance.random() < 0.1)


def _gang(chance: random.Random, one: Workload) -> Workload:
    minimum = chance.randint(2, 3)
    made = one._replace(gpus=min(one.gpus, 4), minimum=minimum, size=minimum + chance.choice((0, 0, 0, 1, 2)))
    if chance.random() < 0.25:
        parts = (("head", 1, 1), ("tail", minimum - 1, made.size - 1))
        made = made._replace(parts=parts, minimum=2)
    if chance.random() < 0.3:
        level = chance.choice(("rack", "kubernetes.io/hostname"))
        required = chance.choice((True, False))
        made = made._replace(required=level) if required else made._replace(preferred=level)
    return made


# --- their objects


def _objects(workloads: Iterable[Workload], since: int) -> list[Json]:
    made: list[Json] = []
    for number, one in enumerate(workloads):
        made += _objects_of(one, since + number * SECONDS)
    return made


def _objects_of(one: Workload, since: int) -> Iterator[Json]:
    if one.is_gang:
        yield _group(one, since)
    parts = [name for name, _, count in one.parts for _ in range(count)] or [""] * one.size
    for number, part in enumerate(parts):
        yield _pod(one, f"{one.name}-{number}", part, since + number)


def _group(one: Workload, since: int) -> Json:
    spec: Json = {"minMember": one.minimum, "queue": one.queue, "priorityClassName": one.priority}
    if one.fixed:
        spec["preemptibility"] = "non-preemptible"
    if one.parts:
        spec["subGroups"] = [{"name": name, "minMember": least} for name, least, _ in one.parts]
    if one.required or one.preferred:
        levels = {"requiredTopologyLevel": one.required, "preferredTopologyLevel": one.preferred}
        spec["topologyConstraint"] = {"topology": "racks"} | {key: value for key, value in levels.items() if value}
    return {"kind": "PodGroup", "metadata": meta(one.name, "ns", creationTimestamp=written(since)), "spec": spec}


def _pod(one: Workload, name: str, part: str, since: int) -> Json:
    labels = {LABEL: one.name} | ({"kai.scheduler/subgroup-name": part} if part else {})
    asks = {"gpu-fraction": one.fraction, "gpu-memory": str(one.memory or "")}
    notes = {key: value for key, value in asks.items() if value} | ({"pod-group-name": one.name} if one.is_gang else {})
    made = pod(name, one.queue, one.gpus, fixed=one.fixed, labels=labels, annotations=notes, created=written(since))
    made["spec"] |= _spec(one)
    if one.cpu:
        made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": str(one.cpu)}
    if not one.bare:
        job = {"apiVersion": "batch/v1", "uid": f"job-{one.name}", "kind": "Job", "name": one.name, "controller": True}
        made["metadata"]["ownerReferences"] = [job]
    return made


def _spec(one: Workload) -> Json:
    made: Json = {"priorityClassName": one.priority, "priority": PRIORITIES[one.priority]}
    if one.selector:
        made["nodeSelector"] = dict(one.selector)
    if one.tolerates:
        made["tolerations"] = [{"key": "only", "operator": "Exists"}]
    return made


def _left_over(chance: random.Random, base: list[Json], objects: list[Json]) -> list[Json]:
    """The objects once their pods have been placed and some of the workloads have ended."""
    final = planned([*base, *objects], Settings(max_moved=0), NOW - 6_000).final
    ended = {one["metadata"]["labels"][LABEL] for one in objects if one["kind"] == "Pod" and chance.random() < 0.15}
    stay: list[Json] = []
    for one in objects:
        if one["kind"] != "Pod":
            stay.append(one)
        elif one["metadata"]["labels"][LABEL] not in ended:
            end = final[f"ns/{one['metadata']['name']}"]
            runs = end.state in (FinalState.RUNNING, FinalState.BOUND)
            stay.append(placed(one, end.node, end.groups, NOW - 6_000) if runs else one)
    return stay
