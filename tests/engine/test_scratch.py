"""A pod's way during a cycle, and the way back."""

import pytest
from gpuyard.engine.model import SCALE, Pod, State
from gpuyard.engine.placing.scratch import Scratch, Status
from gpuyard.engine.rules.accounts import Accounts

from tests.engine.builders import NOW, Yard, yard


def scratch(some: Yard) -> Scratch:
    snapshot = some.snapshot()
    return Scratch(snapshot, Accounts.of(snapshot, SCALE))


@pytest.fixture
def tried() -> Scratch:
    """Two nodes of 2; `a-1` runs on the first, `a-2` waits."""
    return scratch(yard().nodes(2, gpus=2).queue("a").running("a", gpus=2).pending("a", gpus=2))


def pod(of: Scratch, name: str) -> Pod:
    return of.snapshot.pods[f"ns/{name}"]


def free(of: Scratch, node: str) -> tuple[int, int]:
    return of.rooms[node].now, of.rooms[node].later


def test_who_is_bound_takes_what_is_free_now(tried: Scratch) -> None:
    tried.bind(pod(tried, "a-2"), "node-2", ())
    assert tried.status(pod(tried, "a-2")) is Status.BOUND
    assert free(tried, "node-2") == (0, 0)


def test_who_is_nominated_takes_only_what_will_be_free(tried: Scratch) -> None:
    tried.evict(pod(tried, "a-1"))
    assert free(tried, "node-1") == (0, 2)
    tried.nominate(pod(tried, "a-2"), "node-1", ())
    assert tried.status(pod(tried, "a-2")) is Status.NOMINATED
    assert free(tried, "node-1") == (0, 0)


def test_who_has_to_wait_for_the_others_of_his_gang_gives_back_what_is_free_now(tried: Scratch) -> None:
    tried.bind(pod(tried, "a-2"), "node-2", ())
    tried.postpone(pod(tried, "a-2"))
    assert tried.status(pod(tried, "a-2")) is Status.NOMINATED
    assert free(tried, "node-2") == (2, 0)


def test_who_finds_another_place_has_moved(tried: Scratch) -> None:
    tried.evict(pod(tried, "a-1"))
    tried.nominate(pod(tried, "a-1"), "node-2", ())
    assert tried.status(pod(tried, "a-1")) is Status.MOVED


def test_who_comes_back_to_his_own_place_just_runs_on(tried: Scratch) -> None:
    tried.evict(pod(tried, "a-1"))
    tried.nominate(pod(tried, "a-1"), "node-1", ())
    assert tried.status(pod(tried, "a-1")) is Status.RUNNING
    assert free(tried, "node-1") == (0, 0)


def test_what_this_cycle_promised_can_be_taken_back(tried: Scratch) -> None:
    tried.bind(pod(tried, "a-2"), "node-2", ())
    tried.evict(pod(tried, "a-2"))
    assert tried.status(pod(tried, "a-2")) is Status.WAITING
    assert free(tried, "node-2") == (2, 2)


def test_queues_count_who_has_a_place_or_the_promise_of_one(tried: Scratch) -> None:
    books = tried.accounts.by_name["a"]
    tried.nominate(pod(tried, "a-2"), "node-2", ())
    assert books.allocated.gpu == 4000
    tried.evict(pod(tried, "a-1"))
    assert books.allocated.gpu == 2000
    tried.undo(0)
    assert books.allocated.gpu == 2000


def test_nobody_counts_on_the_place_of_who_is_stuck_in_terminating() -> None:
    some = yard().nodes(1, gpus=2).queue("a").running("a").running("a")
    some.pod("a-1", state=State.TERMINATING, deleted_at=NOW - 121)
    some.pod("a-2", state=State.TERMINATING, deleted_at=NOW - 119)
    assert free(scratch(some), "node-1") == (0, 1)


def test_a_pod_with_scheduling_gates_is_not_there_yet() -> None:
    tried = scratch(yard().nodes(1).queue("a").pending("a").pod("a-1", gated=True))
    assert tried.status(pod(tried, "a-1")) is Status.GONE
    assert not tried.waits(pod(tried, "a-1"))
