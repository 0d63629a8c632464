"""`make test` as a whole: its table, its last lines, its exit code, and how it takes an interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import run
from tests.house import tree
from tests.plugins.catalog import GROUNDS, Entry
from tests.stages import Stage

JUNIT = '<testsuites><testsuite><testcase classname="c" name="n" time="1">{}</testcase></testsuite></testsuites>'
GROUND = '<properties><property name="ground" value="processes" /></properties>'


def python(code: str) -> tuple[tuple[str, ...], ...]:
    return ((sys.executable, "-c", code),)


def junit(stage: str, inside: str = "") -> str:
    return f"import pathlib; pathlib.Path('build/junit-{stage}.xml').write_text({JUNIT.format(inside)!r})"


@pytest.fixture
def small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs stages of a test's own in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    monkeypatch.setattr(run, "sweep", list)
    # A stage that takes long is told with its last line; on a machine that stood still, any stage takes long.
    monkeypatch.setattr("tests.stages.HEARTBEAT", 3600)
    return lambda *stages: run.together(stages)


def test_a_run_in_which_all_passes_ends_with_0_and_a_plain_line(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert small_run(Stage("lint", python("")), Stage("unit", python(junit("unit")), ground="none")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 0 failed"
    assert "rows shown: 0 of 238" in lines
    assert "grounds     none" in lines


def test_the_output_of_a_failed_stage_is_shown_and_of_a_passed_one_is_not(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stage("lint", python("print('all ' + 'fine')")), Stage("types", python("exit('no ' + 'types')"))
    assert small_run(*stages) == 1
    out = capsys.readouterr().out
    assert "no types" in out, out
    assert "all fine" not in out, out
    assert out.splitlines()[-1] == "0 passed, 1 failed", out


@pytest.mark.parametrize(
    ("minutes", "ending", "why"),
    [(5, "os.kill(os.getpid(), 9)", "ended with -9"), (0.05, "time.sleep(600)", "did not end within 0.05 minutes")],
)
def test_the_output_of_a_stage_that_dies_or_hangs_is_shown(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str], minutes: float, ending: str, why: str
) -> None:
    code = f"import os, time; print('how far ' + 'it came', flush=True); {ending}"
    assert small_run(Stage("kind", python(code), ground="kind", minutes=minutes, again=python("")[0])) == 1
    out = capsys.readouterr().out
    assert "how far it came" in out, out
    assert why in out, out
    assert out.splitlines()[-1] == "0 passed, 1 failed", out


def test_a_skip_on_a_real_cluster_fails_the_run(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    skipped = junit("processes", GROUND + '<skipped message="no docker" />')
    assert small_run(Stage("processes", python(skipped), ground="processes")) == 1
    assert "skipped, which hides a ground (counts as failed):" in capsys.readouterr().out


def test_a_ground_that_cannot_be_had_fails_the_run(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Stage("binaries", python("exit('nothing can be downloaded')"))
    assert small_run(broken, Stage("processes", python(""), after=("binaries",), ground="processes")) == 1
    out = capsys.readouterr().out
    assert "nothing can be downloaded" in out
    assert "processes   not run    0:00  binaries failed" in out


def test_the_rows_of_this_run_are_written_together_and_older_ones_forgotten(
    small_run: Callable[..., int], tmp_path: Path
) -> None:
    def entry(ground: str) -> Entry:
        return Entry(case=None, test="test", outcome="passed", ground=ground)

    def stage(ground: str) -> Stage:
        rows = json.dumps({"Q-34": [entry(ground)]})
        return Stage(ground, python(f"import pathlib; pathlib.Path('build/rows-{ground}.json').write_text({rows!r})"))

    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "rows-old.json").write_text('{"E-99": []}')
    small_run(stage("none"), stage("processes"))
    rows = json.loads((tmp_path / "build" / "rows.json").read_text())
    assert rows == {"Q-34": [entry("none"), entry("processes")]}


def test_a_test_that_passes_only_when_tried_once_more_is_named(
    small_run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    failing = python(junit("processes", GROUND + "<failure />") + "; raise SystemExit(1)")
    again = python(junit("processes-again", GROUND))[0]
    assert small_run(Stage("processes", failing, ground="processes", again=again)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "passed only when tried once more, and show no row:" in lines
    assert lines[-1] == "1 passed, 0 failed"


def test_every_ground_that_has_tests_has_a_stage() -> None:
    tests = [text for name, text in tree.texts() if name.startswith("tests/cluster/")]
    marked = {ground for ground in GROUNDS[1:] for text in tests if f'mark.ground("{ground}")' in text}
    staged = {stage.ground for stage in run.STAGES}
    assert marked <= staged


def test_every_test_that_needs_a_quiet_machine_is_in_a_stage_of_its_ground_and_in_no_other() -> None:
    tests = [text for name, text in tree.texts() if name.startswith("tests/cluster/")]
    marked = {
        ground for ground in GROUNDS for text in tests if "mark.alone" in text and f'mark.ground("{ground}")' in text
    }
    quiet = {stage.ground for stage in run.STAGES if stage.alone}
    assert marked == quiet
    for stage in run.STAGES:
        if stage.ground in quiet:
            assert stage.commands[0][-2:] == ("-m", "alone" if stage.alone else "not alone")


def test_each_stage_writes_reports_of_its_own() -> None:
    reports = [word for stage in run.STAGES for words in (*stage.commands, stage.again) for word in words]
    written = [word for word in reports if word.startswith(("--junit-xml=", "--rows="))]
    assert len(written) == len(set(written)) == 3 * len([stage for stage in run.STAGES if stage.ground])


def test_stages_wait_only_for_stages_that_come_before_them() -> None:
    names = [stage.name for stage in run.STAGES]
    for position, stage in enumerate(run.STAGES):
        assert set(stage.after) <= set(names[:position])
        assert stage.weight <= run.STRENGTH


def test_soak_runs_the_same_grounds_with_the_long_tests() -> None:
    for stage, soak in zip(run.STAGES, run.SOAK, strict=True):
        assert all(("--soak" in command) == bool(stage.ground) for command in soak.commands)
        assert soak.may_be_empty == bool(stage.ground)
        assert not stage.may_be_empty


def test_the_quick_run_needs_no_cluster_and_leaves_nothing_to_chance() -> None:
    assert [stage.name for stage in run.QUICK] == ["lint", "types", "unit"]
    assert run.QUICK[-1].commands[0][-2:] == ("-m", "not chance")


def test_a_stage_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["unit", "units"])
    assert "no stage units" in capsys.readouterr().err


def test_a_second_run_in_the_same_tree_is_refused_and_harms_no_report_of_the_first(
    small_run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del small_run
    monkeypatch.setattr(run, "ROOT", tmp_path)
    with run.alone():
        (tmp_path / "build" / "junit-unit.xml").write_text(JUNIT.format(""))
        assert run.main([]) == 2
        assert run.main(["unit"]) == 2
    assert capsys.readouterr().err.startswith(f"another test run is at work in {tmp_path / 'build'}")
    assert (tmp_path / "build" / "junit-unit.xml").exists()
    with run.alone():
        pass


INTERRUPTED = """
from tests import run
from tests.stages import Stage
from pathlib import Path
import sys
run.BUILD = Path("build")
run.sweep = list
wait = "import time\\ntry:\\n open('up', 'w').close(); time.sleep(60)\\nfinally:\\n open('cleaned', 'w').close()"
stage = Stage("cluster", ((sys.executable, "-c", wait),))
sys.exit(run.{start})
"""


def interrupted(folder: Path, start: str, number: signal.Signals) -> tuple[int, str]:
    """Start a stage that waits, send a signal to the run once it is up; the run's exit code and output."""
    command = [sys.executable, "-c", INTERRUPTED.replace("{start}", start)]
    environment = os.environ | {"PYTHONPATH": str(tree.ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while not (folder / "up").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    return process.returncode, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_lets_its_stages_clean_up(tmp_path: Path, number: signal.Signals) -> None:
    code, out = interrupted(tmp_path, "together([stage])", number)
    assert code == run.INTERRUPTED
    assert "interrupted: every stage was ended and has cleaned up" in out
    assert (tmp_path / "cleaned").exists()


def test_a_stage_in_front_cleans_up_too_when_the_run_is_told_to_end(tmp_path: Path) -> None:
    code, _ = interrupted(tmp_path, "in_front(stage)", signal.SIGTERM)
    assert code != 0
    assert (tmp_path / "cleaned").exists()


def test_a_stage_in_front_ends_as_its_first_failed_command_does(
    small_run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    del small_run
    stage = Stage("lint", (*python("print('first')"), *python("exit(3)"), *python("print('never')")))
    assert run.in_front(stage) == 3
    assert capfd.readouterr().out == "first\n"
