"""Long looks at all nodes pause."""

from gpuyard.engine.model import Pod, PodTerm, Requirement, Shape
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import Teller

from tests.engine.builders import Yard, yard
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


def pauses(some: Yard) -> int:
    """How often finding the reason of the one pod that waits pauses."""
    cycle = Cycle(some.snapshot(), Settings())
    cycle.run()
    [pod] = [pod for pod in cycle.snapshot.pods.values() if pod.waits]
    return len(list(Teller(cycle).steps(pod)))


def test_whether_any_of_many_nodes_could_ever_hold_a_pod_is_found_with_pauses() -> None:
    assert pauses(yard().nodes(100).queue("a", quota=1000).pending("a", gpus=9)) > 20


def test_whether_a_pod_without_a_queue_fits_beside_the_pods_of_many_nodes_is_found_with_pauses() -> None:
    some = yard().queue("a", quota=1000)
    for n in range(100):
        some.node(f"node-{n}", labels={"host": f"node-{n}"})
        some.running("a", on=f"node-{n}", pod={"labels": {"app": "x"}})
    avoided = PodTerm("host", (Requirement("app", "In", ("x",)),))
    assert pauses(some.pending(None, shape=Shape(gpus=1, pod_anti_affinity=(avoided,)))) > 20
