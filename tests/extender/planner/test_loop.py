"""The planner over a ledger in memory: what it writes, whom it evicts, what it keeps, and how it goes on."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.extender_config import Planner as PlannerConfig
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.settings import Span
from gpuyard.engine.model import Promise
from gpuyard.extender.planner import loop
from gpuyard.extender.planner.act.claimants import REFUSED_AFTER, SHUT_AFTER, TELL_AGAIN
from gpuyard.extender.planner.tell.wait_reasons import AGAIN

from tests.extender.builders import Json, node, pod, queue
from tests.extender.planner.builders import BUSY, TWO_BUDGETS, error
from tests.extender.planner.stage import PLANS, Stage, eviction, path, running

OLD, NEW = running("old", "lent", 4, "n1", age=1), running("new", "lent", 4, "n1", age=2)
CLAIM = pod("claim", "own", 4)


@pytest.fixture
def stage() -> Stage:
    """A node full of a borrower's pods, and an owner who wants his half back."""
    return Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW, CLAIM)


async def test_a_plan_is_written_before_its_first_eviction(stage: Stage) -> None:
    await stage.look()
    assert stage.evicted() == ["new"]
    written = [one for one in stage.api.wrote("create") if one.startswith(PLANS) or one.endswith("/eviction")]
    assert written[0].startswith(PLANS)
    (plan,) = stage.plans()
    assert (plan["spec"]["phase"], plan["spec"]["queue"], plan["spec"]["workload"]) == ("reclaim", "own", "ns/claim")
    assert plan["status"]["evicted"] == ["uid-new"]


async def test_the_victim_hears_why(stage: Stage) -> None:
    await stage.look()
    assert ("new", "Evicted") in stage.ear.heard


async def test_who_waits_hears_why_again_also_where_nothing_happens_at_all() -> None:
    stage = Stage(node("n1"), queue("shut", limit=0), pod("waits", "shut"))
    for after in (1, AGAIN / 2, AGAIN / 2, 1):
        await stage.look(after=after)
    assert stage.ear.heard == [("waits", "OverLimit")] * 2


async def test_nobody_is_evicted_twice_while_the_victim_is_leaving(stage: Stage) -> None:
    await stage.look()
    stage.bench.put(OLD | {"metadata": OLD["metadata"] | {"labels": {"x": "y", **OLD["metadata"]["labels"]}}})
    for _ in range(3):
        await stage.look()
    assert stage.evicted() == ["new"]
    assert len(stage.plans()) == 1


async def test_the_room_is_kept_for_the_claimant_and_given_to_nobody_else(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    await stage.look()
    assert stage.kept() == {"claim": "n1"}
    assert not stage.bench.passes(pod("thief", "lent", 4))
    assert stage.bench.filter(CLAIM).node_names == ["n1"]


async def test_a_plan_is_kept_once_the_claimant_stands(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    stage.bench.put(pod("claim", "own", 4, on="n1"))
    await stage.look()
    assert stage.states() == ["Kept"]
    assert stage.kept() == {}


async def test_a_plan_whose_claimant_is_gone_ends_and_keeps_nothing(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = BUSY
    await stage.look()
    stage.gone(CLAIM)
    await stage.look()
    assert stage.states() == ["Impossible"]
    assert stage.kept() == {}


async def test_a_disruption_budget_puts_an_eviction_off(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = BUSY
    await stage.look()
    assert (stage.evicted(), stage.states()) == (["new"], ["Running"])
    await stage.look(after=0.5)
    assert stage.evicted() == ["new"]
    stage.api.errors.clear()
    await stage.look()
    assert stage.evicted() == ["new", "new"]
    assert stage.plans()[0]["status"]["evicted"] == ["uid-new"]


async def test_a_budget_that_holds_on_ends_the_plan(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = BUSY
    for _ in range(8):
        await stage.look(after=10)
        if stage.states() == ["Impossible"]:
            break
    assert stage.states()[0] == "Impossible"
    assert "ns/new cannot be evicted" in stage.plans()[0]["status"]["message"]


async def test_whom_nobody_can_ever_evict_ends_the_plan_at_once(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = TWO_BUDGETS
    await stage.look()
    assert stage.states() == ["Impossible"]


async def test_whom_nobody_can_evict_is_not_chosen_again_and_again(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = TWO_BUDGETS
    await stage.look()
    await stage.look()
    assert stage.evicted() == ["new", "old"], "the next in line goes in his place"
    assert stage.states() == ["Impossible", "Running"]


async def test_room_that_nobody_takes_is_given_up_after_a_while(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    await stage.look()
    await stage.look(after=REFUSED_AFTER)
    await stage.look()
    assert stage.states()[0] == "Impossible"
    assert "kube-scheduler does not offer n1 to ns/claim" in stage.plans()[0]["status"]["message"]
    assert stage.plans()[0]["status"]["refused"] == ["ns/claim"]
    assert ("claim", "PlanWithdrawn") in stage.ear.heard


@pytest.mark.row("X-08", case="strike")
async def test_where_anybody_may_call_no_place_is_struck_out_because_no_call_names_it(stage: Stage) -> None:
    stage.bench.ledger.callers_are_known = False
    await stage.look()
    stage.gone(NEW)
    await stage.look()
    await stage.look(after=REFUSED_AFTER)
    await stage.look()
    assert stage.states() == ["Running"]


@pytest.mark.row("X-08", case="idle")
@pytest.mark.parametrize(("known", "blocked"), [(True, {"ns/fits"}), (False, set())])
async def test_a_pod_that_no_call_names_is_passed_over_only_where_callers_are_known(
    *, known: bool, blocked: set[str]
) -> None:
    stage = Stage(node("n1"), queue("own", quota=4), pod("fits", "own", 1, verdict=NO_ROOM))
    stage.bench.ledger.callers_are_known = known
    for label in "xy":
        await stage.look(after=20)
        stage.bench.put(queue(label))
    assert stage.precedence.blocked == blocked


async def test_room_that_kube_scheduler_does_offer_is_kept_on(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    await stage.look(after=0)
    seen = stage.bench.ledger.entries["ns/claim"].seen
    stage.bench.ledger.offer(seen.pod, ["n1"], stage.bench.now)
    await stage.look(after=REFUSED_AFTER)
    await stage.look()
    assert stage.states() == ["Running"]


async def test_room_is_not_kept_for_a_claimant_whose_queue_does_not_let_it_start_any_more(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    stage.bench.put(queue("own", quota=4, limit=0))
    assert not stage.bench.passes(CLAIM)
    await stage.look()
    await stage.look(after=SHUT_AFTER - 1)
    assert stage.states() == ["Running"]
    stage.bench.put(queue("own", quota=4))
    await stage.look()
    stage.bench.put(queue("own", quota=4, limit=0))
    await stage.look()
    await stage.look(after=SHUT_AFTER)
    await stage.look()
    assert stage.states() == ["Impossible"]
    assert "ns/claim may not start: queue own has a limit of 0 GPUs" in stage.plans()[0]["status"]["message"]
    assert stage.kept() == {}


async def test_whose_place_is_free_is_told_again(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    await stage.look()
    assert stage.bench.ledger.take_called() == {"ns/claim"}
    await stage.look()
    assert stage.bench.ledger.take_called() == set()
    await stage.look(after=TELL_AGAIN)
    assert stage.bench.ledger.take_called() == {"ns/claim"}


NO_VOLUME = '0/1 nodes are available: persistentvolumeclaim "data" not found.'
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
CLAIMS = [{"persistentVolumeClaim": {"claimName": "data"}}]


async def test_nobody_is_evicted_for_a_pod_that_has_no_volume() -> None:
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW)
    stage.submit(pod("claim", "own", 4, verdict=NO_VOLUME))
    for _ in range(5):
        await stage.look(after=100)
    assert (stage.evicted(), stage.plans()) == ([], [])
    assert ("claim", "RefusedByScheduler") in stage.ear.heard
    stage.bench.put(pod("claim", "own", 4, verdict=NO_ROOM))
    await stage.look()
    assert stage.evicted() == ["new"], "its volume is there now"


async def test_of_a_pod_with_volumes_kube_scheduler_is_heard_before_anybody_is_evicted() -> None:
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW)
    stage.submit(pod("claim", "own", 4, volumes=CLAIMS))
    await stage.look()
    await stage.look()
    assert stage.evicted() == []
    stage.bench.put(pod("claim", "own", 4, volumes=CLAIMS, verdict=NO_ROOM))
    await stage.look()
    assert stage.evicted() == ["new"]


@pytest.mark.row("X-08", case="evict")
@pytest.mark.parametrize(("known", "evicted"), [(True, ["new"]), (False, [])])
async def test_that_a_call_named_a_pod_with_volumes_is_a_reason_to_evict_only_where_callers_are_known(
    *, known: bool, evicted: list[str]
) -> None:
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW)
    stage.bench.ledger.callers_are_known = known
    stage.submit(pod("claim", "own", 4, volumes=CLAIMS))
    stage.bench.ledger.offer(stage.bench.ledger.entries["ns/claim"].seen.pod, ["n1"], stage.bench.now)
    await stage.look()
    await stage.look()
    assert stage.evicted() == evicted


async def test_one_that_no_eviction_helps_holds_up_nobody_else() -> None:
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW)
    stage.submit(pod("claim", "own", 4, verdict=NO_VOLUME), pod("next", "own", 4, verdict=NO_ROOM))
    await stage.look()
    await stage.look()
    assert stage.evicted() == ["new"]
    assert stage.kept() == {"next": "n1"}


HOPELESS = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."


async def crowded_out(*, hopeless: int) -> Stage:
    """A borrower on the whole node, pods that no eviction helps, and after them one that is right to claim a GPU."""
    lent = [running(f"lent-{number}", "lent", 1, "n1", age=number) for number in range(8)]
    stage = Stage(node("n1"), queue("own", quota=8), queue("lent", quota=0), *lent)
    stage.submit(*vain(hopeless, HOPELESS))
    stage.submit(pod("rightful", "own", 1, verdict=NO_ROOM, created="2026-01-01T00:01:00Z"))
    await stage.look()
    return stage


def vain(count: int, verdict: str) -> list[Json]:
    return [pod(f"vain-{n}", "own", 1, verdict=verdict, created=f"2026-01-01T00:00:{n:02}Z") for n in range(count)]


@pytest.mark.parametrize("hopeless", [1, 20])
async def test_however_many_no_eviction_helps_they_hold_up_nobody_for_more_than_a_look(hopeless: int) -> None:
    stage = await crowded_out(hopeless=hopeless)
    assert stage.evicted() == []
    await stage.look()
    assert stage.evicted() == ["lent-7"]
    assert stage.kept() == {"rightful": "n1"}


async def test_another_number_of_nodes_gives_nobody_hope() -> None:
    stage = await crowded_out(hopeless=20)
    stage.submit(*vain(20, HOPELESS.replace("0/1", "0/2").replace(": 1 node(s)", ": 2 node(s)")))
    await stage.look()
    assert stage.kept() == {"rightful": "n1"}


async def test_where_a_port_is_taken_room_is_made_all_the_same() -> None:
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW)
    ports = "1 node(s) didn't have free ports for the requested pod ports."
    stage.submit(pod("claim", "own", 4, verdict=f"0/1 nodes are available: {ports}"))
    await stage.look()
    assert stage.evicted() == ["new"]


async def test_a_new_leader_does_not_try_a_refused_place_again(stage: Stage) -> None:
    await stage.look()
    stage.gone(NEW)
    await stage.look()
    await stage.look(after=REFUSED_AFTER)
    await stage.look()
    stage.submit(running("third", "lent", 4, "n1", age=3))
    stage.planner = stage.another()
    await stage.look()
    await stage.look()
    assert stage.evicted() == ["new"]


async def test_a_clock_that_jumps_does_not_end_the_grace_of_a_dip() -> None:
    full = running("full", "team", 8, "n2", age=1)
    stage = Stage(node("n1"), node("n2"), queue("lent", quota=8), queue("team", quota=8), OLD, NEW, full)
    stage.submit(pod("wish", "team", 1))
    await stage.look()
    stage.bench.put(node("n2", 0))
    await stage.look()
    stage.bench.today += 100_000
    await stage.look()
    stage.planner = stage.another()
    await stage.look()
    assert stage.evicted() == []


async def test_a_clock_that_jumps_makes_no_victim_look_stuck(stage: Stage) -> None:
    await stage.look()
    assert stage.evicted() == ["new"]
    stage.bench.put(NEW | {"metadata": NEW["metadata"] | {"deletionTimestamp": "2027-01-15T08:00:31Z"}})
    await stage.look()
    stage.bench.today += 3600
    stage.bench.put(queue("news"))
    await stage.look()
    await stage.look()
    assert (stage.states(), stage.evicted()) == (["Running"], ["new"])
    await stage.look(after=121)
    assert "Impossible" in stage.states(), "by now it has had two minutes"


async def test_in_a_burst_who_only_stands_in_the_queue_of_kube_scheduler_is_counted_on() -> None:
    stage = Stage(node("n1"), queue("team"), pod("claim", "team", 4))
    for label in "xy":
        await stage.look(after=20)
        stage.bench.put(queue(label))
    assert stage.precedence.blocked == frozenset()
    stage.bench.put(pod("claim", "team", 4, verdict=NO_VOLUME))
    for label in "ab":
        await stage.look(after=20)
        stage.bench.put(queue(label))
    assert stage.precedence.blocked == {"ns/claim"}


async def test_what_plans_keep_is_not_made_anew_while_nothing_changes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.look()
    put: list[object] = []
    monkeypatch.setattr(stage.bench.ledger, "put_promises", put.append)
    await stage.look()
    assert put == []
    assert stage.kept() == {"claim": "n1"}


async def test_a_new_leader_keeps_nothing_of_plans_that_are_gone(stage: Stage) -> None:
    await stage.look()
    stage.api.objects = {name: one for name, one in stage.api.objects.items() if not name.startswith(PLANS)}
    await stage.another().resume()
    assert stage.kept() == {}


async def test_what_could_not_be_kept_is_kept_at_the_next_look(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.look()
    stage.gone(NEW)
    put, fails = stage.bench.ledger.put_promises, iter([True])

    def fail_once(promises: Iterable[Promise]) -> None:
        if next(fails, False):
            raise ArithmeticError
        put(promises)

    stage.bench.ledger.put_promises(())
    monkeypatch.setattr(stage.bench.ledger, "put_promises", fail_once)
    new = stage.another()
    with pytest.raises(ArithmeticError):
        await new.resume()
    await new.look()
    assert stage.kept() == {"claim": "n1"}


async def test_a_new_leader_goes_on_where_the_last_one_stopped(stage: Stage) -> None:
    stage.api.errors["patch", next_status(stage)] = UnreachableError("killed")
    with pytest.raises(UnreachableError):
        await stage.look()
    stage.api.errors.clear()
    leaving = NEW | {"metadata": NEW["metadata"] | {"deletionTimestamp": "2027-01-15T08:00:31Z"}}
    stage.bench.put(leaving)
    stage.planner = stage.another()
    await stage.planner.resume()
    assert stage.kept() == {"claim": "n1"}
    await stage.look()
    assert stage.evicted() == ["new"]
    stage.gone(leaving)
    stage.bench.put(pod("claim", "own", 4, on="n1"))
    await stage.look()
    assert stage.states() == ["Kept"]


def next_status(stage: Stage) -> str:
    """Where the status of the next plan will be written: names are made of what is decided, and when."""
    from gpuyard.engine.search.cycle import Cycle  # noqa: PLC0415
    from gpuyard.extender.planner.decide.new_plans import decided  # noqa: PLC0415

    cycle = Cycle(stage.bench.ledger.snapshot.at(int(stage.bench.today) + 1), stage.bench.config.engine)
    cycle.run()
    return f"{PLANS}{decided(cycle)[0].name}/status"


async def test_a_plan_that_cannot_be_carried_out_for_a_fault_of_ours_holds_nothing_else_up(stage: Stage) -> None:
    stage.api.errors[eviction("new")] = BUSY
    await stage.look()
    stage.api.errors[eviction("new")] = TypeError("a fault")  # type: ignore[assignment]
    stage.submit(pod("more", "lent", 8))
    await stage.look(after=2)
    assert "more" in {name for name, _ in stage.ear.heard}
    stage.api.errors.clear()
    await stage.look(after=2)
    assert stage.evicted()[-1] == "new"


async def test_a_plan_that_cannot_be_written_evicts_nobody(stage: Stage) -> None:
    stage.api.errors["create", next_status(stage).removesuffix("/status")] = UnreachableError("no answer")
    with pytest.raises(UnreachableError):
        await stage.look()
    assert (stage.evicted(), stage.kept()) == ([], {})


@pytest.mark.row("X-82")
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_plan_that_the_api_server_will_not_store_holds_no_other_up(stage: Stage, status: int) -> None:
    stage.api.errors["create", next_status(stage).removesuffix("/status")] = error(status, "Invalid", "too large")
    await stage.look()
    assert (stage.evicted(), stage.kept()) == ([], {})
    stage.submit(pod("modest", "own", 4))
    await stage.look()
    (plan,) = stage.plans()
    assert (plan["spec"]["workload"], stage.evicted()) == ("ns/modest", ["new"])


async def test_what_preempt_granted_is_left_alone(stage: Stage) -> None:
    urgent = pod("urgent", "lent", 4, priorityClassName="build-preemptible")
    stage.submit(urgent)
    answer = stage.bench.preempt(urgent, {"n1": {"Pods": [{"UID": "uid-new"}], "NumPDBViolations": 0}})
    assert answer.node_name_to_meta_victims
    await stage.look()
    assert stage.evicted() == []


async def test_a_bare_pod_that_is_moved_comes_back_once_under_its_name() -> None:
    one, two = running("one", "team", 2, "n1", age=1), running("two", "team", 2, "n2", age=2)
    stage = Stage(node("n1", 4), node("n2", 4), queue("team"), one, two, pod("big", "team", 4))
    stage.bench.config = ExtenderConfig(move_bare_pods=True)
    await stage.look()
    assert stage.evicted() == ["two"]
    assert stage.kept() == {"big": "n2", "two": "n1"}
    assert any("controllerrevisions" in name for name in stage.api.objects)
    stage.gone(two)
    await stage.look()
    made = stage.api.objects[path(two)]
    assert made["metadata"]["annotations"]["gpuyard.io/moved-from"] == "uid-two"
    assert not any("controllerrevisions" in name for name in stage.api.objects)
    stage.bench.put(pod("two", "team", 2, status={"phase": "Pending"}) | {"metadata": made["metadata"]})
    await stage.look()
    again = [one for one in stage.api.wrote("create") if one == path(two)]
    assert len(again) == 1
    assert stage.states() == ["Running"]


async def test_a_quiet_cluster_is_not_looked_at_again(stage: Stage) -> None:
    await stage.look()
    before = len(stage.api.calls)
    for _ in range(3):
        await stage.look()
    assert len(stage.api.calls) == before


async def test_queues_say_what_they_hold_and_are_due(stage: Stage) -> None:
    await stage.look()
    status: Any = stage.api.objects["/apis/scheduling.run.ai/v2/queues/lent"]["status"]
    assert status["allocated"]["nvidia.com/gpu"] == "8"
    assert status["fairShare"]["nvidia.com/gpu"] == "4"
    assert {"type": "OverQuota", "status": "True"} in status["conditions"]


async def test_a_waiting_pod_hears_its_reason_once() -> None:
    stage = Stage(node("n1"), queue("lent", quota=8), queue("own", quota=0), OLD, NEW, CLAIM)
    for label in "xyz":
        stage.bench.put(node("n1"), queue("own", quota=0, parent=""))
        stage.bench.put(queue(label))
        await stage.look()
    assert stage.ear.heard == [("claim", "ReclaimNotAllowed")]


@pytest.mark.parametrize("error", [UnreachableError("gone"), RuntimeError("a fault of ours")])
async def test_whatever_goes_wrong_it_goes_on(stage: Stage, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Exception] = []

    async def look() -> None:
        looks.append(error)
        raise error

    monkeypatch.setattr(stage.planner, "look", look)
    stage.bench.config = ExtenderConfig(planner=PlannerConfig(interval=Span(0)))
    running = asyncio.create_task(stage.planner.run())
    while len(looks) < 3:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])


async def test_a_plan_that_cannot_go_on_holds_up_no_other(stage: Stage) -> None:
    await stage.look()
    name = stage.plans()[0]["metadata"]["name"]
    stage.gone(NEW)
    stage.bench.put(pod("claim", "own", 4, on="n1"))
    stage.api.errors["patch", f"{PLANS}{name}/status"] = error(403, "Forbidden")
    stage.submit(pod("next", "own", 4))
    await stage.look()
    assert stage.states() == ["Running"]
    stage.api.errors.clear()
    await stage.look()
    assert stage.states() == ["Kept"]


async def test_what_the_ledger_has_overtaken_is_not_carried_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "still_holds", lambda *_: False)
    await stage.look()
    assert (stage.evicted(), stage.plans()) == ([], [])


async def test_who_sleeps_and_could_go_is_woken_once_in_a_while() -> None:
    claim = pod("claim", "team", 4)
    stage = Stage(node("n1"), queue("team"), claim)
    stage.bench.ledger.refuse(stage.bench.ledger.entries["ns/claim"].seen, "Outranked")
    await stage.look()
    assert stage.bench.ledger.take_called() == {"ns/claim"}
    for label in "xy":
        stage.bench.put(queue(label))
        await stage.look()
    assert stage.bench.ledger.take_called() == set()


async def test_in_a_crowd_a_newcomer_that_ranks_first_is_refused_until_the_next_look_which_wakes_it() -> None:
    crowd = [pod(f"crowd-{number}", "lent") for number in range(20)]
    stage = Stage(node("n1", 4), queue("lent", quota=0), queue("own", quota=4), *crowd)
    await stage.look()
    stage.submit(newcomer := pod("newcomer", "own"))
    assert not stage.bench.passes(newcomer)
    await stage.look()
    assert "ns/newcomer" in stage.bench.ledger.take_called()
    assert stage.bench.passes(newcomer)


async def test_who_could_go_and_sleeps_on_is_woken_again_although_nothing_has_changed() -> None:
    """It was refused for the sake of others who cannot come, and nobody else wakes it."""
    claim = pod("claim", "team", 4)
    stage = Stage(node("n1"), queue("team"), claim)
    sleeper = stage.bench.ledger.entries["ns/claim"].seen
    stage.bench.ledger.refuse(sleeper, "Outranked")
    await stage.look()
    assert stage.bench.ledger.take_called() == {"ns/claim"}
    await stage.look(after=loop.WAKE_AGAIN + 1)
    assert stage.bench.ledger.take_called() == {"ns/claim"}


async def test_who_inherits_is_told_by_the_clock_of_the_api_server() -> None:
    """Ours may be ahead of it: a pod that came after the plan, by its clock, looks older than the plan by ours."""
    owned = {"ownerReferences": [{"uid": "job", "kind": "Job", "name": "job", "controller": True}]}
    claim = pod("claim", "own", 4)
    claim["metadata"] |= owned
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), OLD, NEW, claim)
    stage.api.created = "2026-01-01T00:00:10Z"
    await stage.look()
    stage.gone(NEW)
    stage.gone(claim)
    heir = running("heir", "own", 4, "n1", age=11)
    heir["metadata"] |= owned
    stage.bench.put(heir)
    await stage.look()
    assert stage.states() == ["Kept"]
