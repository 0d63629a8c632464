"""The kernel's process table is the record: ours are found by their mark, and only they are ever signalled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import processes
from gpuyard.sandbox.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELL = shutil.which("sh") or "/bin/sh"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"
POLITE = "echo up; exec sleep 60"


class Yard:
    """A sandbox's folder with processes that run shell scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, script: str, component: str = "thing", digest: str = "d") -> Process:
        log = self.folder / f"{component}.log"
        process = processes.start([SHELL, "-c", script], self.folder, component, digest, log)
        deadline = time.monotonic() + 10
        while "up" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yield Yard(tmp_path)
    while left := processes.of(tmp_path):
        for process in left.values():
            processes.end(process, grace=0)


def test_a_process_is_found_by_folder_component_and_digest(yard: Yard) -> None:
    process = yard.start(POLITE, "etcd", "abc")
    assert processes.of(yard.folder) == {"etcd": process}
    assert (process.folder, process.component, process.digest) == (yard.folder, "etcd", "abc")
    assert processes.of(yard.folder / "other") == {}


def test_where_the_kernel_has_no_process_table_to_read_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path / "proc")
    assert processes.running() == []


def test_a_process_is_found_by_anyone_not_only_by_who_started_it(yard: Yard) -> None:
    code = "import sys, pathlib; from gpuyard.sandbox import processes\n"
    code += "folder = pathlib.Path(sys.argv[1])\n"
    code += "processes.start(['/bin/sleep', '60'], folder, 'orphan', 'd', folder / 'log')"
    subprocess.run([sys.executable, "-c", code, str(yard.folder)], check=True)
    orphan = processes.of(yard.folder)["orphan"]
    assert processes.alive(orphan)
    processes.end(orphan, grace=0)
    assert not processes.alive(orphan)


def test_output_is_appended_to_the_log(yard: Yard) -> None:
    (yard.folder / "thing.log").write_text("earlier, up\n")
    process = yard.start("echo out; echo err >&2; exec sleep 60")
    deadline = time.monotonic() + 10
    while (text := (yard.folder / "thing.log").read_text()) != "earlier, up\nout\nerr\n":
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
    assert processes.alive(process)


def test_a_process_gets_a_home_of_the_sandbox_and_nothing_else_of_ours(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    yard.start('echo "up HOME=$HOME SECRET=$SECRET"; exec sleep 60')
    assert (yard.folder / "thing.log").read_text() == f"up HOME={yard.folder} SECRET=\n"


def test_a_process_that_ended_is_not_alive_and_leaves_no_zombie(yard: Yard) -> None:
    process = yard.start("echo up")
    deadline = time.monotonic() + 10
    while processes.alive(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.parametrize(("script", "grace"), [(POLITE, 10), (STUBBORN, 0.1), (POLITE, 0), (STUBBORN, 0)])
def test_a_process_is_gone_when_end_returns(yard: Yard, script: str, grace: float) -> None:
    process = yard.start(script)
    processes.end(process, grace=grace)
    assert not processes.alive(process)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_a_stubborn_process_gets_its_grace(yard: Yard) -> None:
    process = yard.start("trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.05; done")
    processes.end(process, grace=10)
    assert (yard.folder / "thing.log").read_text() == "up\nbye\n"


def test_a_paused_process_is_told_from_a_running_one_and_can_be_ended(yard: Yard) -> None:
    process = yard.start(POLITE)
    assert not processes.paused(process)
    processes.send(process, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while not processes.paused(process):
        assert time.monotonic() < deadline
    processes.end(process, grace=10)
    assert not processes.alive(process)
    assert not processes.paused(process)


def test_a_process_that_has_the_number_of_one_long_gone_is_not_touched(yard: Yard) -> None:
    with subprocess.Popen([SHELL, "-c", POLITE], stdout=subprocess.DEVNULL) as stranger:
        once = Process(stranger.pid, yard.folder, "thing", "d")
        processes.send(once, signal.SIGKILL)
        processes.end(once, grace=0)
        assert not processes.alive(once)
        assert stranger.poll() is None
        stranger.kill()


TURNING = """\
#!{shell}
[ "$1" -ge 300 ] && exec sleep 60
exec "$0" $(($1 + 1))
"""


def program(process: Process) -> str:
    """The name of the program that a process runs now."""
    return (processes.PROC / str(process.pid) / "comm").read_text().strip()


def test_a_process_that_turns_into_another_program_is_never_taken_for_gone(yard: Yard) -> None:
    script = yard.folder / "turning"
    script.write_text(TURNING.format(shell=SHELL))
    script.chmod(0o755)
    process = processes.start([str(script), "0"], yard.folder, "thing", "d", yard.folder / "thing.log")
    deadline = time.monotonic() + 60
    while program(process) != "sleep":
        assert processes.alive(process)
        assert processes.of(yard.folder) == {"thing": process}
        assert time.monotonic() < deadline
    processes.end(process, grace=10)
    assert not processes.alive(process)


def test_of_a_component_and_what_it_started_the_first_is_meant(yard: Yard) -> None:
    process = yard.start("sleep 60 & echo up; wait")
    assert len([one for one in processes.running() if one.folder == yard.folder]) == 2
    assert processes.of(yard.folder) == {"thing": process}


def test_one_that_is_gone_can_be_ended_again(yard: Yard) -> None:
    process = yard.start(POLITE)
    for _ in range(2):
        processes.end(process, grace=0)
    processes.send(process, signal.SIGTERM)
