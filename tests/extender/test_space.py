"""The room for parts of GPUs, of which kube-scheduler knows nothing."""

import pytest

from tests.extender.builders import Bench, Json, node, pod, queue


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
