"""`gpuyard doctor`: can everything be read that decides about pods, and does every GPU pod go by its queue?"""

from collections.abc import Iterable, Iterator
from time import time

from gpuyard.cli.answer import number
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.live import SOURCE, document, settings, survey
from gpuyard.cli.overview import queue_of
from gpuyard.cli.patient import Patient
from gpuyard.cli.reading import read
from gpuyard.engine.kube.faults import Unreadable
from gpuyard.engine.model import GPU, UNLIMITED, Amounts, Pod
from gpuyard.engine.snapshot import UNUSED, Snapshot

READ = "queues and pods can be read"
GOVERNED = "no pod bypasses the queues"
BOUNDED = "queues keep their limits"

_NAMED = 5
"""So many pods of a finding are named; what goes beyond is counted."""


async def by_queue(patient: Patient) -> list[Finding]:
    """Objects that cannot be read, GPU pods that no queue decides about, and queues above their limits."""
    if not patient.has_extender:
        return []
    decides, things = await settings(patient.client), await survey(patient.client)
    try:
        snapshot, notes = read((), decides, int(time()), (SOURCE, document(things)))
    except Unreadable as unreadable:
        return [Finding(READ, Status.FAIL, str(fault), "mend that field of it") for fault in unreadable.faults]
    told = [Finding(READ, Status.WARN, note.removeprefix("warning: "), "mend that field of it") for note in notes]
    told = told or [Finding(READ, Status.OK, f"{len(snapshot.queues)} queues, {len(snapshot.pods)} pods")]
    return [*told, *bypassing(snapshot), *beyond(snapshot)]


def bypassing(snapshot: Snapshot) -> list[Finding]:
    """The pods that hold GPUs, or ask for some, without a queue."""
    pods = [pod for pod in snapshot.pods.values() if pod.shape.wants_gpu and (pod.holds or pod.waits)]
    free = sorted(pod.key for pod in pods if not queue_of(snapshot, pod))
    if not free:
        return [Finding(GOVERNED, Status.OK, f"{len(pods)} pods with GPUs, each of a queue")]
    seen = f"{_listed(free)} {'has' if len(free) == 1 else 'have'} no queue ({_gpus(snapshot, free)} GPUs)"
    remedy = "label them kai.scheduler/queue, or set podsWithoutQueue: refuse in the extender's settings"
    return [Finding(GOVERNED, Status.WARN, seen, remedy)]


def _gpus(snapshot: Snapshot, keys: Iterable[str]) -> int | float:
    pods: Iterator[Pod] = (snapshot.pods[key] for key in keys)
    return number(sum(snapshot.claim_of(pod).gpu for pod in pods), GPU)


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def beyond(snapshot: Snapshot) -> list[Finding]:
    """The queues that hold more GPUs than their limits."""
    remedy = "its limit was lowered, or kube-scheduler does not ask gpuyard; pods end, or it is raised"
    over = [
        Finding(BOUNDED, Status.WARN, f"queue {queue.name} holds {number(held.gpu, GPU)} GPUs of {bound}", remedy)
        for queue in snapshot.queues.values()
        if (bound := _passed(queue.limit, held := snapshot.use.get(queue.name, UNUSED).allocated)) is not None
    ]
    return over or [Finding(BOUNDED, Status.OK, "no queue holds more GPUs than its limit")]


def _passed(limit: Amounts, held: Amounts) -> int | float | None:
    return number(limit.gpu, GPU) if UNLIMITED != limit.gpu < held.gpu else None
