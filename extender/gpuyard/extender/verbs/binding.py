"""`bind`: where kube-scheduler leaves the binding to us, so that part of a GPU comes with the name of that GPU.

    the pod                                                      what is done
    unknown, or of another UID                                   waited for a moment, then refused
    bound                                                        compared with the node that is asked for
    waits, and filter let it through to this node                bound
    waits, and the grant is over, or was adopted from a leader   bound if its gates and the node's room allow it now
    waits, and was let through to other nodes                    refused
    waits, and no queue governs it                               bound, unless the settings ask for a queue

The GPU is chosen and reserved in one step, before the API server is asked: several pods are bound at once.

Decided in docs/decisions.md: "bind only where GPUs are shared".
"""

from collections.abc import Callable

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.effects.bind import bind
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.resources import PODS
from gpuyard.common.logs import get_logger
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.extender.http.server import Unavailable
from gpuyard.extender.http.wire import BindAnswer, Binding
from gpuyard.extender.ledger import NOT_SEEN_SENTENCE, Entry, Grant, Ledger, Phase
from gpuyard.extender.verbs.node_room import NodeRoom

LANDING = 10.0
"""Seconds that the watch may need to show what the API server has bound."""

NO_WAY = "gpuyard is starting: it has no way to the API server yet"

log = get_logger()


class Binder:
    """Answers `bind`; `client` is None until there is a way to the API server."""

    def __init__(
        self,
        ledger: Ledger,
        may_bind: Callable[[Sighting, str], str],
        strategy: Callable[[], Strategy],
        *,
        unavailable: Callable[[], Unavailable | None],
        clock: Callable[[], float],
    ) -> None:
        """`may_bind` says why a pod without a grant may not be bound to a node; nothing: it may.

        By `strategy` the GPU is chosen of which a pod gets a part.
        """
        self.client: Client | None = None
        self._ledger = ledger
        self._may_bind = may_bind
        self._strategy = strategy
        self._unavailable = unavailable
        self._clock = clock

    async def bind(self, request: Binding) -> BindAnswer:
        """Bind the pod to its node; a pod that is bound there already is one more success."""
        known = await self._known(request)
        if problem := self._unavailable():
            raise problem
        if self.client is None:
            raise Unavailable(NO_WAY)
        if known is None:
            return BindAnswer(NOT_SEEN_SENTENCE)
        if known.phase is Phase.BOUND:
            return BindAnswer(_compared(request, known.seen.pod.node))
        if refused := self._refusal(known, request.node):
            return BindAnswer(refused)
        groups = self._reserve(known, request.node)
        if groups is None:
            self._release(request)
            return BindAnswer(f"node {request.node} has no GPU with room for this part any more")
        return BindAnswer(await self._post(self.client, request, groups))

    async def _known(self, request: Binding) -> Entry | None:
        """The pod as the ledger has it; kube-scheduler may be a moment ahead of the watch."""
        arrivals, now = self._ledger.arrivals, self._clock()
        if self._ledger.seen(_key(request), request.pod_uid) is None and (longest := arrivals.longest_wait(now)):
            await arrivals.wait(request.pod_uid, 0, now, longest)
        entry = self._ledger.entries.get(_key(request))
        return entry if entry is not None and entry.seen.pod.uid == request.pod_uid else None

    def _refusal(self, entry: Entry, node: str) -> str:
        """Why a waiting pod may not be bound to this node; empty: it may."""
        if self._ledger.has_ended(entry.seen):
            return f"pod {entry.seen.pod.key} has ended, or is being deleted"
        if node not in self._ledger.snapshot.fleet.nodes:
            return f"gpuyard knows no node {node}"
        granted = entry.reservation.grant.names if entry.reservation else ()
        if granted and node not in granted:
            return f"pod {entry.seen.pod.key} was not let through to node {node}"
        return "" if granted else self._may_bind(entry.seen, node)

    def _reserve(self, entry: Entry, node: str) -> tuple[str, ...] | None:
        """Count the pod on its node from now on: on which shared GPUs; None where they have no room for it."""
        groups = self._shared_gpus(entry, node) if entry.seen.pod.shape.shared else ()
        if groups is not None:
            now = self._clock()
            until = max(now + LANDING, entry.reservation.until if entry.reservation else now)
            self._ledger.reserve(entry.seen, Grant(node, groups=groups), now=now, until=until)
        return groups

    def _shared_gpus(self, entry: Entry, node: str) -> tuple[str, ...] | None:
        kept = self._ledger.place_kept(entry.seen.pod)
        if kept and kept.node == node and kept.groups:
            return kept.groups
        room = NodeRoom(self._ledger.waiting(entry.seen), self._ledger, entry.seen.pod, self._strategy())
        return room.shared_gpus(node)

    async def _post(self, client: Client, request: Binding, groups: tuple[str, ...]) -> str:
        """Ask the API server; empty when the pod is bound, else why not."""
        try:
            await bind(client, _key(request), request.pod_uid, request.node, groups)
        except ApiError as error:
            return await self._second_look(client, request, error)
        except KubeError as error:
            # It may have happened all the same: what is reserved stays until the watch tells, or its time is over.
            return str(error)
        log.info("bound", pod=_key(request), node=request.node, gpus=groups)
        return ""

    async def _second_look(self, client: Client, request: Binding, refused: ApiError) -> str:
        """Whether a binding was refused because it had been made before."""
        why = str(refused)
        if refused.conflict:
            try:
                found = await client.get(PODS.named(request.pod_name, request.pod_namespace))
            except KubeError as error:
                return f"{refused}; {error}"
            if found["metadata"]["uid"] == request.pod_uid and found["spec"].get("nodeName"):
                why = _compared(request, found["spec"]["nodeName"])
        if why:
            self._release(request)
        return why

    def _release(self, request: Binding) -> None:
        self._ledger.lapse(_key(request), request.pod_uid)


def _key(request: Binding) -> str:
    return f"{request.pod_namespace}/{request.pod_name}"


def _compared(request: Binding, node: str) -> str:
    return "" if node == request.node else f"pod {_key(request)} is bound to node {node} already"
