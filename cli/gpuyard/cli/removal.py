"""Takes gpuyard out of a cluster, step by step; every step may be repeated, and says what it removed.

workloads end ──▶ nodes are cleaned ──▶ objects, namespace, CRDs ──▶ what kubelets held is cleaned

Decided in docs/decisions.md: "Uninstall waits for kubelet".
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from gpuyard.cli import remains
from gpuyard.cli.inventory import INSTANCE, PART_OF, Kind, Thing, kinds, ours, strangers
from gpuyard.common.effects.move import OF_PLAN, Found, bring_back, is_genuine
from gpuyard.common.effects.poke import POKE
from gpuyard.common.kube.client import Client, Json, Patch, Selector
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONTROLLER_REVISIONS, NODES, PLANS, PODS, Resource
from gpuyard.common.node_labels import MANAGER, LabelledNode, body, owned
from gpuyard.common.plans.plan import Kept, Plan
from gpuyard.common.topology.cluster_node import ClusterNode

HALVES: Mapping[str, str] = {"mock": "gpuyard-mock", "extender": "gpuyard"}
"""Each half of gpuyard, and its namespace."""

Held = dict[str, set[str]]
"""Nodes, and the resources that their kubelets still hold."""

WORKLOADS = ("Deployment", "DaemonSet", "CronJob", "Job")
CRD = "CustomResourceDefinition"
HISTORY = "plans.gpuyard.io"
GONE_WITHIN = 180.0
LET_GO_WITHIN = 7 * 60.0
POLL = 1.0


class _Move(NamedTuple):
    """A pod that was being moved, and what a plan says was kept of it."""

    pod: str
    kept: Kept


class Removal:
    """One run of `gpuyard uninstall`."""

    def __init__(
        self,
        client: Client,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._say = say
        self._clock = clock
        self._sleep = sleep

    async def run(self, halves: Iterable[str], *, wait: bool, crds: bool) -> list[str]:
        """Remove these halves; what could not be removed, as sentences."""
        known = await kinds(self._client)
        left: list[str] = []
        held: Held = {}
        for half in halves:
            found = await ours(self._client, known, half)
            left += await self._end_workloads(half, found)
            if half == "mock":
                held = await self._clean_nodes()
            else:
                await self._clean_pods()
                left += await self._finish_moves()
            left += await self._remove(half, found, known)
            await self._remove_crds(found, everything=crds)
        return left + await self._let_go(held, wait=wait)

    async def planned(self, halves: Iterable[str]) -> list[str]:
        """The objects that carry our labels, each as kind, namespace and name."""
        known = await kinds(self._client)
        found = [thing for half in halves for thing in await ours(self._client, known, half)]
        return sorted(f"{thing.resource.kind} {thing.meta.key}" for thing in found)

    async def _end_workloads(self, half: str, found: Iterable[Thing]) -> list[str]:
        """End what would write again; return when it has ended."""
        workloads = [thing for thing in found if thing.resource.kind in WORKLOADS]
        for thing in workloads:
            await self._delete(thing)
        if workloads and half == "extender":
            self._say("until kube-scheduler is told not to ask the extender any more, pods that ask for GPUs wait")
        selector = Selector(labels=f"{PART_OF}=gpuyard,{INSTANCE}={half}")

        async def ended() -> bool:
            return not await self._client.items(PODS.within(HALVES[half]), selector)

        return [] if await self._until(ended) else [f"pods in namespace {HALVES[half]} do not end"]

    # --- nodes and pods ---

    async def _clean_nodes(self) -> Held:
        """Take our labels and entries off all nodes; which entries kubelet still holds, by node."""
        held: Held = {}
        for item in await self._client.items(NODES.within()):
            node = msgspec.convert(item, ClusterNode)
            await self._clean_labels(item)
            if found := remains.held(node):
                held[node.metadata.name] = found
            await self._clean_entries(node, remains.entries(node) - found)
        return held

    async def _clean_labels(self, item: Json) -> None:
        node = msgspec.convert(item, LabelledNode)
        if labels := owned(node):
            name = node.metadata.name
            await self._client.apply(NODES.named(name), body(name, {}), manager=MANAGER)
            self._say(f"node {name}: {len(labels)} labels removed ({', '.join(sorted(labels)[:3])}, ...)")

    async def _clean_entries(self, node: ClusterNode, names: set[str]) -> None:
        """Take entries away, and our marks with the last of them."""
        address = NODES.named(node.metadata.name)
        if names:
            await self._client.patch(address.sub("status"), remains.without(names), Patch.STRATEGIC)
            self._say(f"node {node.metadata.name}: {', '.join(sorted(names))} removed from its status")
        if (node.marked or node.noted) and not remains.held(node):
            await self._client.patch(address, remains.unmarked())
            self._say(f"node {node.metadata.name}: is no mock node any more")

    async def _let_go(self, held: Held, *, wait: bool) -> list[str]:
        """Clean the nodes again until no kubelet holds an entry."""
        if held:
            self._say("kubelets let go of a resource five minutes after its plugin has ended: " + _told(held))

        async def free() -> bool:
            nonlocal held
            held = await self._clean_nodes()
            return not held

        if not held or (wait and await self._until(free, LET_GO_WITHIN)):
            return []
        return [f"kubelets still hold {_told(held)}; run this again after five minutes"]

    async def _clean_pods(self) -> None:
        """Take the annotation away by which waiting pods were woken."""
        poked = [
            pod for pod in await self._client.items(PODS.within()) if POKE in pod["metadata"].get("annotations", {})
        ]
        for pod in poked:
            meta = pod["metadata"]
            await self._try(self._client.patch(PODS.named(meta["name"], meta["namespace"]), _UNPOKED))
        if poked:
            self._say(f"{len(poked)} pods: annotation {POKE} removed")

    async def _finish_moves(self) -> list[str]:
        """Make the pods anew that were on their way to another node: their specs are in our keeping alone."""
        moves = await self._moves()
        revisions = await self._client.items(CONTROLLER_REVISIONS.within(), Selector(labels=OF_PLAN))
        return [problem for each in revisions if (problem := await self._finish_move(each, moves))]

    async def _moves(self) -> Mapping[str, _Move]:
        """What the plans say is kept of moved pods, by the UID of the ControllerRevision."""
        try:
            found = [_read(item) for item in await self._client.items(PLANS.within())]
        except ApiError as error:
            if not error.not_found:
                raise
            return {}
        plans = [plan for plan in found if plan is not None]
        moves = ((plan.victims.get(kept.uid), kept) for plan in plans for kept in plan.status.kept)
        return {kept.revision: _Move(victim.pod, kept) for victim, kept in moves if victim is not None}

    async def _finish_move(self, revision: Json, moves: Mapping[str, _Move]) -> str:
        meta = revision["metadata"]
        what, move = f"ControllerRevision {meta['namespace']}/{meta['name']}", moves.get(meta["uid"])
        forged = f"{what} is not what a plan says was kept of a pod: no pod is created from it; look at it, delete it"
        if move is None or not is_genuine(revision, move.kept):
            return forged
        found = Found.LEAVING

        async def back() -> bool:
            nonlocal found
            found = await bring_back(self._client, move.pod, move.kept)
            return found is not Found.LEAVING

        try:
            if not await self._until(back):
                return f"pod {move.pod} should have been moved and does not end; {what} keeps its spec"
        except ApiError as error:
            return f"pod {move.pod} was being moved and cannot be created: {error.message}; {what} keeps its spec"
        if found is Found.FORGED:
            return forged
        if found is Found.LOST:
            return f"pod {move.pod} was being moved and cannot be created: somebody has deleted {what}, with its spec"
        self._say(f"pod {move.pod} was being moved, and is there again")
        return ""

    # --- objects ---

    async def _remove(self, half: str, found: Iterable[Thing], known: Iterable[Kind]) -> list[str]:
        """Remove the objects, and the namespace unless somebody else uses it."""
        rest = [thing for thing in found if thing.resource.kind not in (CRD, *WORKLOADS)]
        namespaces = [thing for thing in rest if thing.resource.kind == "Namespace"]
        others = await strangers(self._client, known, HALVES[half]) if namespaces else []
        if others:
            self._say(f"namespace {HALVES[half]} stays: {', '.join(map(str, others))} is not ours")
        going = namespaces if not others else []
        inside = {thing.meta.name for thing in going}
        for thing in rest:
            if thing not in namespaces and thing.meta.namespace not in inside:
                await self._delete(thing)
        for thing in going:
            await self._delete(thing)

        async def gone() -> bool:
            return not any([await self._exists(thing) for thing in going])

        return [] if await self._until(gone) else [f"namespace {HALVES[half]} does not end"]

    async def _remove_crds(self, found: Iterable[Thing], *, everything: bool) -> None:
        """Remove the CRD of plans, which are our own notes, and others if nobody's objects go with them."""
        for thing in found:
            if thing.resource.kind != CRD:
                continue
            objects = 0 if everything or thing.meta.name == HISTORY else await self._objects_of(thing)
            if objects:
                self._say(f"CRD {thing.meta.name} stays: there are {objects} objects of it (--crds removes both)")
            else:
                await self._delete(thing)

    async def _objects_of(self, crd: Thing) -> int:
        spec = (await self._client.get(crd.address))["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        resource = Resource(f"{spec['group']}/{version}", spec["names"]["plural"], spec["names"]["kind"])
        return len(await self._client.items(resource.within()))

    async def _delete(self, thing: Thing) -> None:
        # A Job would leave its pods behind, if nothing were said.
        if await self._try(self._client.delete(thing.address, propagation="Background")):
            self._say(f"{thing} removed")

    async def _exists(self, thing: Thing) -> bool:
        return await self._try(self._client.get(thing.address))

    async def _try(self, call: Awaitable[object]) -> bool:
        """Whether the object was there."""
        try:
            await call
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    async def _until(self, check: Callable[[], Awaitable[bool]], within: float = GONE_WITHIN) -> bool:
        deadline = self._clock() + within
        while not await check():
            if self._clock() > deadline:
                return False
            await self._sleep(POLL)
        return True


def _read(plan: Json) -> Plan | None:
    """A plan, or None for an object that is not a plan as we write them."""
    try:
        return msgspec.convert(plan, Plan)
    except msgspec.ValidationError:
        return None


_UNPOKED: Json = {"metadata": {"annotations": {POKE: None}}}


def _told(held: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(f"{', '.join(sorted(names))} of node {node}" for node, names in sorted(held.items()))
