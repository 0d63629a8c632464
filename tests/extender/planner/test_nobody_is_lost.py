"""Bare pods that are moved for gangs come back: a consolidation evicts nobody whom it promises no new place.

Nodes with a few small bare pods each, of queues that have lent all of it, and gangs that come bit by bit and need whole
nodes. Where moving is not enough the queue of the gangs takes back what it is due, and who loses a place then is gone.
"""

import random
from collections.abc import Iterator

import pytest
from gpuyard.common.extender_config import Consolidation, ExtenderConfig
from gpuyard.engine.kube.times import written
from gpuyard.extender.planner import loop
from gpuyard.extender.planner.decide.recheck import moves_all
from msgspec.structs import replace

from tests.extender.builders import Json, group, node, pod, queue
from tests.extender.planner.builders import place, plan, victim
from tests.extender.planner.live_cluster import LiveCluster
from tests.extender.planner.random_clusters import LABEL, NOW, Cluster, placed
from tests.extender.planner.stage import Stage, running

SETTINGS = ExtenderConfig(move_bare_pods=True, consolidation=Consolidation(max_moved=-1))
TRAIN = {"priorityClassName": "train", "priority": 50}


class Gangs:
    """A live cluster of bare pods, and the pods of gangs that are still to come."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        names = [f"n{number}" for number in range(self.chance.randint(8, 24))]
        self.size = self.chance.randint(1, 5)
        self.gangs = [f"gang-{n}" for n in range(min(self.chance.randint(2, 5), (len(names) - 2) // self.size))]
        small = list(self._small(names))
        self.bare = {one["metadata"]["name"] for one in small}
        groups = [group(name, self.size, "many") for name in self.gangs]
        queues = [queue("many"), *(queue(f"lent-{n}", quota=0) for n in range(4))]
        things = (*map(node, names), *queues, *groups, *small)
        self.live = LiveCluster(Cluster(things, {}), SETTINGS, seed)

    def _small(self, names: list[str]) -> Iterator[Json]:
        places = [name for name in names for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3, 4, 5, 6)))]
        self.chance.shuffle(places)
        for number, at in enumerate(places):
            one = pod(f"small-{number}", f"lent-{number % 4}", 1, labels={LABEL: f"small-{number}"})
            yield placed(_trained(one, NOW - 20_000 + number), at, (), NOW - 6_000)

    def _members(self) -> Iterator[Json]:
        gpus = self.chance.choice((6, 8, 8))
        for name in self.gangs:
            for number in range(self.size):
                notes = {"pod-group-name": name}
                one = pod(f"{name}-{number}", "many", gpus, labels={LABEL: name}, annotations=notes)
                yield _trained(one, NOW)

    async def play(self) -> None:
        """Let the gangs come, in any order, and wait until nothing changes any more."""
        members, at_once = list(self._members()), self.chance.choice((2, 5, 100))
        self.chance.shuffle(members)
        for number, one in enumerate(members, 1):
            self.live.submit(one)
            await self.live.seconds(number % at_once == 0)
        await self.live.play()


def _trained(one: Json, since: int) -> Json:
    return one | {
        "metadata": one["metadata"] | {"creationTimestamp": written(since)},
        "spec": one["spec"] | TRAIN,
    }


def without_a_place(plan: Json) -> set[str]:
    """The victims of a Plan that it does not move."""
    names = [{one["pod"] for one in plan["spec"].get(field, ())} for field in ("evictions", "promises")]
    return {name.removeprefix("ns/") for name in names[0] - names[1]}


@pytest.mark.row("B-53", case="live")
@pytest.mark.parametrize("seed", range(40))
async def test_each_bare_pod_still_exists_unless_its_queue_had_to_give_its_place_back(seed: int) -> None:
    gangs = Gangs(seed)
    await gangs.play()
    plans = gangs.live.plans()
    assert not [one for one in plans if one["spec"]["phase"] == "consolidate" and without_a_place(one)]
    assert gangs.bare - gangs.live.pods.keys() == {name for one in plans for name in without_a_place(one)}


ONE_GOES = plan(victim("small"))
INCOMPLETE = replace(ONE_GOES, spec=replace(ONE_GOES.spec, phase="consolidate"))


@pytest.mark.row("B-53", case="refused")
def test_only_a_consolidation_needs_a_place_for_each_victim() -> None:
    moved = replace(INCOMPLETE, spec=replace(INCOMPLETE.spec, promises=(place("small", "n2"),)))
    reclaimed = replace(INCOMPLETE, spec=replace(INCOMPLETE.spec, phase="reclaim"))
    assert [moves_all(one) for one in (INCOMPLETE, moved, reclaimed)] == [False, True, True]


@pytest.mark.row("B-53", case="refused")
async def test_a_consolidation_that_would_lose_a_pod_is_not_begun_and_the_next_look_decides_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(node("n1"), queue("team"), running("small", "team", 1, "n1", age=1), pod("large", "team", 8))
    found = [[INCOMPLETE], []]
    monkeypatch.setattr(loop, "decided", lambda _: found.pop(0))
    await stage.look()
    assert (stage.plans(), stage.evicted()) == ([], [])
    await stage.look()
    assert not found
