"""What a cycle decides, step by step, becomes actions that can be carried out one after the other."""

import pytest
from gpuyard.engine.model import SCALE, Pod
from gpuyard.engine.model.results import Action, Bind, Evict, Nominate
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search.record import Record
from gpuyard.engine.stepwise import at_once

from tests.engine.builders import yard


class Table:
    """A node full of `b`'s two pods, an empty one, and a pod of `a` that waits."""

    def __init__(self) -> None:
        some = yard().nodes(2).queue("a").queue("b").gang("b", 2, running=2, name="b", gpus=4, on=("node-1",))
        self.snapshot = some.pending("a", gpus=4).snapshot()
        self.scratch = Scratch(self.snapshot, Accounts.of(self.snapshot, SCALE))
        self.record = Record(self.scratch)
        self.a, self.b0, self.b1 = (self.snapshot.pods[f"ns/{name}"] for name in ("a-1", "b-0", "b-1"))

    def take(self, *victims: Pod) -> None:
        """Promise the place of these pods to `a`."""
        before = self.scratch.accounts.copy_of("ab")
        for pod in victims:
            self.scratch.evict(pod)
        self.scratch.nominate(self.a, "node-1", ())
        at_once(self.record.commit("reclaim", self.scratch.team("ns/a-1"), [self.a], victims, before))

    @property
    def actions(self) -> tuple[Action, ...]:
        return self.record.result().actions


@pytest.fixture
def table() -> Table:
    return Table()


def test_an_eviction_comes_before_the_promise_that_it_makes_room_for(table: Table) -> None:
    table.take(table.b0)
    [evict, nominate] = table.actions
    assert isinstance(evict, Evict)
    assert isinstance(nominate, Nominate)
    assert evict.claimant == nominate.pod == "ns/a-1"


def test_an_eviction_tells_the_numbers_that_justified_it(table: Table) -> None:
    """Not those that it leads to, which would look as if `a` took from a queue with less than itself."""
    table.take(table.b0)
    [evict, _] = table.actions
    assert isinstance(evict, Evict)
    assert evict.account is not None
    standings = (evict.account.claimant, evict.account.victim)
    assert [(s.queue, s.allocated.gpu) for s in standings if s] == [("a", 0), ("b", 8000)]


def test_who_is_given_his_own_place_back_later_was_never_evicted(table: Table) -> None:
    table.take(table.b0, table.b1)
    table.scratch.nominate(table.b1, "node-1", ())
    at_once(table.record.commit("preempt", table.scratch.team("ns/b"), [table.b1], ()))
    assert [action.pod for action in table.actions] == ["ns/b-0", "ns/a-1"]


def test_who_finds_another_place_beside_a_later_victim_of_his_workload_is_told_of(table: Table) -> None:
    """Both turns are one decision: the first alone would evict a pod for good that the second moves."""
    table.take(table.b0)
    table.scratch.evict(table.b1)
    table.scratch.nominate(table.b0, "node-2", ())
    at_once(table.record.commit("consolidate", None, (), [table.b1]))
    (turn,) = filter(None, table.record.turns())
    told = [(type(one), one.pod, one.node) for one in turn]
    evicted = [(Evict, "ns/b-0", "node-1"), (Evict, "ns/b-1", "node-1")]
    assert told == [*evicted, (Nominate, "ns/a-1", "node-1"), (Nominate, "ns/b-0", "node-2")]


class Moves:
    """Pods that are moved from a node each to the last one, every one by a turn of its own; `last` waits."""

    def __init__(self, moved: int) -> None:
        self.names = [f"node-{n}" for n in range(1, moved + 1)]
        some = yard().nodes(moved + 2).queue("a").queue("b")
        for name in self.names:
            some.running("b", name=f"on-{name}", on=name)
        self.snapshot = some.pending("a", moved, gpus=8).pending("a", name="last", gpus=8).snapshot()
        self.scratch = Scratch(self.snapshot, Accounts.of(self.snapshot, SCALE))
        self.record = Record(self.scratch)
        for number, name in enumerate(self.names, 1):
            self.turn("consolidate", self.pod(f"a-{number}"), name, self.pod(f"on-{name}"), f"node-{moved + 1}")

    def pod(self, name: str) -> Pod:
        return self.snapshot.pods[f"ns/{name}"]

    def turn(self, phase: Phase, claimant: Pod, at: str, victim: Pod, to: str = "") -> None:
        """Evict a pod for another one, and give it a new place if there is one."""
        before = self.scratch.accounts.copy_of("ab")
        self.scratch.evict(victim)
        self.scratch.nominate(claimant, at, ())
        if to:
            self.scratch.nominate(victim, to, ())
        team = self.scratch.team(claimant.workload)
        at_once(self.record.commit(phase, team, [claimant], [victim], before))

    def told(self) -> list[list[str]]:
        """The pods of each decision: who leaves in what phase, who goes where."""
        said = (
            [f"{one.pod[3:]} {'leaves: ' + one.phase if isinstance(one, Evict) else one.node}" for one in turn]
            for turn in self.record.turns()
        )
        return [one for one in said if one]


@pytest.mark.row("B-53", case="moved-again")
def test_each_move_is_a_decision_of_its_own() -> None:
    first, second = Moves(2).told()
    assert first == ["on-node-1 leaves: consolidate", "a-1 node-1", "on-node-1 node-3"]
    assert second == ["on-node-2 leaves: consolidate", "a-2 node-2", "on-node-2 node-3"]


@pytest.mark.row("B-53", case="moved-again")
def test_a_moved_pod_that_loses_its_new_place_too_leaves_for_whom_it_lost_that() -> None:
    moves = Moves(1)
    moves.turn("reclaim", moves.pod("last"), "node-2", moves.pod("on-node-1"))
    assert moves.told() == [["on-node-1 leaves: reclaim", "a-1 node-1", "last node-2"]]
    (evicted,) = (one for one in moves.record.result().actions if isinstance(one, Evict))
    assert evicted.claimant == "ns/last"


@pytest.mark.row("B-53", case="moved-again")
def test_a_moved_pod_that_is_moved_on_has_one_decision_with_one_place() -> None:
    moves = Moves(1)
    moves.turn("reclaim", moves.pod("last"), "node-2", moves.pod("on-node-1"), "node-3")
    assert moves.told() == [["on-node-1 leaves: consolidate", "a-1 node-1", "last node-2", "on-node-1 node-3"]]


@pytest.mark.row("B-53", case="moved-again")
def test_what_was_decided_between_two_turns_that_are_one_belongs_to_them_if_it_evicts() -> None:
    moves = Moves(3)
    moves.turn("reclaim", moves.pod("last"), "node-5", moves.pod("on-node-2"))
    first, rest = moves.told()
    assert first == ["on-node-1 leaves: consolidate", "a-1 node-1", "on-node-1 node-4"]
    assert [one for one in rest if "leaves" in one] == ["on-node-2 leaves: reclaim", "on-node-3 leaves: consolidate"]
    assert rest[2:] == ["a-2 node-2", "a-3 node-3", "on-node-3 node-4", "last node-5"]


def test_a_promise_that_stands_is_not_told_again(table: Table) -> None:
    table.take(table.b0)
    before = table.actions
    at_once(table.record.commit("consolidate", None, [table.a], ()))
    assert table.actions == before


def test_who_starts_at_once_is_known_without_the_actions(table: Table) -> None:
    table.scratch.bind(table.a, "node-2", ())
    at_once(table.record.commit("allocate", table.scratch.team("ns/a-1"), [table.a], ()))
    table.scratch.evict(table.b0)
    table.scratch.nominate(table.b0, "node-2", ())
    at_once(table.record.commit("consolidate", None, (), [table.b0]))
    assert table.record.starts() == [action.pod for action in table.actions if isinstance(action, Bind)] == ["ns/a-1"]
