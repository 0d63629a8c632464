"""A recorder remembers what the engine did, step by step; listening changes nothing."""

from gpuyard.engine.model.reporter import Recorder, Silent, Step
from gpuyard.engine.model.results import Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle

from tests.engine.builders import Yard, yard


def heard(some: Yard) -> list[Step]:
    """What a recorder hears of one cycle."""
    recorder = Recorder()
    Cycle(some.snapshot(), Settings(), recorder).run()
    return recorder.steps


def contested() -> Yard:
    """A queue without a right to anything holds all, and of its two pods only the older one is in the way."""
    some = yard().nodes(1, gpus=5).queue("a", quota=4).queue("b", limit=0)
    return some.running("b", gpus=4).running("b", gpus=1).pending("a", gpus=4)


def test_a_place_that_is_found_is_told_with_its_node() -> None:
    assert heard(yard().nodes(1).queue("a").pending("a")) == [Step("placed", "ns/a-1", ("node-1", True))]


def test_a_pod_without_room_is_told() -> None:
    assert Step("no room", "ns/a-1") in heard(yard().nodes(1).queue("a").pending("a", gpus=9))


def test_a_workload_that_a_gate_refuses_is_told_with_the_reason() -> None:
    (step,) = heard(yard().nodes(1).queue("a").gang("a", 1, minimum=2))
    assert (step.what, step.about) == ("refused", "ns/a-1")
    (why,) = step.detail
    assert isinstance(why, Waiting)
    assert why.reason is Reason.GANG_INCOMPLETE


def test_every_set_of_victims_that_is_tried_is_told_with_its_outcome() -> None:
    tried = [step.detail for step in heard(contested()) if step.what == "tried"]
    assert tried[0] == ("reclaim", ("ns/b-2", "ns/b-1"), True)
    assert tried[-1] == ("reclaim", ("ns/b-1",), True)


def test_a_victim_that_is_left_out_again_is_told_with_the_one_it_was_to_go_for() -> None:
    assert Step("dropped", "ns/a-1", ("reclaim", "ns/b-2")) in heard(contested())


def test_a_cycle_that_nobody_listens_to_decides_the_same() -> None:
    snapshot = contested().snapshot()
    assert Cycle(snapshot, Settings()).run() == Cycle(snapshot, Settings(), Recorder()).run()


def test_who_watches_a_recorder_is_told_of_the_pauses_between_as_well() -> None:
    class Breaths(Silent):
        def __init__(self) -> None:
            self.count = 0

        def paused(self) -> None:
            self.count += 1

    breaths = Breaths()
    some = yard().nodes(1).queue("a").pending("a", 100)
    Cycle(some.snapshot(), Settings(), Recorder(breaths)).run()
    assert breaths.count > 1
