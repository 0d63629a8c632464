"""Several cycles in a row, until nothing changes any more: what `gpuyard plan` shows.

Between two cycles evicted and terminating pods become Pending again, bound and nominated ones Running; those that are
stuck in terminating stay. The clock stands still. No pod is evicted twice, the preemption delay of a workload that was
evicted starts anew, and disruption budgets stay spent until it runs again.

Decided in docs/decisions.md: "Where the engine disagrees with the peer's recorded cases"; "Fair shares are published
in whole GPUs from one GPU up".
"""

from collections.abc import Iterable, Iterator

import msgspec
from gpuyard.engine.model import GPU, Amounts, Pod, State
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.reporter import Reporter
from gpuyard.engine.model.results import Bind, Final, FinalState, Outcome, QueueShare
from gpuyard.engine.model.results import Cycle as Result
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.devices import Devices
from gpuyard.engine.placing.scratch import Place, Status, is_stuck
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import waiting_reasons

_FINAL = {
    Status.WAITING: FinalState.PENDING,
    Status.RUNNING: FinalState.RUNNING,
    Status.BOUND: FinalState.BOUND,
    Status.NOMINATED: FinalState.NOMINATED,
    Status.MOVED: FinalState.NOMINATED,
    Status.EVICTED: FinalState.EVICTED,
}


def settle(snapshot: Snapshot, settings: Settings, reporter: Reporter | None = None) -> Outcome:
    """Run up to `settings.cycles` cycles and say where everything ends."""
    results: list[Result] = []
    shares: dict[str, QueueShare] = {}
    for cycle in rounds(snapshot, settings, reporter):
        results.append(cycle.record.result())
        shares = shares or _shares(cycle)
    one = settings.cycles == 1
    end = cycle.snapshot if one else after(cycle)
    return Outcome(
        settled=_at_rest(cycle),
        cycles=tuple(results),
        final=dict(_finals(cycle, end, one=one)),
        pending=waiting_reasons(cycle, None if one else end),
        queues=shares,
    )


def rounds(snapshot: Snapshot, settings: Settings, reporter: Reporter | None = None) -> Iterator[Cycle]:
    """The cycles one after the other, each run, until one is at rest or there have been `settings.cycles`."""
    spared: set[str] = set()
    for _ in range(settings.cycles):
        cycle = Cycle(snapshot, settings, reporter, spared)
        cycle.run()
        yield cycle
        if _at_rest(cycle):
            return
        spared.update(cycle.record.evictions)
        snapshot = after(cycle)


def _at_rest(cycle: Cycle) -> bool:
    """Whether a cycle did nothing and left nothing that will change by itself."""
    return not cycle.record.result().actions and not _leaving(cycle.snapshot)


def after(cycle: Cycle) -> Snapshot:
    """The snapshot once everything that a cycle decided has happened; who runs keeps the GPUs that he was given."""
    snapshot = cycle.snapshot
    given = {a.pod: a.gpus for a in cycle.record.result().actions if isinstance(a, Bind)}
    changed = {
        key: _moved_on(snapshot.pods[key], place, snapshot.now, given.get(key, ()))
        for key, place in cycle.scratch.changed.items()
        if key in snapshot.pods
    }
    changed |= {pod.key: _unplaced(pod) for pod in _leaving(snapshot)}
    stay = _pinned(snapshot, {node for pod in changed.values() for node in (pod.node, snapshot.pods[pod.key].node)})
    draft = snapshot.draft().put_pods([*(pod for pod in stay if pod.key not in changed), *changed.values()])
    for key in sorted({snapshot.pods[pod].workload for pod in cycle.record.evictions}):
        draft.put_workload(msgspec.structs.replace(snapshot.workloads[key], last_evicted=snapshot.now))
    return _with_budgets_left(cycle, draft.done())


def _with_budgets_left(cycle: Cycle, end: Snapshot) -> Snapshot:
    """The end of a cycle with budgets that count who was evicted and waits, and no longer whoever runs again."""
    gone = [end.pods[key] for key in sorted({*cycle.guard.spared, *cycle.record.evictions}) if key in end.pods]
    runs = {pod.key: pod.active - cycle.snapshot.pods[pod.key].active for pod in gone}
    return end.with_budgets(
        msgspec.structs.replace(budget, allowed=budget.allowed + sum(runs.get(pod, 0) for pod in budget.pods))
        for budget in end.budgets.values()
    )


def _pinned(snapshot: Snapshot, nodes: Iterable[str]) -> Iterator[Pod]:
    """The pods of these nodes whose GPUs the input does not name, with those that they are assumed to have."""
    devices = Devices(snapshot)
    for node in sorted(nodes):
        for pod in snapshot.on_node.get(node, ()):
            if pod.shape.gpus and not pod.devices:
                yield msgspec.structs.replace(pod, devices=devices.of(pod))


def _leaving(snapshot: Snapshot) -> list[Pod]:
    """The terminating pods that will be gone by themselves."""
    return [pod for pod in snapshot.terminating.values() if not is_stuck(pod, snapshot.now)]


def _moved_on(pod: Pod, place: Place, now: int, gpus: tuple[int, ...]) -> Pod:
    if place.status in (Status.WAITING, Status.EVICTED):
        return _unplaced(pod)
    if place.status is Status.RUNNING:
        return pod
    return msgspec.structs.replace(
        pod, state=State.RUNNING, node=place.node, gpu_groups=place.groups, devices=gpus, started=now, nominated=""
    )


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(
        pod, state=State.PENDING, node="", gpu_groups=(), devices=(), started=None, deleted_at=None
    )


def _shares(cycle: Cycle) -> dict[str, QueueShare]:
    use = cycle.snapshot.use
    return {
        name: QueueShare(
            fair_share=published(account.fair_share),
            allocated=use.get(name, UNUSED).allocated,
            requested=use.get(name, UNUSED).requested,
            deserved=account.quota,
            limit=account.limit,
        )
        for name, account in sorted(cycle.accounts.by_name.items())
    }


def published(share: Amounts) -> Amounts:
    """A fair share as the peer publishes it: from one GPU up in whole GPUs."""
    return share._replace(gpu=share.gpu // GPU * GPU) if share.gpu > GPU else share


def _finals(cycle: Cycle, end: Snapshot, *, one: bool) -> Iterator[tuple[str, Final]]:
    devices = Devices(end)
    for key in sorted(end.pods):
        pod = end.pods[key]
        place = cycle.scratch.place(pod) if one else Place(Status.GONE, pod.node, pod.gpu_groups)
        state = _FINAL.get(place.status) or FinalState(pod.state if pod.state is not State.BOUND else "Running")
        gpus = devices.of(pod) if pod.holds and (place.node == pod.node) else ()
        waits = state is FinalState.PENDING
        yield key, Final(state=state, node="" if waits else place.node, gpus=gpus, groups=() if waits else place.groups)
