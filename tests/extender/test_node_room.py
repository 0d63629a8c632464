"""The room for parts of GPUs, of which kube-scheduler knows nothing."""

import pytest
from gpuyard.common.extender_config import ExtenderConfig

from tests.extender.builders import Bench, Json, call, node, pod, queue


def sized(name: str, gpu_memory: int) -> Json:
    """A node with one GPU of so many MiB."""
    made = node(name, 1)
    return made | {"metadata": made["metadata"] | {"labels": {"nvidia.com/gpu.memory": str(gpu_memory)}}}


def part(name: str, memory: int, on: str = "", group: str = "g") -> Json:
    """A pod that asks for so many MiB of a GPU."""
    labels = {"runai-gpu-group": group} if on else {}
    return pod(name, "team", 0, on=on, annotations={"gpu-memory": str(memory)}, labels=labels)


@pytest.mark.row("B-20", case="live")
def test_filter_lets_sixteen_pods_of_1024_mib_through_to_a_gpu_of_16384_mib() -> None:
    bench = Bench(sized("n1", 16384), queue("team"))
    assert [bench.passes(part(f"p{n}", 1024)) for n in range(17)] == [True] * 16 + [False]


@pytest.mark.row("B-20", case="live")
def test_filter_counts_bound_parts_to_the_last_mib() -> None:
    bench = Bench(sized("n1", 11441), queue("team"), part("a", 3813, on="n1"), part("b", 3813, on="n1"))
    assert not bench.passes(part("wide", 3816))
    assert bench.passes(part("fits", 3815))


def test_pods_whose_parts_fill_a_gpu_do_not_outrank_the_last_of_them() -> None:
    running = [part(f"r{n}", 1024, on="n1") for n in range(14)]
    waiting = [part(f"p{n}", 1024) for n in range(2)]
    bench = Bench(sized("n1", 16384), queue("team"), *running, *waiting)
    assert [bench.passes(one) for one in waiting] == [True, True]


def test_a_part_gets_the_most_points_where_it_joins_a_gpu_and_then_where_the_fewest_are_free() -> None:
    shared = pod("s", "team", 0, on="n1", annotations={"gpu-fraction": "0.5"}, labels={"runai-gpu-group": "g"})
    bench = Bench(node("n1", 8), node("n2", 2), node("n3", 4), node("n4", 1), pod("x", on="n4"), queue("team"), shared)
    half = pod("half", "team", 0, annotations={"gpu-fraction": "0.5"})
    bench.put(half)
    found = bench.verbs.prioritize(call(half, "n1", "n2", "n3", "n4", "unknown"))
    assert [one.score for one in found] == [9, 8, 7, 0, 0]


def test_of_equally_full_nodes_a_part_gets_the_most_points_where_its_gpu_has_the_least_free_memory() -> None:
    nodes = [sized("n1", 16384), sized("n2", 16384)]
    bench = Bench(*nodes, queue("team"), part("a", 4096, on="n1", group="g"), part("b", 8192, on="n2", group="h"))
    asked = part("p", 4096)
    bench.put(asked)
    assert [one.score for one in bench.verbs.prioritize(call(asked, "n1", "n2"))] == [8, 9]


# --- spread

SPREAD = ExtenderConfig(placement="spread")


@pytest.mark.row("B-80", case="parts")
def test_to_spread_a_part_gets_the_most_points_where_the_most_gpus_are_free() -> None:
    shared = pod("s", "team", 0, on="n1", annotations={"gpu-fraction": "0.3"}, labels={"runai-gpu-group": "g"})
    half = pod("half", "team", 0, annotations={"gpu-fraction": "0.5"})
    bench = Bench(node("n1", 2), node("n2", 4), queue("team"), shared, half, config=SPREAD)
    assert [one.score for one in bench.verbs.prioritize(call(half, "n1", "n2"))] == [8, 9]


@pytest.mark.row("B-80", case="parts")
def test_to_spread_parts_a_gpu_with_more_free_memory_gets_more_points() -> None:
    nodes = [sized("n1", 16384), sized("n2", 16384)]
    things = (*nodes, queue("team"), part("a", 4096, on="n1", group="g"), part("b", 8192, on="n2", group="h"))
    bench, asked = Bench(*things, config=SPREAD), part("p", 4096)
    bench.put(asked)
    assert [one.score for one in bench.verbs.prioritize(call(asked, "n1", "n2"))] == [9, 8]
