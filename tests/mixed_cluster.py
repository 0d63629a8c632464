"""A cluster with something of everything, of any size: for tests and benchmarks of what its size must not slow down.

Nothing is left to chance: a size gives one cluster. Of each node's eight GPUs six or eight are taken, by teams without
a quota. One team has a quota, pods that wait, and none that run: so there is something to take back.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuyard.engine.model import Promise, Shape

from tests.extender.builders import Json, group, meta, node, pod, queue, topology

RACK = 16
"""Nodes of one rack."""

TEAMS = 19
"""Teams of one department: with the department itself 20 queues."""


DUE = 20
"""The quota of one team. It is the same in each cluster, as a search for victims has many steps."""

URGENT = 24
"""Only pods with a lower number may take from others by their priority, for the same reason."""

OWED = "d0-t18"
"""The team that has a quota."""


class Size(NamedTuple):
    """How much of everything there is."""

    nodes: int

    @property
    def pods(self) -> int:
        """How many pods there are: 10 a node."""
        return 10 * self.nodes

    @property
    def waiting(self) -> int:
        """How many of them wait, apart from gangs."""
        return self.nodes // 5

    @property
    def departments(self) -> int:
        """Queues of the upper level; of both levels there are 20 times as many."""
        return max(1, self.nodes // 250)

    @property
    def apps(self) -> int:
        """Groups of pods with a label and a disruption budget each."""
        return max(2, self.nodes // 5)

    @property
    def crowd(self) -> int:
        """How many pods the largest gang has."""
        return self.nodes // 5


def cluster(size: Size) -> Iterator[Json]:
    """All objects, in an order in which watches may show them."""
    yield topology("racks", "zone", "rack")
    yield from _namespaces(size)
    yield from queues(size)
    yield from (one_node(n) for n in range(size.nodes))
    yield from (budget(n) for n in range(size.apps))
    yield from groups(size)
    yield from running(size)
    yield from waiting(size)


def queues(size: Size) -> Iterator[Json]:
    """Departments and their teams, of which one has a quota that it does not use."""
    for d in range(size.departments):
        yield queue(f"d{d}")
        for t in range(TEAMS):
            yield one_queue(f"d{d}-t{t}", f"d{d}")


def one_queue(called: str, parent: str, limit: int = 10_000) -> Json:
    """A team, which is due its quota and nothing of what others leave."""
    made = queue(called, limit, DUE if called == OWED else 0, parent=parent)
    made["spec"]["resources"]["gpu"]["overQuotaWeight"] = 0
    return made


def team(size: Size, number: int) -> str:
    """One team without a quota after the other."""
    return f"d{number % size.departments}-t{number // size.departments % (TEAMS - 1)}"


def one_node(n: int, gpus: int = 8) -> Json:
    """A node of 8 GPUs, in a rack, in one of three zones."""
    rack = n // RACK
    labels = {"zone": f"z{rack % 3}", "rack": f"r{rack}", "host": name(n), "nvidia.com/gpu.memory": "81920"}
    return node(name(n), gpus, **labels)


def name(n: int) -> str:
    """The name of a node."""
    return f"node-{n:05}"


def budget(n: int, allowed: int = 1) -> Json:
    """The disruption budget of an app."""
    spec = {"selector": {"matchLabels": {"app": f"app-{n}"}}}
    about = {"metadata": meta(f"budget-{n}", "ns"), "spec": spec, "status": {"disruptionsAllowed": allowed}}
    return {"kind": "PodDisruptionBudget"} | about


def groups(size: Size) -> Iterator[Json]:
    """The PodGroups of the gangs that run, of those that wait, and of the largest one."""
    for n in range(size.nodes // 4):
        yield _in_rack(group(f"runs-{n}", 4, team(size, n)))
    for n in range(size.nodes // 100):
        yield group(f"plain-{n}", 8, team(size, n))
        yield _in_rack(group(f"near-{n}", 8, team(size, n)))
        yield group(f"beside-{n}", 4, team(size, n))
    yield crowd_group(size)


def crowd_group(size: Size, minimum: int | None = None, to: str = "d0-t0") -> Json:
    """The PodGroup of the largest gang."""
    return group("crowd", size.crowd if minimum is None else minimum, to)


def crowd(size: Size) -> Iterator[Json]:
    """The pods of the largest gang, which runs on all nodes in turn and takes no GPU."""
    for n in range(size.crowd):
        yield pod(f"crowd-{n}", "d0-t0", 0, on=name(n % size.nodes), annotations={"pod-group-name": "crowd"})


def running(size: Size) -> Iterator[Json]:
    """Ten pods on each node, but for those that wait instead."""
    for n in range(size.nodes):
        here = name(n)
        yield single(size, n)
        yield pod(f"pair-{n}", team(size, n), 2 if n % 10 else 1, on=here, ownerReferences=[])
        yield pod(f"gang-{n}", team(size, n // 4), on=here, annotations=_gang(f"runs-{n // 4}"))
        yield app(size, n)
        for part in range(2):
            yield half(size, n, part)
        yield pod(f"big-{n}", team(size, n), 2 if n % 10 else 1, on=here)
        for helper in range(2):
            yield pod(f"cpu-{n}-{helper}", gpus=0, on=here, labels={"app": f"app-{n % size.apps}"})
    yield from crowd(size)


def single(size: Size, n: int, **more: str) -> Json:
    """A pod with one GPU."""
    return pod(f"one-{n}", team(size, n), on=name(n), labels={"app": f"app-{n % size.apps}"} | more)


def app(size: Size, n: int) -> Json:
    """A pod that keeps off the nodes of its own app."""
    label = {"app": f"app-{n % size.apps}"}
    return pod(f"app-{n}", team(size, n), on=name(n), labels=label, affinity=_avoids("host", label))


def half(size: Size, n: int, part: int) -> Json:
    """A pod with half a GPU, beside another one."""
    notes = {"gpu-fraction": "0.5"}
    labels = {"runai-gpu-group": f"card-{n}"}
    return pod(f"half-{n}-{part}", team(size, n), 0, on=name(n), labels=labels, annotations=notes)


def waiting(size: Size) -> Iterator[Json]:
    """Pods of twelve kinds that wait in turn, and gangs."""
    for n in range(size.waiting):
        yield waits(size, n)
    for n in range(size.nodes // 100):
        for member in range(8):
            yield pod(f"plain-{n}-{member}", team(size, n), annotations=_gang(f"plain-{n}"))
            yield pod(f"near-{n}-{member}", team(size, n), annotations=_gang(f"near-{n}"))
        yield from _beside(size, n)
    for n in range(DUE // 4):
        yield pod(f"owed-{n}", OWED, gpus=(1, 2, 8)[n % 3])


def waits(size: Size, n: int) -> Json:
    """A pod that waits; the number says of which kind."""
    own = {"app": f"app-{n % size.apps}"}
    kinds: list[Json] = [
        {"queue": team(size, n)},
        {"queue": team(size, n)},
        {"queue": team(size, n), "gpus": 0, "annotations": {"gpu-fraction": "0.5"}},
        {"queue": team(size, n), "gpus": 0, "annotations": {"gpu-memory": "20000"}},
        {"queue": team(size, n), "affinity": _avoids("host", own)},
        {"queue": team(size, n), "affinity": _seeks("zone", own)},
        {"queue": team(size, n), "affinity": _prefers("zone", own)},
        {"queue": team(size, n), "gpus": 4, "nodeSelector": {"zone": f"z{n % 3}"}},
        {"queue": "unheard-of"},
        {"verdict": "0/9 nodes are available"},
        {"queue": team(size, n), "priorityClassName": "inference" if n < URGENT else "", "verdict": "no room"},
        {
            "queue": team(size, n),
            "gpus": 0,
            "annotations": {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"},
        },
    ]
    return pod(f"waits-{n}", labels=own, **kinds[n % len(kinds)])


def promises(size: Size) -> Iterable[Promise]:
    """What plans keep for some of those who wait."""
    return [
        Promise(
            plan=f"reclaim-{n}",
            pod=f"ns/waits-{12 * n + 1}",
            node=name(n),
            shape=Shape(gpus=1),
            queue=team(size, 12 * n + 1),
        )
        for n in range(size.waiting // 12)
    ]


def _namespaces(size: Size) -> Iterator[Json]:
    yield namespace("ns")
    for n in range(20 * size.departments):
        yield namespace(f"team-{n}")


def namespace(called: str, to: str = "") -> Json:
    """A namespace, with or without the label that names a queue."""
    labels = {"kai.scheduler/queue": to} if to else {}
    return {"kind": "Namespace", "metadata": meta(called, labels=labels)}


def _beside(size: Size, n: int) -> Iterator[Json]:
    """A gang whose pods seek the zone of an app and keep off each other's nodes."""
    label = {"app": f"beside-{n}"}
    rules = _seeks("zone", {"app": f"app-{n % size.apps}"}) | _avoids("host", label)
    for member in range(4):
        notes = _gang(f"beside-{n}")
        yield pod(f"beside-{n}-{member}", team(size, n), labels=label, annotations=notes, affinity=rules)


def _gang(called: str) -> Json:
    return {"pod-group-name": called}


def _in_rack(seen: Json) -> Json:
    seen["spec"]["topologyConstraint"] = {"topology": "racks", "requiredTopologyLevel": "rack"}
    return seen


def _term(key: str, labels: Json) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _seeks(key: str, labels: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(key, labels)]}}


def _avoids(key: str, labels: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(key, labels)]}}


def _prefers(key: str, labels: Json) -> Json:
    wish = {"weight": 5, "podAffinityTerm": _term(key, labels)}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
