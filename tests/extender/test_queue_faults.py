"""A Queue with nonsense: it is told, and what held before goes on to hold, also across a restart."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.cluster import queue_faults
from gpuyard.common.cluster.queue_faults import QueueFault, tell
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.extender.planner.tell.queue_status import statuses

from tests.extender.builders import Bench, Json, node, pod, queue, typed

if TYPE_CHECKING:
    from gpuyard.common.kube.events import Recorder


def status(of: Bench, name: str) -> Json:
    """What the status of a queue says, as the planner writes it."""
    snapshot = of.ledger.snapshot
    return statuses(snapshot, Accounts.of(snapshot, 0), of.ledger.queue_faults)[name]


def condition(of: Bench, name: str) -> Json | None:
    found = [one for one in status(of, name)["conditions"] if one["type"] == "Accepted"]
    return found[0] if found else None


def restarted(of: Bench, *queues: Json) -> Bench:
    """Another process that finds these queues with the statuses that were written."""
    known = of.ledger.snapshot.queues
    listed = [
        one | ({"status": status(of, one["metadata"]["name"])} if one["metadata"]["name"] in known else {})
        for one in queues
    ]
    after = Bench(node("n1"))
    after.feed.queues(Batch([Change(None, typed(one)) for one in listed], listed=True))
    return after


def limit(of: Bench, name: str) -> int:
    return of.ledger.snapshot.queues[name].limit.gpu // 1000


def test_the_status_says_what_is_wrong_and_what_holds_instead() -> None:
    of = Bench(queue("team", limit=1))
    assert condition(of, "team") is None
    of.put(queue("team", limit=-7))
    said = condition(of, "team")
    assert said is not None
    assert (said["status"], said["reason"]) == ("False", "QueueInvalid")
    assert said["message"].startswith("spec.resources.gpu.limit: ")
    assert '"limit":1' in said["message"]


def test_after_a_restart_the_last_good_state_is_still_in_force() -> None:
    of = Bench(queue("team", limit=1))
    of.put(bad := queue("team", limit=-7))
    after = restarted(of, bad)
    assert limit(after, "team") == 1
    assert condition(after, "team") == condition(of, "team"), "also across the next one"


@pytest.mark.parametrize("value", ["1h; in force: ", "; in force: {}", "1h; in force: nothing"])
def test_words_of_ours_in_a_value_lose_nothing_at_a_restart(value: str) -> None:
    of = Bench(queue("team", limit=1))
    bad = queue("team", limit=2)
    bad["spec"]["preemptMinRuntime"] = value
    of.put(bad)
    assert limit(restarted(of, bad), "team") == 1


@pytest.mark.row("X-73")
def test_however_long_the_texts_of_a_queue_are_its_condition_is_not_and_can_be_read_after_a_restart() -> None:
    good, bad = queue("team", limit=1), queue("team", limit=2)
    good["spec"]["displayName"] = bad["spec"]["preemptMinRuntime"] = "x" * 1_000_000
    of = Bench(good)
    of.put(bad)
    said = condition(of, "team")
    assert said is not None
    assert len(said["message"]) < 2000
    assert limit(restarted(of, bad), "team") == 1


def test_words_of_ours_in_what_holds_lose_nothing_either() -> None:
    of = Bench(queue("team", limit=1, parent="x; in force: y"))
    of.put(bad := queue("team", limit=-7, parent="x; in force: y"))
    assert restarted(of, bad).ledger.snapshot.queues["team"].parent == "x; in force: y"


def test_a_circle_is_open_after_a_restart_where_it_was_before() -> None:
    of = Bench(queue("a", limit=2), queue("b", parent="a"))
    of.put(bad := queue("a", limit=2, parent="b"))
    for order in ((bad, queue("b", parent="a")), (queue("b", parent="a"), bad)):
        after = restarted(of, *order)
        assert {name: one.parent for name, one in after.ledger.snapshot.queues.items()} == {"a": "", "b": "a"}
        assert list(after.ledger.queue_faults) == ["a"]


def test_a_queue_that_was_never_good_does_not_exist() -> None:
    of = Bench(node("n1"), queue("team", limit=-7))
    assert not of.passes(pod("p", "team"))
    assert "does not exist" in of.reports[0]
    assert not restarted(of, queue("team", limit=-7)).ledger.snapshot.queues


def test_a_queue_that_is_put_right_is_used_as_it_is_written() -> None:
    of = Bench(queue("team", limit=1))
    of.put(queue("team", limit=-7))
    of.put(good := queue("team", limit=3))
    assert (limit(of, "team"), of.ledger.queue_faults, condition(of, "team")) == (3, {}, None)
    assert limit(restarted(of, good), "team") == 3


def test_a_queue_that_is_deleted_takes_its_fault_along() -> None:
    of = Bench(queue("team", limit=1))
    of.put(bad := queue("team", limit=-7))
    of.drop(bad)
    assert not of.ledger.queue_faults
    of.put(bad)
    assert not of.ledger.snapshot.queues, "nor is its last good state remembered"


@pytest.mark.parametrize("message", ["", "limit: bad", "limit: bad; in force: nothing", "limit: bad; in force: {"])
def test_a_status_that_says_nothing_of_use_restores_nothing(message: str) -> None:
    told = {"conditions": [{"type": "Accepted", "status": "False", "message": message}]}
    assert not Bench(queue("team", limit=-7) | {"status": told}).ledger.snapshot.queues


def test_a_last_good_state_that_is_none_is_not_restored() -> None:
    nonsense = 'x; in force: {"resources":{"gpu":{"limit":-9}}}'
    told = {"conditions": [{"type": "Accepted", "status": "False", "message": nonsense}]}
    assert not Bench(queue("team", limit=-7) | {"status": told}).ledger.snapshot.queues


def test_the_same_fault_is_reported_once() -> None:
    of = Bench(queue("team", limit=1))
    of.put(queue("team", limit=-7))
    of.put(queue("other"), queue("team", limit=-7))
    assert len(of.reports) == 1
    of.put(queue("team", limit=-8))
    assert len(of.reports) == 2


def test_a_change_of_faults_lets_the_planner_look_again() -> None:
    of = Bench(queue("team", limit=1))
    before = of.ledger.snapshot
    of.put(queue("team", limit=-7))
    assert of.ledger.snapshot is not before


class Ear:
    """Takes down what is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def emit(self, regarding: Any, reason: str, note: str, **_: object) -> None:  # noqa: ANN401 - a reference
        self.heard.append((regarding.name, reason, note))


async def test_each_fault_is_told_once_as_an_event_on_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_faults, "INTERVAL", 0)
    ear, faults = Ear(), dict[str, QueueFault]()

    def known() -> Mapping[str, QueueFault]:
        return faults

    telling = asyncio.create_task(tell(known, cast("Recorder", ear)))
    for why in ("limit: bad", "limit: worse"):
        faults["team"] = QueueFault("team", "uid", why, None)
        for _ in range(5):
            await asyncio.sleep(0)
    telling.cancel()
    assert [(name, reason) for name, reason, _ in ear.heard] == [("team", "QueueInvalid")] * 2
    assert ear.heard[1][2] == "limit: worse; until it is put right it does not exist for gpuyard"
