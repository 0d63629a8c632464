"""Shared GPUs of one node: which are joined, which are opened, and what is free now."""

import pytest
from gpuyard.engine.model import Node, Shape
from gpuyard.engine.model.counting import Occupancy
from gpuyard.engine.placing.node_room import Room, Rooms
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD

from tests.engine.builders import yard

HALF = Shape(fraction=500)
QUARTER = Shape(fraction=250)
HALF_OF_TWO = Shape(fraction=500, devices=2)


def room(idle: int, releasing: int = 0, **groups: tuple[int, int]) -> Room:
    """A node with so many whole GPUs free and being freed; `groups` are thousandths in use, and those being freed.

    The memory of its GPUs is not known: the thousandths of a MiB that each counts as are milli-GPUs.
    """
    return Room(Node(name="n", gpus=8), Occupancy(idle, releasing, pods=9, groups=groups))


def test_the_fullest_shared_gpu_with_room_is_joined() -> None:
    assert room(4, a=(200, 0), b=(500, 0), c=(700, 0)).choose_groups(HALF, (), PACK) == ("b",)


def test_to_spread_a_whole_free_gpu_comes_first() -> None:
    assert room(4, a=(200, 0)).choose_groups(HALF, (), SPREAD) == ("gpu-0",)


def test_a_gpu_that_a_whole_pod_still_has_is_opened_under_a_new_name_once_it_is_being_freed() -> None:
    full = room(0, 2)
    assert full.choose_groups(HALF_OF_TWO, (), PACK) == ("gpu-0", "gpu-1")
    assert not full.has_now(HALF_OF_TWO, ("gpu-0", "gpu-1"))


def test_free_gpus_are_opened_before_those_being_freed() -> None:
    assert room(1, 1, old=(0, 500)).choose_groups(HALF_OF_TWO, (), PACK) == ("gpu-0", "old")


def test_what_is_promised_on_a_gpu_being_freed_counts() -> None:
    full = room(0, 1)
    full.shift(QUARTER, ("gpu-0",), 0, -1)
    assert (full.now, full.later) == (0, 0)
    assert full.choose_groups(QUARTER, (), PACK) == ("gpu-0",)


def test_nobody_starts_on_a_gpu_that_is_only_promised_yet() -> None:
    full = room(0, 1)
    full.shift(QUARTER, ("gpu-0",), 0, -1)
    assert full.fits_later(HALF)
    assert not full.fits_now(HALF)
    assert not full.has_now(HALF, ("gpu-0",))


def test_who_starts_on_a_promised_gpu_takes_a_free_one_for_it() -> None:
    some = room(1, 0)
    some.shift(QUARTER, ("gpu-0",), 0, -1)
    assert some.fits_now(HALF)
    assert some.has_now(HALF, ("gpu-0",))
    some.shift(HALF, ("gpu-0",), -1, -1)
    assert (some.now, some.later) == (0, 0)


def test_gpu_memory_takes_its_mib_of_a_gpu() -> None:
    small = Room(Node(name="n", gpus=1, gpu_memory=3), Occupancy(0, 0, pods=9, groups={"a": (1500, 0)}))
    assert small.fits_now(Shape(gpu_memory=1))
    assert not small.fits_now(Shape(gpu_memory=2)), "one MiB and a half are free"
    assert not small.fits_now(Shape(gpu_memory=4)), "larger than a GPU"


@pytest.mark.row("B-23")
def test_a_gpu_whose_memory_is_not_known_takes_fractions_and_no_request_in_mib() -> None:
    assert room(1, a=(500, 0)).fits_now(HALF)
    assert not room(1, a=(501, 0)).could_join(HALF)
    assert not room(1, a=(500, 0)).fits_later(Shape(gpu_memory=1))


def test_a_place_on_given_gpus_is_there_as_long_as_they_have_room() -> None:
    some = room(0, 1, a=(600, 0), b=(0, 500))
    assert some.takes(QUARTER, ("a",))
    assert not some.takes(HALF, ("a",))
    assert some.takes(HALF, ("b",)), "its last pod leaves, and one whole GPU will be free"
    assert not some.takes(HALF_OF_TWO, ("b", "c")), "but not two"


def test_a_shared_gpu_is_free_again_when_its_last_pod_is_gone() -> None:
    some = room(1, 0, a=(500, 0))
    some.shift(HALF, ("a",), 1, 1)
    assert (some.now, some.later, some.groups) == (2, 2, {})


def test_free_room_in_sum_counts_the_rest_of_shared_gpus_on_open_nodes() -> None:
    some = yard().node("open", gpus=2).node("shut", gpus=2, cordoned=True).queue("a")
    for node in ("open", "shut"):
        some.running("a", gpus="0.3", on=node, pod={"gpu_groups": ("g",)})
    assert Rooms(some.snapshot()).free_milli() == 1700
