"""Whatever is wrong with an input: no traceback, no hang, no plan; one line for each fault."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

import pytest

from tests.cli.mutations import cluster, mutated
from tests.cli.shell import plan, run

SECONDS = 10
MEGABYTES = 100
CONTRACT = {"settled", "cycles", "final", "pending", "queues"}
"""What every answer has at its top."""


@contextmanager
def in_time() -> Iterator[None]:
    """A snapshot that takes more than a few seconds of the processor hangs; how busy the machine is plays no part."""

    def too_late(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not planned within {SECONDS} s")

    before = signal.signal(signal.SIGPROF, too_late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def holds(folder: Path, seed: int) -> int:
    """Plan the mutation of this seed; its exit code."""
    suffix, text = mutated(Random(seed))
    path = folder / f"mutation{suffix}"
    path.write_bytes(text)
    with in_time():
        result = run("plan", "-f", path, "-o", "jsonl")
    assert result.code in {0, 2}, f"seed {seed}"
    if result.code == 2:
        assert result.out == "", f"seed {seed}"
        assert result.err.strip(), f"seed {seed}"
    else:
        assert result.answer.keys() >= CONTRACT, f"seed {seed}"
    return result.code


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_the_cluster_that_is_mutated_is_sound(tmp_path: Path) -> None:
    result = plan(tmp_path, *cluster(), args=("-o", "json"))
    assert (result.code, result.err) == (0, "")
    assert any(cycle["actions"] for cycle in result.answer["cycles"])


@pytest.mark.chance
@pytest.mark.parametrize("block", range(4))
def test_no_mutation_gets_through(tmp_path: Path, block: int) -> None:
    before = memory()
    codes = [holds(tmp_path, seed) for seed in range(block * 25, block * 25 + 25)]
    assert 2 in codes
    assert memory() - before < MEGABYTES


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_none_of_ten_thousand_mutations_gets_through(tmp_path: Path) -> None:
    before = memory()
    for seed in range(10_000):
        holds(tmp_path, seed)
    assert memory() - before < MEGABYTES
