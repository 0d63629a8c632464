"""A chunk gets a place for each of its pods, or none."""

import msgspec
from gpuyard.engine.model import NO_BOUND, Shape, State
from gpuyard.engine.model.results import Nominate, Reason

from tests.engine.builders import NOW, yard


def test_a_gang_of_which_one_has_to_wait_for_its_place_starts_together_later() -> None:
    some = yard().nodes(1, gpus=3).queue("a", quota=3).running("a", pod={"deleted_at": NOW}, state=State.TERMINATING)
    [cycle] = some.gang("a", 3, name="job").plan(cycles=1).outcome.cycles
    assert [type(action) for action in cycle.actions] == [Nominate] * 3


def test_pods_of_an_elastic_gang_above_its_minimum_start_one_by_one() -> None:
    told = yard().nodes(1, gpus=3).queue("a", quota=3).gang("a", 4, minimum=2, name="job").plan()
    assert sorted(told.started) == ["job-0", "job-1", "job-2"]


def test_gpu_memory_counts_against_a_limit_by_the_node_where_it_is_placed() -> None:
    """Half of a large GPU passes the limit's first look, but only the small GPU is free, and there it is all of it."""
    some = yard().node("large", gpus=1, gpu_memory=80_000).node("small", gpus=1, gpu_memory=40_000)
    some.queue("a", limit="0.5").queue("b", quota=1).running("b", on="large", preemptible=False)
    told = some.pending("a", shape=Shape(gpu_memory=40_000), name="p").plan()
    assert told.waits() == ["p"]


def test_gpu_memory_fits_a_limit_on_a_gpu_that_is_large_enough() -> None:
    some = yard().node("large", gpus=1, gpu_memory=80_000).queue("a", limit="0.5")
    assert some.pending("a", shape=Shape(gpu_memory=40_000), name="p").plan().node("p") == "large"


def test_a_limit_on_millicores_holds_as_one_on_gpus_does() -> None:
    some = yard().nodes(1).queue("a")
    some._queues["a"] = msgspec.structs.replace(some._queues["a"], limit=NO_BOUND._replace(cpu=500))
    told = some.pending("a", shape=Shape(gpus=1, cpu=400)).pending("a", shape=Shape(gpus=1, cpu=200)).plan()
    assert told.placed() == ["a-1"]
    assert told.reason("a-2") is Reason.OVER_LIMIT
