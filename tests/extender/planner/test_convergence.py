"""Whatever people do, the planner comes to rest: no plan is left, nobody was evicted twice, no limit was passed."""

import pytest

from tests.extender.planner.small_cluster import SmallCluster

SEEDS = range(6)


async def life(cluster: SmallCluster, seconds: int) -> None:
    """People submit, delete and edit for so long."""
    chance = cluster.chance
    for second in range(seconds):
        for number in range(chance.randint(0, 3)):
            name, team = f"p{second}-{number}", chance.choice("abc")
            more = {"priorityClassName": chance.choice(("train", "train", "build-preemptible"))}
            job = f"job-{name}" if chance.random() < 0.4 else ""
            cluster.submit(name, team, chance.choice((1, 2, 4, 8)), job=job, **more)
        if cluster.pods and chance.random() < 0.5:
            cluster.delete(chance.choice(sorted(cluster.pods)))
        if chance.random() < 0.1:
            cluster.queue(chance.choice("ab"), quota=chance.choice((0, 8, 16)))
        await cluster.second()
        for team, held in cluster.held().items():
            assert cluster.limits[team] < 0 or held <= cluster.limits[team]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("keep_nodes_empty", [False, True])
async def test_after_any_history_there_is_rest(seed: int, keep_nodes_empty: bool) -> None:
    cluster = SmallCluster(seed, keep_nodes_empty=keep_nodes_empty)
    for team, quota, limit in (("a", 8, -1), ("b", 16, -1), ("c", 0, 12)):
        cluster.queue(team, quota, limit)
    await life(cluster, 40)
    await cluster.until_it_rests(within=600)
    assert len(cluster.evicted) == len(set(cluster.evicted))
    assert cluster.bench.ledger.promises.all == ()
    assert not any("controllerrevisions" in path for path in cluster.api.objects)


async def test_for_one_that_never_runs_somebody_has_to_go_seldom_and_ever_more_seldom() -> None:
    cluster = SmallCluster(1, nodes=1)
    cluster.queue("lent", 0)
    cluster.queue("own", 8)
    for number in range(8):
        cluster.submit(f"old-{number}", "lent", 1, job=f"job-{number}")
    await cluster.until_it_rests(60)
    cluster.hopeless.add("claim")
    cluster.submit("claim", "own", 1)
    gone = []
    for _ in range(4):
        before = len(cluster.evicted)
        for _ in range(1000):
            await cluster.second()
        gone.append(len(cluster.evicted) - before)
    assert gone[0] <= 3
    assert sum(gone[1:]) <= 3
    assert cluster.held()["lent"] == 8, "what was freed for nothing is lent again"
