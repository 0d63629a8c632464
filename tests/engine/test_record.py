"""What a cycle decides, step by step, becomes actions that can be carried out one after the other."""

import pytest
from gpuyard.engine.model import SCALE, Pod
from gpuyard.engine.model.results import Action, Bind, Evict, Nominate
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
    table.take(table.b0)
    table.scratch.evict(table.b1)
    table.scratch.nominate(table.b0, "node-2", ())
    at_once(table.record.commit("consolidate", None, (), [table.b1]))
    evict, nominate = table.actions[2:]
    assert (type(evict), evict.pod) == (Evict, "ns/b-1")
    assert (type(nominate), nominate.pod, nominate.node) == (Nominate, "ns/b-0", "node-2")


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
