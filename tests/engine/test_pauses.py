"""Long looks at all nodes pause."""

from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import Teller

from tests.extender.builders import Bench
from tests.mixed_cluster import Size, cluster


def test_a_draft_says_how_many_pods_differ() -> None:
    assert Snapshot().draft().put_pods([Pod(key="ns/a", shape=Shape())]).pods_changed == 1


def test_counting_shared_gpus_and_finding_reasons_pauses() -> None:
    cycle = Cycle(Bench(*cluster(Size(40))).ledger.snapshot.at(1_800_000_000), Settings())
    assert len(list(cycle.scratch.rooms.count_shared())) == 5
    cycle.run()
    teller = Teller(cycle)
    steps = [len(list(teller.steps(pod))) for pod in cycle.snapshot.pods.values() if pod.waits]
    assert max(steps) >= 5
