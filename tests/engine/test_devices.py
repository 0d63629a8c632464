"""Which GPUs of its node a pod has."""

from gpuyard.engine.placing.devices import Devices

from tests.engine.builders import yard


def test_a_pod_has_the_gpus_that_the_input_names() -> None:
    snapshot = yard().nodes(1).queue("a").running("a", gpus=2, pod={"devices": (5, 2)}).snapshot()
    assert Devices(snapshot).of(snapshot.pods["ns/a-1"]) == (2, 5)


def test_a_pod_whose_gpus_are_not_known_has_the_lowest_that_the_named_ones_leave() -> None:
    some = yard().nodes(1).queue("a").running("a", gpus=2).running("a", pod={"devices": (0,)})
    snapshot = some.snapshot()
    assert Devices(snapshot).of(snapshot.pods["ns/a-1"]) == (1, 2)


def test_a_starting_pod_is_given_the_lowest_free_gpus() -> None:
    some = yard().nodes(1).queue("a").running("a", gpus=2, pod={"devices": (0, 2)})
    assert Devices(some.snapshot()).take("node-1", 3) == (1, 3, 4)


def test_what_has_been_taken_is_not_given_again() -> None:
    devices = Devices(yard().nodes(1).snapshot())
    assert devices.take("node-1", 1) == (0,)
    assert devices.take("node-1", 2) == (1, 2)


def test_a_gpu_that_is_shared_is_not_given_as_a_whole_one() -> None:
    some = yard().nodes(1).queue("a").running("a", 2, gpus="0.5", pod={"gpu_groups": ("gpu-0",)})
    assert Devices(some.snapshot()).take("node-1", 1) == (1,)


def test_a_pod_with_a_part_of_a_gpu_has_no_whole_one() -> None:
    snapshot = yard().nodes(1).queue("a").running("a", gpus="0.5", pod={"gpu_groups": ("gpu-0",)}).snapshot()
    assert Devices(snapshot).of(snapshot.pods["ns/a-1"]) == ()


def test_each_node_counts_its_own_gpus() -> None:
    snapshot = yard().nodes(2).queue("a").running("a", on="node-1").running("a", on="node-2").snapshot()
    devices = Devices(snapshot)
    assert [devices.of(pod) for pod in snapshot.pods.values()] == [(0,), (0,)]


def test_a_plan_tells_the_gpus_of_those_who_run_and_of_those_who_start() -> None:
    told = yard().nodes(1).queue("a", quota=8).running("a", pod={"devices": (1,)}).pending("a", gpus=2).plan()
    assert {name: told.outcome.final[f"ns/{name}"].gpus for name in ("a-1", "a-2")} == {"a-1": (1,), "a-2": (0, 2)}
