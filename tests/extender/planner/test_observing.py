"""When the planner looks again, and at what."""

import pytest
from gpuyard.common.extender_config import ExtenderConfig, Fairshare
from gpuyard.engine.model import Promise, Shape, State
from gpuyard.engine.model.settings import NO_HISTORY
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.look.observer import Observer
from structlog.testing import capture_logs

from tests.extender.builders import Bench, Json, node, pod, queue

TODAY = 1_800_000_000


def budget(allowed: int) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ns", "uid": "b", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"kai.scheduler/queue": "team"}}},
        "status": {"disruptionsAllowed": allowed},
    }


class Look:
    """An observer over a bench, a second after the other."""

    def __init__(self, *things: Json) -> None:
        self.bench = Bench(*things)
        self.observer = Observer(self.bench.ledger, self.bench.translator, lambda: self.bench.config, Capacity())
        self.seconds = 0

    @property
    def today(self) -> int:
        return TODAY + self.seconds

    def changed(self, *, after: int = 1) -> bool:
        self.seconds += after
        return self.observer.has_changed(self.seconds, self.today)

    def cycle(self) -> Cycle:
        snapshot = self.observer.snapshot((), (), self.seconds, self.today)
        cycle = Cycle(snapshot, self.bench.config.engine)
        cycle.run()
        self.observer.come_back(cycle, self.seconds)
        return cycle


def test_at_first_everything_is_new() -> None:
    assert Look().changed()


def test_without_a_change_there_is_nothing_to_look_at() -> None:
    look = Look(node("n1"), queue("team"), pod("a", "team", on="n1"))
    look.cycle()
    assert not look.changed()


def test_pods_budgets_and_settings_are_changes() -> None:
    look = Look(node("n1"), queue("team"))
    for change in (pod("a", "team"), budget(1)):
        look.cycle()
        look.bench.put(change)
        assert look.changed()
    look.cycle()
    look.bench.config = type(look.bench.config)(default_queue="team")
    assert look.changed()


@pytest.mark.row("B-36", case="live")
def test_a_weight_of_past_use_that_there_is_no_history_for_is_warned_of_once() -> None:
    look = Look(node("n1"), queue("team"))
    with capture_logs() as logs:
        look.cycle()
        for weight in (2, 2, 3):
            look.bench.config = ExtenderConfig(fairshare=Fairshare(k=weight))
            look.cycle()
            look.cycle()
    assert [line["reason"] for line in logs if line["event"] == "setting-without-effect"] == [NO_HISTORY] * 2


def test_what_could_not_be_carried_out_is_looked_at_again() -> None:
    look = Look()
    look.cycle()
    look.observer.look_again()
    assert look.changed()


def test_the_end_of_a_minimum_run_time_is_a_reason_to_look() -> None:
    safe = queue("lent", quota=0)
    safe["spec"]["reclaimMinRuntime"] = "60s"
    old = pod("old", "lent", 8, status={"phase": "Running", "startTime": "2027-01-15T08:00:00Z"}, on="n1")
    look = Look(node("n1"), safe, queue("own", quota=8), old, pod("claim", "own", 8))
    assert not look.cycle().record.evictions
    assert not look.changed(after=59)
    assert look.changed()
    assert set(look.cycle().record.evictions) == {"ns/old"}


def test_a_gang_that_is_torn_is_looked_at_when_its_grace_is_over() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "ns", "uid": "g", "resourceVersion": "1"}}
    group["spec"] = {"minMember": 2, "queue": "team"}
    left = pod("left", "team", on="n1", annotations={"pod-group-name": "g"})
    look = Look(node("n1"), queue("team"), group, left)
    assert not look.cycle().record.evictions
    assert not look.changed(after=59)
    assert look.changed()
    assert set(look.cycle().record.evictions) == {"ns/left"}


def test_who_was_let_through_stands_where_filter_sent_him() -> None:
    look = Look(node("n1"), queue("team"), pod("a", "team"))
    assert look.bench.passes(pod("a", "team"))
    seen = look.cycle().snapshot.pods["ns/a"]
    assert (seen.state, seen.node) == (State.BOUND, "n1")


def test_the_budgets_of_pods_are_seen() -> None:
    look = Look(node("n1"), queue("team"), pod("a", "team", on="n1"), budget(0))
    assert look.cycle().snapshot.budgets["ns/keep"].allowed == 0


def test_kept_places_and_who_has_to_go_are_seen() -> None:
    look = Look(node("n1"), queue("team"), pod("a", "team", on="n1"))
    promise = Promise(plan="p", pod="ns/x", shape=Shape(gpus=1), node="n1")
    seen = look.observer.snapshot([promise], ["uid-a"], 0, TODAY)
    assert seen.promises == (promise,)
    assert seen.pods["ns/a"].state is State.TERMINATING


def test_the_end_of_a_dip_is_a_reason_to_look_also_where_nobody_waits() -> None:
    look = Look(node("n1"), queue("team"))
    look.observer.snapshot((), (), look.seconds, look.today)
    look.bench.put(node("n1", 0))
    assert look.changed()
    seen = look.observer.snapshot((), (), look.seconds, look.today)
    assert seen.fleet.nodes["n1"].stable_gpus == 8
    assert not look.changed(after=299)
    assert look.changed()


def test_a_gang_with_a_grace_of_its_own_is_looked_at_when_that_is_over() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "ns", "uid": "g", "resourceVersion": "1"}}
    group["spec"] = {"minMember": 2, "queue": "team", "stalenessGracePeriod": "10s"}
    left = pod("left", "team", on="n1", annotations={"pod-group-name": "g"})
    look = Look(node("n1"), queue("team"), group, left)
    look.cycle()
    assert not look.changed(after=9)
    assert look.changed()
    assert set(look.cycle().record.evictions) == {"ns/left"}
