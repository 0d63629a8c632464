"""The table can be read: few rows, at any width, with colour only where it is wanted."""

from pathlib import Path

import click
import pytest
from gpuyard.cli.drawing import MOST_ROWS, Page, Section, drawn, listed
from gpuyard.cli.output import page

from tests.cli.demo import MOVES, demo
from tests.cli.shell import plan
from tests.engine.kube.written import container, node, pod, pod_group, queue, with_meta

NO_TERMINAL = Page(None, lambda text, _: text)


def terminal(width: int) -> Page:
    return Page(width, lambda text, _: text)


def test_it_says_what_starts_what_moves_and_why(tmp_path: Path) -> None:
    out = plan(tmp_path, *demo(cordoned="node-4"), args=MOVES).out
    assert out.splitlines()[0] == ("6 pods on 4 nodes: 1 start, 1 moved, 1 promised a place; settled after 2 cycles")
    assert "  project-a/training-job-b  3     node-3  project-a\n" in out
    assert "  project-c/training-job-2  2     node-1  node-2  consolidate for project-c/training-job-a\n" in out
    assert "  project-c/training-job-a  4     node-1  project-c/training-job-2 has left\n" in out


def test_a_cluster_at_rest_says_so(tmp_path: Path) -> None:
    out = plan(tmp_path, node(), pod("a", on="node-1")).out
    assert out == "1 pod on 1 node: nothing to do; settled after 1 cycle\n"


def test_queues_stand_below_their_parents(tmp_path: Path) -> None:
    out = plan(tmp_path, *demo()).out
    assert "  department-1  13          16     unlimited  10      13\n    project-a   7           8 " in out


def test_who_waits_stands_with_the_reason_and_what_would_help(tmp_path: Path) -> None:
    out = plan(tmp_path, node(), queue(limit=None), pod("a")).out
    assert "OverLimit: queue team-a: its gpu limit is not set, which counts as 0" in out
    assert "WHAT WOULD HELP\n  default/a: raise the limit of queue team-a from 0 GPUs to 1 GPU" in out


def test_pods_that_fare_alike_share_a_row(tmp_path: Path) -> None:
    group = pod_group(minimum=2, queue="team-a")
    gang = [pod(f"g{n}", 2, notes={"pod-group-name": "gang"}) for n in range(3)]
    waiting = [pod(f"w{n}", 16) for n in range(3)]
    out = plan(tmp_path, node(), queue(), group, *gang, *waiting).out
    assert "  default/gang (3 pods)  6     node-1  team-a\n" in out
    assert "  default/w0 and 2 more  48    team-a" in out


def test_pods_of_one_owner_that_start_on_one_node_share_a_row(tmp_path: Path) -> None:
    owned = [with_meta(pod(f"p{n}"), ownerReferences=[{"kind": "Job", "name": "j"}]) for n in range(3)]
    out = plan(tmp_path, node(), queue(), pod("alone"), *owned).out
    assert "  default/p0 and 2 more  3     node-1  team-a\n" in out
    assert "  default/alone          1     node-1  team-a\n" in out


def test_a_pod_that_is_evicted_is_advised_as_well(tmp_path: Path) -> None:
    given = (node(), queue(quota=4), queue("team-b", 4), pod("b", 8, "team-b", on="node-1"), pod("a"))
    out = plan(tmp_path, *given).out
    assert "  default/b  8     node-1  its queue  reclaim for default/a\n" in out
    assert "WHAT WOULD HELP\n  default/b: " in out


def test_a_big_cluster_gets_a_short_table(tmp_path: Path) -> None:
    many = [pod(f"p{n:04}", queue=f"q{n % 100:02}") for n in range(2500)]
    out = plan(tmp_path, node(), *many).out
    assert len(out.splitlines()) < 60
    assert "… and 60 rows more; -o json has all of them" in out
    assert "more by gpuyard plan --explain POD, as default/p0000" in out


def test_the_last_column_wraps_on_a_terminal_and_nowhere_else() -> None:
    section = Section("WAITS", "red", ("POD", "WHY"), [("a", "word " * 20)])
    assert len(drawn(section, NO_TERMINAL).splitlines()) == 3
    lines = drawn(section, terminal(40)).splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[3].startswith("       word")


def test_a_very_narrow_terminal_gets_the_last_column_below() -> None:
    section = Section("WAITS", "red", ("POD", "WHY"), [("a-rather-long-name-of-a-pod", "word " * 10)])
    lines = drawn(section, terminal(36)).splitlines()
    assert lines[2] == "  a-rather-long-name-of-a-pod"
    assert lines[3].startswith("      word")
    assert max(map(len, lines)) <= 36


def test_sentences_wrap_as_well() -> None:
    assert max(map(len, listed("HELP", "red", ["word " * 20], terminal(30)).splitlines())) <= 30
    assert listed("HELP", "red", ["word"], NO_TERMINAL) == "HELP\n  word"


def test_what_is_left_out_is_counted() -> None:
    section = Section("STARTS", "red", ("POD",), [(str(n),) for n in range(MOST_ROWS + 7)])
    assert drawn(section, NO_TERMINAL).endswith("… and 7 rows more; -o json has all of them")


@pytest.mark.parametrize(
    ("terminal", "no_color", "painted"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colour_is_only_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str, painted: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    text = page().style("STARTS", "green")
    assert (text != click.unstyle(text)) is painted
    assert (page().width is not None) is terminal


def test_a_pod_of_several_containers_counts_once(tmp_path: Path) -> None:
    out = plan(tmp_path, node(), queue(), pod("a", containers=[container(1), container(2)])).out
    assert "  default/a  3     node-1  team-a" in out
