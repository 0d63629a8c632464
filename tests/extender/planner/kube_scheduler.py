"""A kube-scheduler in memory, as far as the verbs can tell: its queue, its own checks, its preemption, nominated nodes.

It counts whole GPUs, cpu, selectors and taints. Of parts of GPUs, queues and gangs it knows nothing.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec
from gpuyard.extender.http.wire import CANDIDATES, PREEMPTION, Candidates
from gpuyard.extender.verbs.verbs import Verbs

from tests.extender.builders import Json, at_once

GPUS = "Insufficient nvidia.com/gpu"
CPU = "Insufficient cpu"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
TAINT = "node(s) had untolerated taint(s)"
FLUSH = 300.0
"""Seconds after which a refused pod is looked at again whatever happens."""


class Room(NamedTuple):
    """Whole GPUs and millicores."""

    gpus: int = 0
    cpu: float = 0

    def less(self, other: "Room") -> "Room":
        return Room(self.gpus - other.gpus, self.cpu - other.cpu)

    def lack(self, asked: "Room") -> str:
        """What there is too little of; empty: nothing."""
        if asked.gpus > self.gpus:
            return GPUS
        return CPU if asked.cpu > self.cpu else ""


class Refused(NamedTuple):
    """Nothing for a pod: why, by cause with so many nodes, and the nodes that evictions may make fit."""

    causes: Counter[str]
    curable: tuple[str, ...]


class _Queued(msgspec.Struct):
    tries: int = 0
    ready: float = 0.0
    asleep: bool = False


class ApiServer(Protocol):
    """What the scheduler does to the cluster, and sees of it."""

    pods: dict[str, Json]
    nodes: dict[str, Json]

    async def bind(self, one: Json, node: str) -> str: ...

    def delete(self, name: str) -> None: ...

    def set_status(self, name: str, nominated: str, message: str) -> None: ...


class KubeScheduler:
    """Takes the pods that wait one by one: the highest priority first, then the one that has waited for longest."""

    def __init__(self, api: ApiServer, verbs: Verbs, chance: random.Random) -> None:
        self._api = api
        self._verbs = verbs
        self._chance = chance
        self._queue: dict[str, _Queued] = {}

    def wake(self, name: str) -> None:
        """This pod has changed."""
        if name in self._queue:
            self._queue[name].asleep = False

    def wake_all(self) -> None:
        """Somebody has left."""
        for one in self._queue.values():
            one.asleep = False

    async def run(self, now: float) -> None:
        """Look at all that are ready, as they are by now."""
        waiting = {name: one for name, one in self._api.pods.items() if _waits(one)}
        self._queue = {name: self._queue.get(name, _Queued()) for name in waiting}
        for name in sorted((name for name, one in self._queue.items() if self._is_ready(one, now)), key=self._order):
            if name in self._api.pods:
                await self._schedule(name, now)

    def _order(self, name: str) -> tuple[int, float, str, str]:
        one = self._api.pods[name]
        return -priority(one), self._queue[name].ready, one["metadata"]["creationTimestamp"], name

    def _is_ready(self, one: _Queued, now: float) -> bool:
        return now >= one.ready + FLUSH if one.asleep else now >= one.ready

    async def _schedule(self, name: str, now: float) -> None:
        one = self._api.pods[name]
        found = self._place(one)
        if isinstance(found, str):
            refused = await self._api.bind(one, found)
            if not refused:
                return
            found = Refused(Counter({refused: 1}), ())
        state = self._queue[name]
        state.tries += 1
        state.asleep, state.ready = True, now + min(10.0, 2.0 ** (state.tries - 1))
        nominated = self._preempt(one, found.curable)
        self._api.set_status(name, nominated, _message(found.causes, len(self._api.nodes)))

    # --- where a pod may go

    def _place(self, one: Json) -> str | Refused:
        causes: dict[str, str] = {}
        for name in sorted(self._api.nodes):
            if why := self._check(one, name):
                causes[name] = why
        fits = [name for name in sorted(self._api.nodes) if name not in causes]
        nominated = one["status"].get("nominatedNodeName", "")
        if nominated in fits and self._filter(one, [nominated])[0]:
            return str(nominated)
        curable = tuple(name for name, why in causes.items() if why in (GPUS, CPU))
        if not fits:
            return Refused(Counter(causes.values()), curable)
        survive, refused = self._filter(one, fits)
        if survive:
            return self._best(one, survive)
        return Refused(Counter([*causes.values(), *refused.values()]), curable)

    def _filter(self, one: Json, nodes: list[str]) -> tuple[list[str], dict[str, str]]:
        self._chance.shuffle(nodes)
        answer = at_once(self._verbs.filter(_asked(one, nodes)))
        assert not answer.error, answer.error
        refused = answer.failed_and_unresolvable_nodes
        return answer.node_names or [], {node: refused[node] for node in nodes if node in refused}

    def _best(self, one: Json, nodes: list[str]) -> str:
        if len(nodes) == 1:
            return nodes[0]
        points = {found.host: found.score for found in self._verbs.prioritize(_asked(one, nodes))}
        most = max(points.values())
        return self._chance.choice([node for node in nodes if points[node] == most])

    def _check(self, one: Json, name: str) -> str:
        """Why the pod may not stand there by the scheduler's own checks; empty: it may."""
        node, spec = self._api.nodes[name], one["spec"]
        labels = node["metadata"]["labels"]
        if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return SELECTOR
        if node.get("spec", {}).get("taints") and not spec.get("tolerations"):
            return TAINT
        others = [two for two in self._on(name) if two is not one]
        nominated = (two for two in self._nominated(name) if two is not one and priority(two) >= priority(one))
        return self._left(name, [*others, *nominated]).lack(request(one))

    def _on(self, node: str) -> Iterator[Json]:
        return (one for one in self._api.pods.values() if one["spec"]["nodeName"] == node)

    def _nominated(self, node: str) -> Iterator[Json]:
        return (
            two for two in self._api.pods.values() if two["status"].get("nominatedNodeName") == node and _waits(two)
        )

    def _left(self, name: str, others: Iterable[Json]) -> Room:
        has = self._api.nodes[name]["status"]["allocatable"]
        left = Room(int(has["nvidia.com/gpu"]), float(has["cpu"]))
        for one in others:
            left = left.less(request(one))
        return left

    # --- preemption

    def _preempt(self, one: Json, curable: Collection[str]) -> str:
        """The node that is nominated; empty: none is."""
        before = str(one["status"].get("nominatedNodeName", ""))
        if before and any(_leaves(two) and priority(two) < priority(one) for two in self._on(before)):
            return before
        proposal = {node: victims for node in sorted(curable) if (victims := self._victims(one, node))}
        if not proposal:
            return ""
        asked = {node: {"pods": [{"UID": _uid(two)} for two in victims]} for node, victims in proposal.items()}
        body = msgspec.json.encode({"Pod": one, "NodeNameToMetaVictims": asked})
        answer = at_once(self._verbs.preempt(PREEMPTION.read(body))).node_name_to_meta_victims
        chosen = {node: {two.uid for two in victims.pods or ()} for node, victims in answer.items()}
        left = {node: [two for two in self._on(node) if _uid(two) in uids] for node, uids in chosen.items()}
        if not left:
            return ""
        node = min(left, key=lambda node: (*_price(left[node]), node))
        for victim in left[node]:
            self._api.delete(victim["metadata"]["name"])
        return node

    def _victims(self, one: Json, node: str) -> list[Json]:
        """Whom the scheduler would evict there: all of lower priority, less those who can stay."""
        here = list(self._on(node))
        lower = sorted((two for two in here if priority(two) < priority(one)), key=_importance)
        nominated = [two for two in self._nominated(node) if two is not one and priority(two) >= priority(one)]
        stay = [two for two in here if two not in lower] + nominated
        if self._left(node, stay).lack(request(one)):
            return []
        victims = []
        for two in lower:
            if self._left(node, [*stay, two]).lack(request(one)):
                victims.append(two)
            else:
                stay.append(two)
        return victims


def priority(one: Json) -> int:
    """The value of a pod's class."""
    return int(one["spec"]["priority"])


def request(one: Json) -> Room:
    """What a pod takes of a node by the scheduler's count."""
    resources = one["spec"]["containers"][0]["resources"]
    gpus = int(resources.get("limits", {}).get("nvidia.com/gpu", 0))
    return Room(gpus, float(resources.get("requests", {}).get("cpu", 0)))


def _asked(one: Json, nodes: list[str]) -> Candidates:
    return CANDIDATES.read(msgspec.json.encode({"Pod": one, "Nodes": None, "NodeNames": nodes}))


def _importance(one: Json) -> tuple[int, str]:
    return -priority(one), one["status"].get("startTime", "")


def _price(victims: list[Json]) -> tuple[int, int, int]:
    values = [priority(one) for one in victims]
    return max(values), sum(values), len(values)


def _uid(one: Json) -> str:
    return str(one["metadata"]["uid"])


def _waits(one: Json) -> bool:
    return not one["spec"]["nodeName"] and not _leaves(one)


def _leaves(one: Json) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _message(causes: Counter[str], nodes: int) -> str:
    said = ", ".join(sorted(f"{count} {cause}" for cause, count in causes.items()))
    return f"0/{nodes} nodes are available: {said}."
