"""Random clusters, played live in memory, end where `gpuyard plan` says, and pods wait for the reasons that it gives.

    what                                       compared with
    the pods of each workload that run         plan of the cluster as it was at the start; equal workloads are counted
                                               together, and on which nodes they run makes no difference
    why each of the other pods waits           plan of the cluster as it is at the end, which changes nothing any more
    what each queue has                        its limit

Only in the first line may the two differ, and only for the causes in `Cause`.

Decided in docs/decisions.md: "Where the live path may end elsewhere than `gpuyard plan`".
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import pytest
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.engine.model import UNLIMITED
from gpuyard.engine.model.results import Evict, FinalState, Outcome
from msgspec.structs import replace

from tests.extender.planner.live_cluster import LiveCluster
from tests.extender.planner.random_clusters import LABEL, Cluster, Workload, planned, random_cluster

SETTINGS = ExtenderConfig(move_bare_pods=True)


class Cause(Enum):
    """Why other workloads may run live than plan says."""

    ORDER = "kube-scheduler takes pods by priority and age: it has taken a bound, or a node, that plan gives another"
    TAKEN_BACK = "plan takes back in the same cycle what it has just placed; live that has started already"
    BARE = "nobody creates a pod without an owner again once it was evicted"
    NEW_AGE = "a controller's new pod is younger than the evicted one, which keeps its age in plan"


FAILED_ONCE = (119, 175, 208, 241, 292, 512, 957, 1324, 1413, 1848, 2177, 3146)
"""Seeds that showed a fault, which has been mended."""

FIRST = 100

DIFFER: Mapping[int, Cause] = {92: Cause.TAKEN_BACK, 95: Cause.ORDER, 97: Cause.BARE, 99: Cause.ORDER}
"""The seeds among these that differ."""

NOT_MENDED = frozenset({6760})
"""Seeds left out: a queue below its quota takes room back that plan had given to another one in the same cycle. As
nobody is evicted, there is no Plan, and filter goes on to let neither of the two through."""

MOST = 0.1
"""Of very many clusters so many may differ for one of the causes."""


class Played(NamedTuple):
    """A cluster that was played live, with what plan says of its start and of its end."""

    cluster: Cluster
    live: LiveCluster
    foretold: Outcome
    afterwards: Outcome

    @property
    def runs_as_foretold(self) -> bool:
        """Whether so many pods of each kind of workload run as plan has said."""
        expected = Counter(_workload(self.cluster, key) for key, end in self.foretold.final.items() if _runs(end.state))
        return self._by_kind(expected) == self._by_kind(self.live.running())

    def _by_kind(self, running: Mapping[str, int]) -> Mapping[Workload, Counter[int]]:
        found: dict[Workload, Counter[int]] = {}
        for name, workload in self.cluster.workloads.items():
            found.setdefault(workload.kind, Counter())[running.get(name, 0)] += 1
        return found


async def played(seed: int, settings: ExtenderConfig = SETTINGS) -> Played:
    """Fails where the cluster does not come to rest, or not at what plan says of the end."""
    cluster = random_cluster(seed)
    live = LiveCluster(cluster, settings, seed)
    await live.play()
    afterwards = planned(live.objects(), settings.engine, int(live.bench.today))
    assert not [action for cycle in afterwards.cycles for action in cycle.actions], f"seed {seed}: plan goes on"
    assert live.reasons() == {key: why.reason.value for key, why in afterwards.pending.items()}, f"seed {seed}"
    assert not over_their_limits(afterwards), f"seed {seed}"
    return Played(cluster, live, planned(cluster.objects, settings.engine), afterwards)


def over_their_limits(outcome: Outcome) -> list[str]:
    shares = outcome.queues.items()
    return [name for name, one in shares if one.limit.gpu != UNLIMITED and one.allocated.gpu > one.limit.gpu]


def _runs(state: FinalState) -> bool:
    return state in (FinalState.RUNNING, FinalState.BOUND)


def _workload(cluster: Cluster, key: str) -> str:
    name = key.removeprefix("ns/")
    return next(str(one["metadata"]["labels"][LABEL]) for one in cluster.objects if one["metadata"]["name"] == name)


async def differing(seeds: Iterable[int]) -> list[int]:
    return [seed for seed in seeds if not (await played(seed)).runs_as_foretold]


@pytest.mark.row("B-51", case="mended")
@pytest.mark.parametrize("seed", FAILED_ONCE)
async def test_a_cluster_that_once_showed_a_fault_ends_as_plan_says(seed: int) -> None:
    assert (await played(seed)).runs_as_foretold


@pytest.mark.row("B-51", case="slice")
@pytest.mark.parametrize("seed", range(FIRST))
async def test_a_random_cluster_ends_as_plan_says(seed: int) -> None:
    assert (await played(seed)).runs_as_foretold == (seed not in DIFFER)


@pytest.mark.row("B-82", case="random")
@pytest.mark.parametrize("seed", range(60))
async def test_a_random_cluster_whose_pods_are_spread_ends_as_plan_says(seed: int) -> None:
    assert (await played(seed, replace(SETTINGS, placement="spread"))).runs_as_foretold


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(10))
async def test_many_random_clusters_end_as_plan_says(block: int) -> None:
    differ = await differing(seed for seed in range(block * 1000, (block + 1) * 1000) if seed not in NOT_MENDED)
    assert len(differ) <= 1000 * MOST, f"these seeds differ: {differ}"


@pytest.mark.row("B-51", case="strength")
def test_the_clusters_are_worth_playing() -> None:
    """Many of them have evictions, and pods that wait for each of the common reasons."""
    outcomes = [planned(random_cluster(seed).objects, SETTINGS.engine) for seed in range(FIRST)]
    evict = [one for one in outcomes if any(isinstance(do, Evict) for cycle in one.cycles for do in cycle.actions)]
    assert len(evict) >= FIRST // 6
    reasons = Counter(why.reason.value for one in outcomes for why in one.pending.values())
    wanted = ("OverLimit", "NonPreemptibleOverQuota", "GangDoesNotFit", "ReclaimNotAllowed", "PodSchedulingErrors")
    assert all(reasons[reason] >= FIRST // 5 for reason in wanted), reasons
