"""Planning ends when its time is over, and says so."""

import json
from pathlib import Path

import pytest
from gpuyard.cli import deadline, planning
from gpuyard.cli.deadline import Deadline, TooLong
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.settle import settle

from tests.cli.shell import plan, run
from tests.engine.builders import Yard, yard
from tests.engine.kube.written import node, pod, queue


class Clock:
    """A clock that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def too_large() -> Yard:
    some = yard().nodes(1).queue("a", quota=8)
    for gpus in range(16, 8, -1):  # each asks for less than the one before, so that it is looked at
        some.pending("a", gpus=gpus)
    return some


def many_steps() -> Yard:
    """All who could lose are protected: nobody is tried, but the engine looks at each of them."""
    some = yard().nodes(50).queue("a", quota=8).queue("b", reclaim_min_runtime=10**6)
    return some.running("b", 400).pending("a", gpus=8)


def starts(count: int) -> Yard:
    return yard().nodes(1).queue("a", quota=8).pending("a", count)


@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(starts(8), id="places"),
        pytest.param(starts(0).pending("gone", 8), id="refusals"),
        pytest.param(too_large(), id="no room"),
        pytest.param(many_steps(), id="steps"),
        pytest.param(yard().nodes(1).queue("a", quota=4).queue("b").running("b", 8).pending("a", 4), id="trials"),
    ],
)
def test_whatever_the_engine_does_it_is_ended_in_time(busy: Yard) -> None:
    with pytest.raises(TooLong, match="not planned within 2 s"):
        settle(busy.snapshot(), Settings(), Deadline(2, Clock()))


def test_a_plan_made_in_time_is_the_same_as_without_a_limit() -> None:
    snapshot = starts(8).snapshot()
    assert settle(snapshot, Settings(), Deadline(600)) == settle(snapshot, Settings())


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose clock is a `Clock`."""
    clock = Clock()
    monkeypatch.setattr(planning, "Deadline", lambda seconds: deadline.Deadline(seconds, clock))


@pytest.mark.usefixtures("hurried")
def test_the_command_prints_no_plan_and_says_what_to_do(tmp_path: Path) -> None:
    result = plan(tmp_path, node(), queue("team-a", 8), *(pod(f"p{n}") for n in range(8)), args=("--timeout", "3"))
    assert (result.code, result.out) == (2, "")
    assert "not planned within 3 s; give it more by --timeout, or ask for fewer --cycles" in result.err


@pytest.mark.usefixtures("hurried")
def test_an_explanation_has_to_be_ready_in_time_as_well(tmp_path: Path) -> None:
    given = (node(), queue("team-a", 8), pod("a", 9))
    assert plan(tmp_path, *given, args=("--timeout", "10", "-o", "json")).code == 0
    result = plan(tmp_path, *given, args=("--timeout", "10", "--explain", "default/a"))
    assert (result.code, result.out) == (2, "")
    assert "not planned within 10 s" in result.err


@pytest.mark.usefixtures("hurried")
def test_a_table_is_printed_in_time_without_the_advice_that_is_not_ready(tmp_path: Path) -> None:
    result = plan(tmp_path, node(), queue("team-a", 8), pod("a", 9), args=("--timeout", "10"))
    assert result.code == 0
    assert "default/a  9     team-a" in result.out
    assert "WHAT WOULD HELP\n  not found in time; ask by gpuyard plan --explain default/a" in result.out


@pytest.mark.usefixtures("hurried")
def test_of_many_snapshots_only_the_slow_one_has_no_answer(tmp_path: Path) -> None:
    for name, count in (("1.json", 8), ("2.json", 1)):
        items = [node(), queue("team-a", 8), *(pod(f"p{n}") for n in range(count))]
        (tmp_path / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    result = run("plan", "--each", tmp_path, "-o", "jsonl", "--timeout", "3")
    slow, quick = map(json.loads, result.out.splitlines())
    assert result.code == 2
    assert slow["file"] == "1.json"
    assert "not planned within 3 s" in slow["error"][0]
    assert quick["settled"]
