"""Who has how many GPUs and who waits: queues as a tree, nodes, pods. Values first, then the page for people."""

from collections import Counter
from collections.abc import Mapping

import msgspec
from gpuyard.cli.answer import amounts, number
from gpuyard.cli.drawing import GAP, Page, Section, drawn
from gpuyard.engine.explain.sentences import told
from gpuyard.engine.model import GPU, UNLIMITED, Node, Pod, Queue
from gpuyard.engine.model.results import FinalState, Outcome
from gpuyard.engine.model.snapshot import Snapshot

Number = int | float
ByResource = Mapping[str, Number]

NOT_GOVERNED = "(not governed)"


class QueueRow(msgspec.Struct, kw_only=True, rename="camel"):
    """One queue, in the units of a Queue; what waits counts for all queues above."""

    name: str
    parent: str
    level: int
    quota: ByResource
    limit: ByResource
    fair_share: ByResource
    used: ByResource
    waiting_pods: int
    waiting_gpus: Number


class NodeRow(msgspec.Struct, kw_only=True):
    """One node with GPUs, or that had some."""

    name: str
    state: str
    gpus: int
    used: Number
    free: Number
    pods: int
    """Those that hold GPUs of it."""


class PodRow(msgspec.Struct, kw_only=True):
    """One pod that holds GPUs or asks for some."""

    pod: str
    queue: str
    """Empty: it is not governed."""
    gpus: Number
    state: str
    node: str
    reason: str
    message: str


class Overview(msgspec.Struct):
    """All of it; queues stand behind their parents."""

    queues: list[QueueRow]
    nodes: list[NodeRow]
    pods: list[PodRow]


def overview(snapshot: Snapshot, outcome: Outcome) -> Overview:
    """What there is to see of a snapshot and the engine's next cycle."""
    pods = [pod for pod in snapshot.pods.values() if pod.shape.wants_gpu and (pod.holds or pod.state == "Pending")]
    return Overview(
        queues=_queues(snapshot, outcome, pods),
        nodes=[_node(snapshot, node) for _, node in sorted(snapshot.fleet.nodes.items()) if node.gpus or node.dips],
        pods=[_pod(snapshot, outcome, pod) for pod in sorted(pods, key=lambda p: (p.waits, p.key))],
    )


def _queues(snapshot: Snapshot, outcome: Outcome, pods: list[Pod]) -> list[QueueRow]:
    heads, gpus = Counter[str](), Counter[str]()
    for pod in pods:
        for name in snapshot.path(queue_of(snapshot, pod)) if pod.waits else ():
            heads[name] += 1
            gpus[name] += snapshot.claim_of(pod).gpu
    tree = sorted(snapshot.queues.values(), key=lambda queue: snapshot.path(queue.name)[::-1])
    return [_queue(snapshot, outcome, queue, heads[queue.name], gpus[queue.name]) for queue in tree]


def _queue(snapshot: Snapshot, outcome: Outcome, queue: Queue, pods: int, gpus: int) -> QueueRow:
    stands = outcome.queues.get(queue.name)  # an orphan has no share
    return QueueRow(
        name=queue.name,
        parent=queue.parent,
        level=len(snapshot.path(queue.name)) - 1,
        quota=amounts(queue.quota),
        limit=amounts(queue.limit),
        fair_share=amounts(stands.fair_share) if stands else {},
        used=amounts(stands.allocated) if stands else {},
        waiting_pods=pods,
        waiting_gpus=number(gpus, GPU),
    )


def _node(snapshot: Snapshot, node: Node) -> NodeRow:
    here = [pod for pod in snapshot.on_node.get(node.name, ()) if pod.shape.wants_gpu]
    used = sum(snapshot.claim_of(pod).gpu for pod in here)
    return NodeRow(
        name=node.name,
        state=_state(node),
        gpus=node.gpus,
        used=number(used, GPU),
        free=number(max(0, node.gpus * GPU - used), GPU),
        pods=len(here),
    )


def _state(node: Node) -> str:
    if not node.ready:
        return "not ready"
    return "cordoned" if node.cordoned else "ready"


def _pod(snapshot: Snapshot, outcome: Outcome, pod: Pod) -> PodRow:
    waiting = outcome.pending.get(pod.key) if pod.waits else None
    return PodRow(
        pod=pod.key,
        queue=queue_of(snapshot, pod),
        gpus=number(snapshot.claim_of(pod).gpu, GPU),
        state="Gated" if pod.gated else str(pod.state),
        node=pod.node,
        reason=str(waiting.reason) if waiting else "",
        message=told(waiting) if waiting else _next(outcome, pod),
    )


def queue_of(snapshot: Snapshot, pod: Pod) -> str:
    """The queue that a pod's workload names; empty for a pod that is not governed."""
    workload = snapshot.workloads.get(pod.workload)
    return (workload.queue if workload and workload.governed else "") or ""


def _next(outcome: Outcome, pod: Pod) -> str:
    final = outcome.final[pod.key]
    if pod.gated:
        return "held back by its scheduling gates"
    if not pod.waits or not final.node:
        return ""
    return f"there is room on {final.node}" if final.state is FinalState.BOUND else f"gets room on {final.node}"


def names(seen: Overview) -> str:
    """`kind/name`, one a line."""
    found = [f"queue/{q.name}" for q in seen.queues] + [f"node/{n.name}" for n in seen.nodes]
    return "".join(f"{name}\n" for name in [*found, *(f"pod/{p.pod}" for p in seen.pods)])


def page_of(seen: Overview, page: Page, *, wide: bool = False) -> str:
    """For people; `wide` has CPU and memory of the queues as well, and says whole why a pod waits."""
    sections = [_queue_section(seen, wide=wide), _node_section(seen), _pod_section(seen, wide=wide)]
    return "\n\n".join(drawn(section, page) for section in sections if section.rows) + "\n"


_MORE = (("cpu", "CPU (m)"), ("memory", "MEMORY (MB)"))
"""What queues count beside GPUs."""


def _queue_section(seen: Overview, *, wide: bool) -> Section:
    columns = ("QUEUE", "QUOTA", "LIMIT", "FAIR SHARE", "USED", "WAITING (PODS)")
    more = _MORE if wide else ()
    rows = [
        (
            GAP * row.level + row.name,
            *(_amount(of, "gpu") for of in (row.quota, row.limit, row.fair_share, row.used)),
            f"{row.waiting_gpus} in {row.waiting_pods}" if row.waiting_pods else "-",
            *(" / ".join(_amount(of, each) for of in (row.used, row.quota, row.limit)) for each, _ in more),
        )
        for row in seen.queues
    ]
    heads = (*columns, *(f"{name} USED / QUOTA / LIMIT" for _, name in more))
    return Section("QUEUES (GPUS)", "cyan", heads, rows)


def _node_section(seen: Overview) -> Section:
    rows = [(n.name, n.state, str(n.gpus), str(n.used), str(n.free), str(n.pods)) for n in seen.nodes]
    return Section("NODES", "cyan", ("NODE", "STATE", "GPUS", "USED", "FREE", "PODS"), rows)


def _pod_section(seen: Overview, *, wide: bool) -> Section:
    rows = [
        (p.pod, p.queue or NOT_GOVERNED, str(p.gpus), p.state, p.node or "-", _why(p, wide=wide)) for p in seen.pods
    ]
    return Section("PODS", "cyan", ("POD", "QUEUE", "GPUS", "STATE", "NODE", "WHY"), rows)


def _why(pod: PodRow, *, wide: bool) -> str:
    return f"{pod.reason}: {pod.message}" if wide and pod.reason else pod.reason or pod.message


def _amount(of: ByResource, resource: str) -> str:
    found = of.get(resource)
    return "unlimited" if found == UNLIMITED else "-" if found is None else str(found)
