"""What has failed is not tried again in another dress, and what is easier is."""

from gpuyard.engine.model import Offer, PodTerm, Shape
from gpuyard.engine.model.reporter import Recorder, Step
from gpuyard.engine.model.results import Evict, Reason
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.failures import Equals, Harder, chunk_key

from tests.engine.builders import Yard, with_offer, yard


def lined_up(**sizes: int) -> Yard:
    """Gangs of queue `a` by name, each of so many pods of one GPU."""
    some = yard().queue("a")
    for name, size in sizes.items():
        some.gang("a", size, name=name)
    return some


class Case:
    """What failed in one phase, asked by workloads' names."""

    def __init__(self, some: Yard) -> None:
        cycle = some.cycle(phases=())
        self._scratch = cycle.scratch
        self._harder = Harder(self._scratch, cycle.standing)

    def fails(self, name: str, scope: str = "") -> None:
        self._harder.remember(self._scratch.team(f"ns/{name}"), scope)

    def hopeless(self, name: str, scope: str = "") -> bool:
        return self._harder.failed_before(self._scratch.team(f"ns/{name}"), scope) is not None


def test_a_pod_that_asks_for_no_less_of_anything_than_one_that_found_no_room_finds_none_either() -> None:
    equals = Equals()
    equals.remember((Shape(gpus=2, cpu=10),), 0)
    equals.remember((Shape(gpus=3, cpu=10),), 0)
    assert equals.reached((Shape(gpus=2, cpu=11),)) == 0
    assert equals.reached((Shape(gpus=3, cpu=10),)) == 0
    for other in (Shape(gpus=1, cpu=11), Shape(gpus=2, cpu=9), Shape(gpus=2, cpu=10, selector=(("zone", "a"),))):
        assert equals.reached((other,)) is None
    assert equals.reached((Shape(fraction=500, cpu=10),)) is None
    assert equals.reached((Shape(gpus=2, cpu=11), Shape(gpus=2, cpu=11))) is None


def test_a_pod_that_asks_for_gpu_memory_fails_by_the_bounds_of_its_own_queue_alone() -> None:
    """How much it counts is known on the node only, so that its queue's bound looks like a want of room."""
    some = yard().node("node-1", gpu_memory=1000).node("node-2", gpu_memory=2000).queue("a", limit="0.5").queue("b")
    some.running("b", on="node-2", gpus=8)
    shape = Shape(gpu_memory=900)
    told = some.pending("a", name="bound", shape=shape).pending("b", name="free", shape=shape).plan()
    assert told.waits() == ["bound"]
    assert told.node("free") == "node-1"


def test_the_like_of_one_that_failed_is_hopeless() -> None:
    case = Case(lined_up(one=2, other=2))
    assert not case.hopeless("other")
    case.fails("one")
    assert case.hopeless("other")


def test_a_larger_gang_than_one_that_failed_is_hopeless_and_a_smaller_one_is_not() -> None:
    case = Case(lined_up(larger=3, failed=2, smaller=1))
    case.fails("failed")
    assert case.hopeless("larger")
    assert not case.hopeless("smaller")


def test_smaller_pods_than_those_that_failed_are_not_hopeless() -> None:
    case = Case(yard().queue("a").pending("a", name="large", gpus=4).pending("a", name="small", gpus=2))
    case.fails("large")
    assert not case.hopeless("small")


def test_the_easiest_failure_is_the_one_that_is_remembered() -> None:
    case = Case(lined_up(small=1, large=3, middle=2))
    case.fails("small")
    case.fails("large")
    assert case.hopeless("middle")


def test_what_failed_in_one_queue_says_nothing_of_another() -> None:
    case = Case(lined_up(one=1, other=1))
    case.fails("one", "a")
    assert not case.hopeless("other", "b")


def test_who_may_stand_elsewhere_is_not_hopeless() -> None:
    some = yard().queue("a").pending("a", name="bound", shape=Shape(gpus=1, selector=(("zone", "east"),)))
    case = Case(some.pending("a", name="free"))
    case.fails("bound")
    assert not case.hopeless("free")


def test_who_cannot_be_preempted_does_not_stop_who_can() -> None:
    case = Case(yard().queue("a").pending("a", name="hard", preemptible=False).pending("a", name="soft"))
    case.fails("hard")
    assert not case.hopeless("soft")


def test_a_promise_to_one_says_nothing_of_its_like() -> None:
    case = Case(lined_up(promised=1, other=1).promise("node-1", to="promised", queue="a"))
    case.fails("promised")
    assert not case.hopeless("other")


def test_a_pod_over_its_quota_does_not_keep_its_queue_from_preempting() -> None:
    some = yard().nodes(1, gpus=4).queue("a", quota=2).running("a", 2, preemptible=False, priority=100).running("a", 2)
    some.pending("a", name="hard", preemptible=False, priority=100).pending("a", name="soft", priority=75)
    told = some.plan()
    assert told.evicted == ["a-4"]
    assert told.reason("hard") is Reason.NON_PREEMPTIBLE_OVER_QUOTA
    assert told.placed("soft") == ["soft"]


def test_a_pod_that_kube_scheduler_offers_no_node_does_not_stop_its_like() -> None:
    some = yard().nodes(1, gpus=4).queue("a", quota=4).running("a", 4)
    snapshot = some.pending("a", name="first", priority=75).pending("a", name="second", priority=75).snapshot()
    cycle = Cycle(with_offer(snapshot, "ns/first", Offer(nodes=frozenset())), Settings())
    assert [action.pod for action in cycle.run().actions if isinstance(action, Evict)] == ["ns/a-4"]


def test_who_is_passed_over_is_reported_with_whose_failure_stopped_it() -> None:
    some = yard().nodes(1).queue("a").running("a", gpus=8).pending("a", 2, gpus=9, priority=75)
    recorder = Recorder()
    Cycle(some.snapshot(), Settings(), recorder).run()
    assert [step for step in recorder.steps if step.what == "skipped"] == [
        Step("skipped", "ns/a-3", ("preempt", "ns/a-2"))
    ]


def test_a_chunk_of_the_same_shapes_fails_as_the_first_did() -> None:
    scratch = lined_up(one=2, other=2, third=1).cycle(phases=()).scratch
    one, other, third = (scratch.team(f"ns/{name}") for name in ("one", "other", "third"))
    equals = Equals()
    equals.remember(chunk_key(one, one.pods), 1)
    assert equals.reached(chunk_key(other, other.pods)) == 1
    assert equals.reached(chunk_key(third, third.pods)) is None


def test_a_chunk_that_looks_at_its_company_is_like_no_other() -> None:
    shape = Shape(gpus=1, pod_affinity=(PodTerm("zone"),))
    team = yard().queue("a").pending("a", shape=shape).cycle(phases=()).scratch.team("ns/a-1")
    assert chunk_key(team, team.pods) is None
    equals = Equals()
    equals.remember(None, 0)
    assert equals.reached(None) is None
