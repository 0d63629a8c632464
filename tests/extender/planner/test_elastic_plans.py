"""Plans of other writers: what is accepted, what is kept for how long, and what is impossible."""

import asyncio
from contextlib import suppress

import pytest
from gpuyard.common.extender_config import ExtenderConfig, Promise
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.kube.objects import Meta
from gpuyard.common.plans.plan import Spec
from gpuyard.common.settings import Span
from gpuyard.engine.kube.times import written
from gpuyard.extender.planner.act.elastic_plans import AT_LEAST
from gpuyard.extender.planner.loop import _is_same
from msgspec.structs import replace

from tests.extender.builders import Json, group, meta, node, pod, queue
from tests.extender.planner.builders import error
from tests.extender.planner.builders import plan as a_plan
from tests.extender.planner.stage import PLANS, Stage

IN_JOB = {"pod-group-name": "job"}
TTL = 300


def room(on: str = "n1", gpus: int = 4, *, workload: str = "job", **more: object) -> Json:
    """What is asked for on a node."""
    return {"workload": f"ns/{workload}", "node": on, "amounts": {"gpus": gpus}, **more}


def member(name: str, gpus: int = 4, *, on: str = "", created: str = "2026-01-01T00:00:00Z", job: str = "job") -> Json:
    return pod(name, "team", gpus, on=on, annotations={"pod-group-name": job}, created=created)


class Writer:
    """A planner, and somebody else who writes plans."""

    def __init__(self, *things: Json) -> None:
        self.thieves = 0
        self.stage = Stage(node("n1"), node("n2"), queue("team"), group("job", 1, "team"), *things)

    def write(self, *promises: Json, name: str = "e", phase: str = "elastic", **spec: object) -> None:
        made = {
            "kind": "Plan",
            "metadata": meta(name, creationTimestamp=written(int(self.stage.bench.today))),
            "spec": {"phase": phase, "workload": "ns/job", "promises": list(promises), **spec},
        }
        self.stage.api.put(PLANS + name, made)
        self.stage.bench.put(made)

    def delete(self, name: str = "e") -> None:
        self.stage.bench.drop(self.stage.api.objects.pop(PLANS + name))

    async def look(self, *, after: float = 1) -> None:
        """One look; the watch shows what it has written."""
        self.stage.bench.now += after
        self.stage.bench.today += after
        await self.stage.planner.elastic.look()
        self.show()

    def show(self) -> None:
        for plan in self.stage.plans():
            self.stage.bench.put(plan | {"kind": "Plan"})

    def another_leads(self) -> None:
        self.stage.planner = self.stage.another()
        self.stage.bench.ledger.put_promises([])

    def status(self, name: str = "e") -> Json:
        found: Json = self.stage.api.objects[PLANS + name].get("status") or {}
        return found

    def state(self, name: str = "e") -> tuple[object, object]:
        return self.status(name).get("state"), self.status(name).get("accepted")

    def now(self) -> str:
        """The time, for pods that are created."""
        return written(int(self.stage.bench.today))

    def is_kept(self, gpus: int = 8, on: str = "n1") -> bool:
        """Whether somebody else who asks for so much there is refused."""
        self.thieves += 1
        thief = pod(f"thief-{self.thieves}", "team", gpus)
        refused = not self.stage.bench.passes(thief, on)
        self.stage.bench.drop(thief)
        return refused

    def writes(self) -> int:
        return len(self.stage.api.wrote("patch", "create", "delete"))


ACCEPTED, REFUSED = ("Running", True), ("Impossible", False)


# --- what is accepted ---


@pytest.mark.row("B-71", case="answered")
async def test_idle_room_is_accepted_and_kept() -> None:
    to = Writer()
    to.write(room())
    await to.look()
    assert to.state() == ACCEPTED
    assert to.is_kept(5)
    assert not to.is_kept(4)


@pytest.mark.row("B-71", case="answered")
async def test_room_that_the_workload_itself_still_holds_is_accepted() -> None:
    to = Writer(member("job-1-0", 8, on="n1"))
    to.write(room(gpus=5), room(gpus=3, workload="newcomer"))
    await to.look()
    assert to.state() == ACCEPTED


@pytest.mark.row("B-71", case="answered")
async def test_room_of_the_workload_that_the_plan_is_about_is_accepted_for_another_one() -> None:
    to = Writer(member("job-1-0", 8, on="n1"))
    to.write(room(gpus=8, workload="newcomer"), workload="ns/other")
    await to.look()
    assert to.state() == REFUSED
    to.write(room(gpus=8, workload="newcomer"), name="e-2")
    await to.look()
    assert to.state("e-2") == ACCEPTED


@pytest.mark.row("B-71", case="answered")
async def test_nothing_that_is_freed_goes_elsewhere() -> None:
    to = Writer(before := member("job-1-0", 8, on="n1"))
    to.write(room(gpus=5), room(gpus=3, workload="newcomer"))
    await to.look()
    to.stage.bench.drop(before)
    assert to.is_kept(1)
    assert to.stage.bench.passes(member("job-2-0", 5, created=to.now()), "n1")
    to.stage.bench.put(group("newcomer", 1, "team"))
    assert to.stage.bench.passes(member("new-0", 3, created=to.now(), job="newcomer"), "n1")


async def test_nobody_is_evicted_for_room_that_a_writer_frees() -> None:
    to = Writer(member("job-1-0", 8, on="n1"), member("elsewhere", 8, on="n2", job="other"))
    to.write(room(gpus=8))
    await to.look()
    to.stage.submit(pod("older", "team", 8))
    for _ in range(3):
        await to.stage.look()
        await to.look()
    assert to.stage.evicted() == []


async def test_a_pod_that_has_just_come_hears_that_the_room_is_reserved() -> None:
    to = Writer()
    to.write(room("n1", 8), room("n2", 8))
    await to.look()
    to.stage.submit(pod("waits", "team", 8, created=to.now()))
    await to.stage.look()
    assert ("waits", "PromisedToOther") in to.stage.ear.heard


async def test_what_was_accepted_is_beside_what_is_asked_next() -> None:
    to = Writer()
    to.write(room(gpus=5), name="a")
    to.write(room(gpus=4), name="b")
    await to.look()
    assert (to.state("a"), to.state("b")) == (ACCEPTED, REFUSED)


async def test_an_answer_is_written_once() -> None:
    to = Writer()
    to.write(room())
    await to.look()
    before = to.writes()
    for _ in range(5):
        await to.look()
    assert to.writes() == before


async def test_an_answer_that_could_not_be_written_is_tried_again() -> None:
    to = Writer()
    to.write(room())
    to.stage.api.errors["patch", f"{PLANS}e/status"] = UnreachableError("away")
    await to.look()
    assert to.state() == (None, None)
    to.stage.api.errors.clear()
    await to.look()
    assert to.state() == ACCEPTED


async def test_a_plan_that_was_deleted_before_it_was_answered_is_not_missed() -> None:
    to = Writer()
    to.write(room())
    to.stage.api.errors["patch", f"{PLANS}e/status"] = error(404, "NotFound")
    await to.look()


# --- what is impossible ---


def holder(gpus: int, *, fixed: bool = False) -> Json:
    return pod("holder", "team", gpus, on="n1", fixed=fixed)


@pytest.mark.row("B-72", case="room")
async def test_room_that_others_hold_is_impossible() -> None:
    to = Writer(holder(6))
    to.write(room(gpus=3))
    await to.look()
    assert to.state() == REFUSED
    assert to.status()["message"] == "3 GPUs are asked for workload ns/job on node n1, and 2 will be free for it"
    assert to.status()["finished"]
    assert not to.is_kept(2)
    assert to.stage.evicted() == []


@pytest.mark.row("B-72", case="room")
async def test_room_that_is_promised_to_others_or_nominated_is_impossible() -> None:
    to = Writer(pod("nominee", "team", 4, status={"phase": "Pending", "nominatedNodeName": "n1"}))
    to.write(room(gpus=5))
    await to.look()
    assert to.state() == REFUSED
    to.write(room(gpus=4), name="fits")
    await to.look()
    assert to.state("fits") == ACCEPTED


@pytest.mark.row("B-72", case="room")
async def test_room_that_a_pod_was_let_through_to_is_impossible() -> None:
    to = Writer()
    assert to.stage.bench.passes(pod("first", "team", 8), "n1")
    to.write(room(gpus=1))
    await to.look()
    assert to.state() == REFUSED


@pytest.mark.row("B-72", case="room")
@pytest.mark.parametrize(("priority", "state"), [(50, REFUSED), (100, ACCEPTED)])
async def test_a_waiting_pod_of_higher_priority_that_is_about_to_start_goes_first(
    priority: int, state: tuple[str, bool]
) -> None:
    to = Writer(pod("full", "team", 8, on="n2"))
    urgent = pod("urgent", "team", 8, priority=75, verdict="0/2 nodes are available")
    to.stage.submit(urgent)
    await to.stage.look()
    to.write(room(gpus=1, priority=priority))
    await to.look()
    assert to.state() == state


async def test_room_that_a_plan_of_our_own_frees_is_not_counted_against_another() -> None:
    small = [pod(f"lent-{number}", "lent", 4, on="n1") for number in range(2)]
    to = Writer(queue("lent", quota=0), queue("own", quota=16), *small, member("job-1-0", 8, on="n2"))
    to.stage.submit(pod("claim", "own", 8))
    await to.stage.look()
    assert sorted(to.stage.evicted()) == ["lent-0", "lent-1"]
    to.write(room("n2", 8))
    to.write(room("n1", 1), name="taken")
    await to.look()
    assert to.state() == ACCEPTED
    assert to.state("taken") == REFUSED


@pytest.mark.row("B-72", case="room")
async def test_cpu_and_memory_count_as_well() -> None:
    to = Writer()
    to.write(room() | {"amounts": {"gpus": 1, "cpu": 65_000}})
    await to.look()
    assert to.status()["message"].startswith("node n1 has not enough CPU, memory or places for pods")


@pytest.mark.row("B-72", case="written")
@pytest.mark.parametrize(
    ("promises", "spec", "why"),
    [
        ([], {}, "asks for no room"),
        ([room("nowhere")], {}, "there is no node nowhere"),
        ([room(queue="gone")], {}, "there is no queue gone"),
        ([room(), room()], {}, "names workload ns/job on node n1 2 times"),
        ([room(pod="ns/x")], {}, "and no pod, owner or shape"),
        ([room(shape={"gpus": 1})], {}, "and no pod, owner or shape"),
        ([room(amounts=None)], {}, "names a workload and amounts"),
        ([{"node": "n1", "amounts": {"gpus": 1}}], {}, "names a workload and amounts"),
        ([room(gpus=0)], {}, "at least one GPU"),
        ([room(amounts={"gpus": 1, "memory": -1})], {}, "less than no CPU or memory"),
        ([room()], {"evictions": [{"pod": "ns/holder", "uid": "uid-holder", "node": "n1"}]}, "evicts nobody"),
    ],
)
async def test_a_plan_that_asks_for_nothing_that_can_be_kept_says_so(
    promises: list[Json], spec: Json, why: str
) -> None:
    to = Writer(holder(1))
    to.write(*promises, **spec)
    await to.look()
    assert to.state() == REFUSED
    assert why in to.status()["message"]
    assert to.stage.evicted() == []
    assert not to.is_kept(7)


@pytest.mark.row("B-72", case="written")
async def test_a_node_that_takes_no_pods_is_impossible() -> None:
    closed = node("n1") | {"spec": {"unschedulable": True}}
    to = Writer(closed)
    to.write(room())
    await to.look()
    assert "node n1 takes no pods" in to.status()["message"]


# --- what becomes of it ---


async def test_a_plan_is_kept_once_pods_of_the_workload_stand_in_all_of_its_room() -> None:
    to = Writer(before := member("job-1-0", 8, on="n1"))
    to.write(room(gpus=6))
    await to.look()
    to.stage.bench.drop(before)
    to.stage.bench.put(first := member("job-2-0", 2, on="n1", created=to.now()))
    await to.look()
    assert to.state() == ACCEPTED, "a part is not all"
    to.stage.bench.put(member("job-2-1", 4, on="n1", created=to.now()))
    await to.look()
    assert to.state() == ("Kept", True)
    to.stage.bench.drop(first)
    await to.look()
    assert not to.is_kept(4)


async def test_a_promise_that_was_met_once_is_not_kept_again_when_its_pod_leaves() -> None:
    to = Writer()
    to.write(room("n1", 8), room("n2", 8))
    await to.look()
    to.stage.bench.put(first := member("job-2-0", 8, on="n1", created=to.now()))
    await to.look()
    to.stage.bench.drop(first)
    await to.look()
    assert not to.is_kept(8, "n1")
    assert to.is_kept(8, "n2")


@pytest.mark.row("B-73", case="deleted")
async def test_a_plan_that_is_deleted_keeps_nothing() -> None:
    to = Writer()
    to.write(room(gpus=8))
    await to.look()
    assert to.is_kept(1)
    to.delete()
    await to.look()
    assert not to.is_kept(8)


@pytest.mark.row("B-73", case="deleted")
async def test_a_plan_that_is_written_anew_under_its_name_is_asked_anew() -> None:
    to = Writer()
    to.write(room(gpus=8))
    await to.look()
    to.delete()
    to.stage.bench.put(holder(8))
    to.write(room(gpus=8))
    plan = to.stage.api.objects[f"{PLANS}e"]
    plan["metadata"]["uid"] = "another"
    to.show()
    await to.look()
    assert to.state() == REFUSED


@pytest.mark.row("B-73", case="expired")
@pytest.mark.parametrize(("ttl", "keeps"), [(TTL, TTL), (1, AT_LEAST)])
async def test_room_for_which_nobody_comes_is_given_up(ttl: int, keeps: float) -> None:
    to = Writer()
    to.stage.bench.config = ExtenderConfig(promise=Promise(ttl=Span(ttl)))
    to.write(room(gpus=8))
    await to.look()
    await to.look(after=0)
    await to.look(after=keeps - 1)
    assert to.state() == ACCEPTED
    await to.look(after=2)
    assert to.state() == ("Expired", True)
    assert to.status()["message"] == "no pod of ns/job took the room on n1"
    assert not to.is_kept(8)


@pytest.mark.row("B-73", case="expired")
async def test_the_time_begins_anew_when_a_pod_leaves_the_room_or_takes_some_of_it() -> None:
    to = Writer(before := member("job-1-0", 8, on="n1"))
    to.write(room(gpus=8))
    await to.look()
    await to.look(after=TTL - 1)
    to.stage.bench.drop(before)
    await to.look(after=2)
    await to.look(after=TTL - 1)
    to.stage.bench.put(member("job-2-0", 1, on="n1", created=to.now()))
    await to.look(after=2)
    await to.look(after=TTL - 1)
    assert to.state() == ACCEPTED
    await to.look(after=2)
    assert to.state() == ("Expired", True)


async def test_a_plan_whose_node_is_gone_has_become_impossible() -> None:
    to = Writer()
    to.write(room())
    await to.look()
    to.stage.bench.drop(node("n1"))
    await to.look()
    assert to.state() == ("Impossible", True)
    assert to.status()["message"] == "there is no node n1 any more"


async def test_a_plan_that_is_changed_after_it_was_accepted_keeps_nothing() -> None:
    to = Writer()
    to.write(room())
    await to.look()
    to.stage.api.objects[f"{PLANS}e"]["spec"]["promises"][0]["amounts"]["gpus"] = 8
    to.show()
    await to.look()
    assert to.state() == ("Impossible", True)
    assert not to.is_kept(8)


# --- whoever leads next ---


@pytest.mark.row("B-73", case="restart")
async def test_a_restart_goes_on_with_what_was_accepted_before_it_answers_anybody() -> None:
    to = Writer()
    to.write(room(gpus=8), name="accepted")
    await to.look()
    to.write(room("n2"), name="new")
    to.another_leads()
    to.stage.bench.put(pod("squatter", "team", 8, on="n1"))
    await to.stage.planner.resume()
    to.stage.bench.drop(pod("squatter", "team", 8, on="n1"))
    assert to.is_kept(8)
    assert not to.is_kept(8, "n2"), "this one has not been answered"
    before = to.writes()
    await to.look()
    assert to.state("new") == ACCEPTED
    assert to.writes() == before + 1


@pytest.mark.row("B-73", case="restart")
async def test_a_restart_keeps_nothing_for_what_has_ended() -> None:
    to = Writer(holder(8))
    to.write(room())
    await to.look()
    to.another_leads()
    to.stage.bench.drop(holder(8))
    await to.stage.planner.resume()
    await to.look()
    assert to.state() == REFUSED
    assert not to.is_kept(8)


@pytest.mark.row("B-74", case="resumed")
async def test_a_plan_that_somebody_else_wrote_meanwhile_evicts_nobody_when_plans_are_read_again() -> None:
    to = Writer(holder(1))
    victim = {"pod": "ns/holder", "uid": "uid-holder", "node": "n1"}
    await to.stage.look()
    to.write(phase="reclaim", evictions=[victim])
    await to.stage.look()
    await to.look()
    await to.stage.planner.resume()
    await to.stage.look()
    assert to.stage.evicted() == []
    assert to.status() == {}


@pytest.mark.row("B-74", case="resumed")
async def test_a_plan_of_our_own_of_which_nobody_knew_whether_it_was_stored_is_gone_on_with() -> None:
    lent = [pod(f"lent-{number}", "lent", 4, on="n1", created=f"2026-01-01T00:00:0{number}Z") for number in range(2)]
    stage = Stage(node("n1"), queue("lent", quota=4), queue("own", quota=4), *lent, pod("claim", "own", 4))
    create = stage.api.create

    async def stored_without_an_answer(address: object, body: Json) -> Json:
        await create(address, body)  # type: ignore[arg-type]
        raise UnreachableError("the answer is lost")

    stage.api.create = stored_without_an_answer  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        await stage.look()
    stage.api.create = create  # type: ignore[method-assign]
    assert (len(stage.plans()), stage.evicted()) == (1, [])
    await stage.planner.resume()
    await stage.look()
    assert (len(stage.plans()), stage.evicted()) == (1, ["lent-1"])


async def test_whatever_is_wrong_with_a_look_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic, looks, again = Writer().stage.planner.elastic, 0, asyncio.Event()

    async def broken() -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            again.set()
        await asyncio.sleep(0)
        raise RuntimeError("broken")

    monkeypatch.setattr(elastic, "look", broken)
    task = asyncio.create_task(elastic.run(lambda: 0.001))
    await asyncio.wait_for(again.wait(), 10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.row("B-74", case="resumed")
@pytest.mark.parametrize(
    ("uid", "found", "is_ours"),
    [("uid-1", "uid-1", True), ("uid-1", "uid-2", False), ("", "uid-2", True)],
    ids=["ours", "another of its name", "creation not answered"],
)
def test_a_plan_is_ours_by_its_uid_and_only_while_that_is_not_known_by_what_it_says(
    uid: str, found: str, *, is_ours: bool
) -> None:
    ours, theirs = (replace(a_plan(), metadata=Meta(name="reclaim-1", uid=one)) for one in (uid, found))
    assert _is_same(ours, theirs) is is_ours
    assert not _is_same(None, theirs)
    assert not _is_same(
        replace(ours, metadata=Meta(name="reclaim-1")), replace(theirs, spec=Spec(phase="reclaim", workload="w"))
    )
