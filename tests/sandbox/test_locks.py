"""One holder at a time, and nothing left over: not after use, not after a crash."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.locks import held

if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_is_gone_when_the_lock_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "lock"
    with held(path):
        assert path.exists()
    assert not path.exists()


def test_the_lock_is_freed_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), held(tmp_path / "lock"):
        raise ZeroDivisionError
    with held(tmp_path / "lock", lambda: pytest.fail("the lock is still held")):
        pass


def test_a_second_holder_waits_and_says_so_once(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def waits() -> None:
        order.append("waits")
        waiting.set()

    def second() -> None:
        with held(tmp_path / "lock", waits):
            order.append("second")

    thread = threading.Thread(target=second)
    with held(tmp_path / "lock"):
        thread.start()
        assert waiting.wait(5)
        order.append("first is done")
    thread.join(5)
    assert order == ["waits", "first is done", "second"]


def test_whoever_waits_gets_the_lock_although_its_folder_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "lock"
    waiting, got = threading.Event(), threading.Event()

    def second() -> None:
        with held(path, waiting.set):
            got.set()

    thread = threading.Thread(target=second)
    with held(path):
        thread.start()
        assert waiting.wait(5)
        path.unlink()
        path.parent.rmdir()
    thread.join(5)
    assert got.is_set()


def test_many_holders_never_overlap(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(3):
            with held(tmp_path / "lock"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert not (tmp_path / "lock").exists()


def test_a_holder_that_is_killed_frees_the_lock(tmp_path: Path) -> None:
    code = "import sys, time, pathlib; from gpuyard.sandbox.locks import held\n"
    code += "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
    with held(tmp_path / "lock", lambda: pytest.fail("the lock is still held")):
        pass
