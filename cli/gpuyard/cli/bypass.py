"""`gpuyard doctor`: can everything be read that decides about pods, and does every GPU pod go by its queue?"""

from collections.abc import Iterable, Iterator
from time import time

from gpuyard.cli.answer import number
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.live import SOURCE, settings, survey
from gpuyard.cli.looking import sifted
from gpuyard.cli.overview import queue_of
from gpuyard.cli.patient import Patient
from gpuyard.cli.reading import read
from gpuyard.engine.kube.workloads import SCHEDULERS
from gpuyard.engine.model import GPU, UNLIMITED, Amounts, Pod
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.snapshot import Snapshot

READ = "queues and pods can be read"
GOVERNED = "no pod bypasses the queues"
BOUNDED = "queues keep their limits"

_MEND = "mend that field of it"
_NAMED = 5
"""So many pods of a finding are named; what goes beyond is counted."""


async def by_queue(patient: Patient) -> list[Finding]:
    """Objects that cannot be read, GPU pods that no queue decides about, and queues above their limits."""
    if not patient.has_extender:
        return []
    decides, things = await settings(patient.client), await survey(patient.client)
    text, faults = sifted(things, decides)
    told = [Finding(READ, Status.FAIL, str(fault), _MEND) for fault in faults]
    if text is None:
        return told
    snapshot, notes, _ = read((), decides, int(time()), (SOURCE, text))
    told += [Finding(READ, Status.WARN, note.removeprefix("warning: "), _MEND) for note in notes]
    told = told or [Finding(READ, Status.OK, f"{len(snapshot.queues)} queues, {len(snapshot.pods)} pods")]
    return [*told, *bypassing(snapshot), *beyond(snapshot)]


def bypassing(snapshot: Snapshot) -> list[Finding]:
    """The pods that hold GPUs, or ask for some, without a queue."""
    pods = [pod for pod in snapshot.pods.values() if pod.shape.wants_gpu and (pod.holds or pod.waits)]
    free = sorted(pod.key for pod in pods if not queue_of(snapshot, pod))
    if not free:
        return [Finding(GOVERNED, Status.OK, f"{len(pods)} pods with GPUs, each of a queue")]
    by_scheduler: dict[str, list[str]] = {}
    for key in free:
        by_scheduler.setdefault(_scheduler(snapshot, snapshot.pods[key]), []).append(key)
    return [_free(snapshot, scheduler, keys) for scheduler, keys in sorted(by_scheduler.items())]


def _scheduler(snapshot: Snapshot, pod: Pod) -> str:
    """The one that places it, if that is none that asks us."""
    workload = snapshot.workloads.get(pod.workload)
    return workload.scheduler if workload else ""


def _free(snapshot: Snapshot, scheduler: str, keys: list[str]) -> Finding:
    gpus, alone = f"({_gpus(snapshot, keys)} GPUs)", len(keys) == 1
    if scheduler:
        seen = f"{_listed(keys)} {'is' if alone else 'are'} placed by {scheduler}, which does not ask gpuyard {gpus}"
        return Finding(GOVERNED, Status.WARN, seen, f"set schedulerName: {SCHEDULERS[0]}, or leave it out")
    seen = f"{_listed(keys)} {'has' if alone else 'have'} no queue {gpus}"
    remedy = "label them kai.scheduler/queue, or set podsWithoutQueue: refuse in the extender's settings"
    return Finding(GOVERNED, Status.WARN, seen, remedy)


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
