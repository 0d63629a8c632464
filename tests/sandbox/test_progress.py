"""Progress is one line a step, with the seconds since the beginning."""

import io

import pytest
from gpuyard.sandbox.progress import Progress


def test_each_line_begins_with_the_seconds_since_the_start() -> None:
    seconds = iter([100.0, 100.0, 212.34])
    stream = io.StringIO()
    say = Progress(stream, lambda: next(seconds))
    say("first")
    say("second")
    assert stream.getvalue() == "[   0.0 s] first\n[ 112.3 s] second\n"


def test_progress_goes_to_stderr_so_that_stdout_can_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    Progress()("here")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("here\n")
