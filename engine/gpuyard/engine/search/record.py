"""The decisions of a cycle as they were made, and the actions that follow from them.

Decided in docs/decisions.md: "Turns of a cycle that need each other are one Plan".
"""

from collections.abc import Generator, Sequence
from itertools import chain

import msgspec
from gpuyard.engine.model import Pod
from gpuyard.engine.model.results import Account, Action, Bind, Cycle, Evict, Nominate
from gpuyard.engine.model.results import Standing as Numbers
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.placing.devices import Devices
from gpuyard.engine.placing.scratch import Place, Scratch, Status
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team


class _Eviction(msgspec.Struct, frozen=True):
    turn: int
    phase: Phase
    claimant: str
    account: Account


class _Placement(msgspec.Struct, frozen=True):
    turn: int
    phase: Phase
    place: Place


class Record:
    """Collects what has been decided. A later decision about a pod replaces the earlier one.

    A turn that changes what becomes of an evicted pod is one decision with the turn that evicted it, and with those
    between the two that evict: none of them can be carried out without the others.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._turn = 0
        self._evicting: set[int] = set()
        self._joined: dict[int, int] = {}
        """The first turn of the decision, by each of its turns, where it has several."""
        self.evictions: dict[str, _Eviction] = {}
        self.placements: dict[str, _Placement] = {}

    def commit(
        self,
        phase: Phase,
        team: Team | None,
        pods: Sequence[Pod],
        victims: Sequence[Pod],
        before: Accounts | None = None,
    ) -> Generator[None, None, None]:
        """Note that pods of a workload were placed, at the cost of these victims; `before` are the numbers till then.

        With the victims others of their workloads may have found places again that had lost them before.
        """
        self._turn += 1
        for pod in victims:
            known, status = self.evictions.get(pod.key), self._scratch.status(pod)
            # Who was moved before and has lost that place as well owes it to this turn.
            if pod.active and status is not Status.RUNNING and (known is None or status is Status.EVICTED):
                claimant = pods[0].key if pods else ""
                account = Account(_numbers(before, team), _numbers(before, self._scratch.team(pod.workload)))
                turn = known.turn if known else self._turn
                self.evictions[pod.key] = _Eviction(turn, phase, claimant, account)
                self._evicting.add(turn)
                yield
        hit = dict.fromkeys(pod.workload for pod in victims)
        lost = [pod for key in hit for pod in self._scratch.team(key).pods if pod.key in self.evictions]
        for pod in (*pods, *victims, *lost):
            self._placed(phase, pod)
            yield

    def result(self) -> Cycle:
        """The actions in the order in which they must be carried out."""
        return Cycle(tuple(chain.from_iterable(self.turns())))

    def starts(self) -> list[str]:
        """The pods that start at once."""
        return list(self.starting())

    def starting(self) -> dict[str, str]:
        """The nodes of the pods that start at once."""
        return {key: made.place.node for key, made in self.placements.items() if made.place.status is Status.BOUND}

    def turns(self) -> tuple[tuple[Action, ...], ...]:
        """The same, decision by decision; turns that belong together are one, in the place of the first."""
        devices = Devices(self._scratch.snapshot)
        turns: dict[int, list[Action]] = {turn: [] for turn in range(1, self._turn + 1)}
        pods = self._scratch.snapshot.pods
        for key, e in self.evictions.items():
            turns[self._first(e.turn)].append(
                Evict(pod=key, node=pods[key].node, phase=e.phase, claimant=e.claimant, account=e.account)
            )
        for key, p in self.placements.items():
            turns[self._first(p.turn)].append(self._action(key, p, devices))
        return tuple(tuple(turn) for turn in turns.values())

    def _first(self, turn: int) -> int:
        """The first turn of the decision that a turn belongs to."""
        return self._joined.get(turn, turn)

    def _join(self, turn: int) -> None:
        """Make one decision of an earlier turn, this one, and those between them that evict."""
        first = min(map(self._first, range(turn, self._turn + 1)))
        if first != self._first(self._turn):
            between = (other for other in range(first, self._turn) if other in self._evicting)
            self._joined.update(dict.fromkeys((*between, self._turn), first))

    def _action(self, key: str, placement: _Placement, devices: Devices) -> Action:
        place = placement.place
        if place.status is not Status.BOUND:
            return Nominate(pod=key, node=place.node, phase=placement.phase, groups=place.groups)
        pod = self._scratch.snapshot.pods[key]
        return Bind(pod=key, node=place.node, gpus=devices.take(place.node, pod.shape.gpus), groups=place.groups)

    def _placed(self, phase: Phase, pod: Pod) -> None:
        place = self._scratch.place(pod)
        known = self.placements.get(pod.key)
        if known is not None and known.place == place:
            return
        evicted = self.evictions.get(pod.key)
        if evicted is not None and (known is not None or place.status is not Status.EVICTED):
            self._join(evicted.turn)
        self.placements.pop(pod.key, None)
        if place.status is Status.RUNNING:  # evicted earlier in the cycle, and back where it was
            self.evictions.pop(pod.key, None)
        is_ghost = pod.key not in self._scratch.snapshot.pods  # of a promise: it only takes room
        if not is_ghost and place.status in (Status.BOUND, Status.NOMINATED, Status.MOVED):
            self.placements[pod.key] = _Placement(self._turn, phase, place)


def _numbers(before: Accounts | None, team: Team | None) -> Numbers | None:
    """The numbers of a workload's queue that justified the decision."""
    account = before.by_name.get(team.workload.queue or "") if team and before else None
    if account is None:
        return None
    return Numbers(account.name, account.allocated, account.quota, account.fair_share, account.priority)
