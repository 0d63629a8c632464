"""One plan, step by step: who goes, who comes back, and what ends it."""

import itertools
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from gpuyard.common.effects.move import digest
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.plans.plan import Place, Plan
from gpuyard.common.plans.store import Store
from gpuyard.engine.model import Pod, Shape, State
from gpuyard.engine.placing.scratch import is_stuck
from gpuyard.extender.planner.act.execution import DELAYS, PATIENCE, Executor, Run, Terms, World
from gpuyard.extender.planner.metrics import PlannerMetrics
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tests.extender.planner.builders import BUSY, NOT_FOUND, Api, error, place, plan, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.plans.plan import Victim
    from gpuyard.extender.planner.tell.pod_events import Teller

TTL = 300
PLANS = "/apis/gpuyard.io/v1alpha1/plans"
KEPT = "/apis/apps/v1/namespaces/ns/controllerrevisions"
PODS = "/api/v1/namespaces/ns/pods"
FORBIDDEN = error(403, "Forbidden", "exceeded quota")


class Ear:
    """Hears who is evicted and who is back."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def evicted(self, _: Plan, gone: "Victim") -> None:
        self.heard.append(f"{gone.pod} evicted")

    def withdrawn(self, of: Plan) -> None:
        self.heard.append(f"{of.name} withdrawn")

    def move_refused(self, _: Plan, gone: "Victim", why: str) -> None:
        self.heard.append(f"{gone.pod} refused: {why}")

    def moved(self, _: Plan, back: "Victim", node: str) -> None:
        self.heard.append(f"{back.pod} moved to {node}")


class Act:
    """One plan over a handful of pods; the API server has them as the watches show them."""

    def __init__(self, of: Plan, *pods: Pod) -> None:
        self.api = Api()
        self.ear = Ear()
        self.pods = {one.key: one for one in pods}
        for one in pods:
            self.api.put(f"{PODS}/{one.key[3:]}", {"metadata": {"name": one.key[3:], "uid": one.uid}, "spec": {}})
        self.api.put(f"{PLANS}/{of.name}", msgspec.to_builtins(of))
        client = cast("Client", self.api)
        metrics = PlannerMetrics(CollectorRegistry())
        self.executor = Executor(client, Store(client), cast("Teller", self.ear), metrics)
        self.run = Run(of, 0, of.spec.promises)
        self.now = 0.0
        self.move_bare_pods = True

    async def step(self, *, after: float = 0) -> None:
        self.now += after
        at: dict[str, tuple[Pod, ...]] = {}
        for one in self.pods.values():
            at[one.node] = (*at.get(one.node, ()), one)
        today = 1_800_000_000 + int(self.now)
        world = World(self.pods, at, self.now, today, lambda pod: is_stuck(pod, today), lambda _: "")
        await self.executor.advance(self.run, world, Terms(TTL, honor_budgets=True, move_bare_pods=self.move_bare_pods))

    def gone(self, name: str) -> None:
        del self.pods[f"ns/{name}"]
        self.api.objects.pop(f"{PODS}/{name}", None)

    def leaves(self, name: str) -> None:
        old = self.pods[f"ns/{name}"]
        self.pods[old.key] = replace(old, state=State.TERMINATING, deleted_at=1_800_000_030)
        self.leaves_unseen(name)

    def leaves_unseen(self, name: str) -> None:
        self.api.objects[f"{PODS}/{name}"]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"

    def is_kept(self, name: str) -> bool:
        return f"{KEPT}/gpuyard-move-{name}" in self.api.objects

    def stands(self, name: str, node: str, uid: str = "") -> None:
        self.pods[f"ns/{name}"] = pod(name, node, uid=uid)

    @property
    def state(self) -> str:
        return f"{self.run.plan.status.state}: {self.run.plan.status.message}"

    def restarts(self, with_plan: Plan) -> None:
        """Another extender goes on from the plan as it was written."""
        self.run = Run(with_plan, 0, with_plan.spec.promises)

    def open(self) -> list[str]:
        return [one.pod for one in self.run.open]

    def refuse(self, name: str, said: Exception = BUSY) -> None:
        self.api.errors["create", f"{PODS}/{name}/eviction"] = said  # type: ignore[assignment]

    def evictions(self) -> list[str]:
        return [one.split("/")[-2] for one in self.api.wrote("create") if one.endswith("/eviction")]


def pod(name: str, on: str = "", *, uid: str = "") -> Pod:
    state = State.RUNNING if on else State.PENDING
    return Pod(key=f"ns/{name}", uid=uid or f"uid-{name}", shape=Shape(gpus=1), state=state, node=on)


def taking(*victims: str) -> Act:
    """A pod `a` that waits for the room of these on n1."""
    of = plan(*(victim(name) for name in victims), places=[place("a")])
    return Act(of, pod("a"), *(pod(name, "n1") for name in victims))


def moving(*more: Place) -> Act:
    """A pod `a` that waits for the room of `b`, which moves to n2."""
    of = plan(victim("b"), places=[place("a"), place("b", "n2"), *more])
    return Act(of, pod("a"), pod("b", "n1"))


async def test_victims_go_in_the_order_of_the_plan() -> None:
    act = taking("b", "c")
    await act.step()
    assert act.evictions() == ["b", "c"]
    assert act.run.plan.status.evicted == ("uid-b", "uid-c")
    assert act.state == "Running: 2 of 2 told to go"


async def test_after_the_first_that_is_put_off_nobody_else_goes() -> None:
    act = taking("b", "c")
    act.refuse("b")
    await act.step()
    assert act.evictions() == ["b"]
    assert act.run.plan.status.evicted == ()


async def test_what_is_put_off_is_tried_again_later_and_later() -> None:
    act = taking("b")
    act.refuse("b")
    moments = []
    for _ in range(40):
        before = len(act.evictions())
        await act.step(after=0.5)
        moments += [act.now] * (len(act.evictions()) - before)
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert gaps == list(DELAYS[: len(gaps)])


async def test_whom_a_server_asks_to_wait_longer_waits_longer() -> None:
    act = taking("b")
    act.refuse("b", error(429, "TooManyRequests", "wait", retry_after=7))
    await act.step()
    await act.step(after=6.9)
    assert act.evictions() == ["b"]
    await act.step(after=0.1)
    assert act.evictions() == ["b", "b"]


async def test_a_plan_that_is_held_up_for_long_keeps_only_what_the_evicted_need() -> None:
    act = moving()
    act.run.plan = plan(victim("b"), victim("c"), places=act.run.plan.spec.promises)
    act.pods["ns/c"] = pod("c", "n1")
    act.refuse("c")
    await act.step()
    await act.step(after=PATIENCE)
    await act.step()
    assert act.run.why_not == "ns/c cannot be evicted: a disruption budget holds"
    assert act.open() == ["ns/b"]
    assert act.run.plan.runs


async def test_who_had_left_before_counts_as_told() -> None:
    act = taking("b")
    act.refuse("b", NOT_FOUND)
    await act.step()
    assert act.run.plan.status.evicted == ("uid-b",)
    assert act.ear.heard == []


async def test_a_spec_that_cannot_be_kept_keeps_its_pod_from_going() -> None:
    act = moving()
    act.api.errors["create", f"{KEPT}/gpuyard-move-b"] = FORBIDDEN
    await act.step()
    assert act.evictions() == []
    assert act.run.held_since == 0


async def test_nothing_is_kept_of_who_does_not_have_to_go_yet() -> None:
    act = moving()
    act.refuse("b")
    await act.step()
    assert not [path for path in act.api.objects if path.startswith(KEPT)]


async def test_who_was_moved_is_back_once() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    for _ in range(3):
        await act.step(after=1)
    assert act.ear.heard == ["ns/b evicted", "ns/b moved to n2"]


async def test_a_pod_that_cannot_be_made_anew_is_left_to_people() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    act.api.errors["create", f"{PODS}/b"] = FORBIDDEN
    await act.step()
    assert act.run.plan.runs
    await act.step(after=PATIENCE)
    assert "ns/b could not be made anew: exceeded quota" in act.run.why_not
    assert "ControllerRevision gpuyard-move-b" in act.run.why_not
    assert f"{KEPT}/gpuyard-move-b" in act.api.objects
    await act.step()
    assert act.state.startswith("Impossible: ns/b could not be made anew")


async def test_who_left_although_the_server_failed_on_its_way_is_made_anew() -> None:
    act = moving()
    act.refuse("b", error(504, "Timeout"))
    await act.step()
    assert act.is_kept("b")
    act.leaves("b")
    await act.step(after=1)
    act.gone("b")
    await act.step(after=1)
    assert act.ear.heard == ["ns/b moved to n2"]


async def test_who_left_at_the_last_try_although_the_server_failed_is_made_anew() -> None:
    act = moving()
    act.refuse("b", error(504, "Timeout"))
    while act.now < PATIENCE:
        await act.step(after=1)
    act.leaves_unseen("b")
    for _ in range(10):
        await act.step(after=1)
    assert act.run.plan.runs
    act.gone("b")
    await act.step(after=1)
    assert "ns/b moved to n2" in act.ear.heard


async def test_who_takes_long_to_leave_is_tried_to_be_made_anew_for_as_long_as_anybody() -> None:
    act = moving()
    act.refuse("b", error(504, "Timeout"))
    await act.step()
    act.leaves("b")
    await act.step(after=1)
    act.gone("b")
    act.api.errors["create", f"{PODS}/b"] = error(500, "InternalError")
    await act.step(after=PATIENCE + 10)
    act.api.errors.clear()
    await act.step(after=1)
    assert "ns/b moved to n2" in act.ear.heard


async def test_who_comes_to_his_end_by_himself_holds_no_plan_up_and_is_not_made_anew() -> None:
    act = moving()
    act.refuse("b", error(500, "InternalError"))
    await act.step()
    act.pods["ns/b"] = replace(act.pods["ns/b"], state=State.SUCCEEDED)
    act.stands("a", "n1")
    await act.step(after=1)
    await act.step(after=TTL)
    assert not act.run.plan.runs
    assert (act.ear.heard[:1], act.is_kept("b")) == (["reclaim-1 withdrawn"], False)


async def test_of_who_stays_when_the_plan_ends_nothing_is_kept_though_nobody_knew_how_his_eviction_went() -> None:
    act = moving()
    act.refuse("b", error(504, "Timeout"))
    await act.step()
    act.gone("a")
    await act.step(after=1)
    assert act.state.startswith("Impossible")
    assert not act.is_kept("b")


async def test_who_was_told_before_a_call_failed_is_made_anew_though_nobody_waits_for_his_room_any_more() -> None:
    of = plan(victim("b"), victim("c"), places=[place("a"), place("b", "n2"), place("c", "n3")])
    act = Act(of, pod("a"), pod("b", "n1"), pod("c", "n1"))
    act.refuse("c", UnreachableError("cut off"))
    with pytest.raises(UnreachableError):
        await act.step()
    assert act.run.plan.status.evicted == ("uid-b",)
    act.gone("a")
    act.leaves("b")
    await act.step(after=1)
    act.gone("b")
    await act.step(after=1)
    assert "ns/b moved to n2" in act.ear.heard


async def test_who_was_told_by_an_extender_that_was_killed_at_once_is_made_anew_by_the_next_one() -> None:
    act = moving()
    await act.step()
    act.restarts(act.run.plan.with_status(evicted=()))
    act.gone("a")
    act.leaves("b")
    await act.step(after=1)
    assert act.run.plan.status.evicted == ("uid-b",)
    act.gone("b")
    await act.step(after=1)
    assert "ns/b moved to n2" in act.ear.heard


# --- what is kept cannot be forged ---


async def test_the_plan_says_what_is_kept_of_a_pod_before_the_pod_is_evicted() -> None:
    act = moving()
    act.refuse("b", UnreachableError("cut off"))
    with pytest.raises(UnreachableError):
        await act.step()
    (kept,) = act.api.objects[f"{PLANS}/reclaim-1"]["status"]["kept"]
    revision = act.api.objects[f"{KEPT}/gpuyard-move-b"]
    assert kept == {"uid": "uid-b", "revision": revision["metadata"]["uid"], "digest": digest(revision["data"])}


async def test_a_pod_is_not_evicted_where_the_plan_cannot_say_what_is_kept() -> None:
    act = moving()
    act.api.errors["patch", f"{PLANS}/reclaim-1/status"] = FORBIDDEN
    await act.step()
    assert act.evictions() == []
    assert not act.is_kept("b")


@pytest.mark.row("X-74")
@pytest.mark.parametrize("meta", [{"uid": "forged"}, {}])
async def test_nothing_is_created_from_a_replaced_revision(meta: dict[str, str]) -> None:
    act = moving()
    await act.step()
    act.gone("b")
    kept = act.api.objects[f"{KEPT}/gpuyard-move-b"]
    act.api.put(f"{KEPT}/gpuyard-move-b", {"metadata": kept["metadata"] | meta, "data": {"spec": "forged"}})
    await act.step(after=1)
    why = "ns/b is not created again: ControllerRevision gpuyard-move-b is not what the plan says was kept of it"
    assert act.ear.heard == ["ns/b evicted", f"ns/b refused: {why}", "reclaim-1 withdrawn"]
    assert f"{PODS}/b" not in act.api.objects
    assert act.is_kept("b"), "it is left for people to look at"
    assert act.state == f"Impossible: {why}"


async def test_a_deleted_revision_is_told_once_and_does_not_end_the_plan() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    act.api.objects.pop(f"{KEPT}/gpuyard-move-b")
    for _ in range(3):
        await act.step(after=1)
    lost = "somebody deleted ControllerRevision gpuyard-move-b, in which its spec was kept"
    assert act.ear.heard == ["ns/b evicted", f"ns/b refused: ns/b is not created again: {lost}"]
    assert act.run.plan.runs


async def earlier(*more: Place) -> Act:
    """A move halfway, with the plan as an earlier version wrote it: it does not say what was kept."""
    act = moving(*more)
    await act.step()
    act.gone("b")
    act.restarts(act.run.plan.with_status(kept=()))
    act.ear.heard.clear()
    return act


async def test_a_pod_that_was_on_the_move_in_an_upgrade_is_refused_with_the_remedy() -> None:
    act = await earlier()
    await act.step(after=1)
    why = (
        "ns/b is not created again: the plan, perhaps of an earlier version, does not say what was kept of it; "
        "look at ControllerRevision gpuyard-move-b, then create the pod from it, or delete it"
    )
    assert act.ear.heard == [f"ns/b refused: {why}", "reclaim-1 withdrawn"]
    assert (f"{PODS}/b" in act.api.objects, act.is_kept("b")) == (False, True)
    assert act.state == f"Impossible: {why}"


async def test_of_a_pod_that_is_back_after_an_upgrade_nothing_is_refused() -> None:
    act = await earlier()
    act.stands("b", "n2", uid="new")
    await act.step(after=1)
    assert act.ear.heard == []


async def test_a_pod_whose_owner_creates_it_again_is_not_looked_for() -> None:
    of = plan(victim("b"), places=[place("a"), place("b", "n2", owner="job")], evicted=["b"])
    act = Act(of, pod("a"))
    act.api.put(f"{KEPT}/gpuyard-move-b", {"metadata": {"uid": "other"}})
    await act.step()
    assert act.ear.heard == []


async def test_a_pod_that_loses_its_owner_before_its_eviction_is_accepted_is_kept_and_created_again() -> None:
    act = moving()
    meta = act.api.objects[f"{PODS}/b"]["metadata"]
    meta["ownerReferences"] = [{"uid": "job"}]
    act.refuse("b")
    await act.step()
    del meta["ownerReferences"], act.api.errors["create", f"{PODS}/b/eviction"]
    await act.step(after=DELAYS[0])
    act.gone("b")
    await act.step(after=1)
    assert act.ear.heard == ["ns/b evicted", "ns/b moved to n2"]


async def test_where_revisions_may_not_be_read_people_are_told_when_the_pod_stays_away() -> None:
    act = await earlier()
    act.api.errors["get", f"{KEPT}/gpuyard-move-b"] = FORBIDDEN
    await act.step()
    await act.step(after=PATIENCE - 1)
    assert act.ear.heard == [], "a StatefulSet may create it again"
    for _ in range(2):
        await act.step(after=1)
    why = "the extender may not read ControllerRevisions; if there is ControllerRevision gpuyard-move-b, create the pod"
    (heard,) = act.ear.heard
    assert why in heard
    assert act.run.plan.runs


async def test_after_a_restart_nothing_is_missed_of_a_pod_that_is_back() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    await act.step()
    act.stands("b", "n2", uid="new")
    act.restarts(act.run.plan)
    await act.step()
    assert act.ear.heard == ["ns/b evicted", "ns/b moved to n2"]


# --- moveBarePods ---


@pytest.mark.row("X-78")
async def test_with_moves_switched_off_under_way_a_bare_pod_stays_where_it_is() -> None:
    act = moving()
    act.move_bare_pods = False
    for _ in range(2):
        await act.step(after=1)
    assert act.evictions() == []
    why = "it has no owner that would create it again, and moveBarePods is off"
    assert act.state == f"Impossible: ns/b cannot be evicted: {why}"
    assert not [path for _, path in act.api.calls if path.startswith(KEPT)]


async def test_a_bare_pod_on_its_way_when_moves_are_switched_off_is_created_again() -> None:
    act = moving()
    await act.step()
    act.move_bare_pods = False
    act.gone("b")
    await act.step(after=1)
    assert act.ear.heard == ["ns/b evicted", "ns/b moved to n2"]


async def test_a_pod_with_an_owner_is_moved_without_the_right_to_revisions() -> None:
    act = moving()
    act.move_bare_pods = False
    act.api.objects[f"{PODS}/b"]["metadata"]["ownerReferences"] = [{"uid": "job"}]
    await act.step()
    act.gone("b")
    await act.step(after=1)
    assert act.evictions() == ["b"]
    assert not [path for _, path in act.api.calls if path.startswith(KEPT)]


# --- the end of a plan ---


async def test_a_plan_is_kept_when_all_stand_where_they_should() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    await act.step()
    act.stands("a", "n1")
    act.stands("b", "n2", uid="new")
    await act.step()
    assert act.state == "Kept: everybody has left, and every place is taken"


async def test_a_place_that_was_taken_and_left_again_is_kept_no_longer_after_a_restart_either() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    act.stands("b", "n2", uid="new")
    await act.step()
    assert not act.run.plan.status.deserted
    act.gone("b")
    await act.step()
    act.restarts(act.run.plan)
    await act.step()
    assert (act.open(), act.run.plan.status.deserted) == (["ns/a"], ("ns/b",))


async def test_room_that_is_free_for_too_long_expires() -> None:
    act = moving()
    await act.step()
    act.gone("b")
    act.stands("a", "n1")
    await act.step()
    await act.step(after=TTL - 1)
    assert act.run.plan.runs
    await act.step(after=1)
    assert act.state == "Expired: nobody took the place on n2 in time"
    assert act.ear.heard[-1] == "reclaim-1 withdrawn"


async def test_without_a_claimant_nobody_else_has_to_go() -> None:
    act = taking("b", "c")
    act.refuse("c")
    await act.step()
    act.gone("a")
    await act.step(after=1)
    assert act.evictions() == ["b", "c"]
    assert act.run.plan.runs  # somebody is on his way out
    act.gone("b")
    await act.step(after=1)
    assert act.state == "Impossible: nobody waits for the room any more"
    assert "reclaim-1 withdrawn" not in act.ear.heard, "there is nobody to tell"


async def test_whoever_does_not_end_ends_the_plan() -> None:
    act = taking("b")
    await act.step()
    act.pods["ns/b"] = Pod(
        key="ns/b", uid="uid-b", shape=Shape(gpus=1), state=State.TERMINATING, node="n1", deleted_at=1_799_999_000
    )
    await act.step(after=1)
    assert act.state == "Impossible: ns/b does not end"


async def test_who_goes_for_nobody_is_all_there_is_to_do() -> None:
    act = Act(plan(victim("b")), pod("b", "n1"))
    await act.step()
    act.gone("b")
    await act.step()
    assert act.state.startswith("Kept")
