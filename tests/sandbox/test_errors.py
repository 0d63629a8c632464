"""A failure tells the step, the problem, the log's end and the remedy, in this order."""

from pathlib import Path

from gpuyard.sandbox.errors import SandboxError, last_lines


def test_a_failure_reads_as_step_problem_log_and_remedy() -> None:
    error = SandboxError("start of etcd", "the process ended", log=["a", "b"], remedy="Try again.")
    assert str(error) == "start of etcd: the process ended\n  | a\n  | b\nTry again."


def test_without_log_and_remedy_a_failure_is_one_line() -> None:
    assert str(SandboxError("binaries", "none")) == "binaries: none"


def test_only_the_last_lines_of_a_log_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(b"line %d" % number for number in range(50)) + b"\n\xff\n")
    assert last_lines(log, 3) == ["line 48", "line 49", "�"]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "log") == []
