"""A component that does not get ready says why: its log's last lines, and what to do."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import launch, ports, processes
from gpuyard.sandbox.components import Component, Place
from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError
from gpuyard.sandbox.launch import PortTakenError
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox.processes import Process

SHELL = Path(shutil.which("sh") or "/bin/sh")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "logs").mkdir()
    yield Place(tmp_path, {"thing": ports.free(ports.candidates())}, Spec(name="mine"))
    for process in processes.of(tmp_path).values():
        processes.end(process, grace=0)


def thing(script: str) -> Component:
    return Component("thing", lambda _: ["-c", script], "http://127.0.0.1:{port}/healthz")


def run(script: str, place: Place, within: float = 10) -> Process:
    component = thing(script)
    process = launch.start(component, SHELL, place)
    launch.wait_ready(component, process, place, within)
    return process


@pytest.fixture
def healthy(place: Place) -> Iterator[None]:
    class Yes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with HTTPServer(("127.0.0.1", place.ports["thing"]), Yes) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("healthy")
def test_a_component_is_ready_when_its_health_page_says_so(place: Place) -> None:
    process = run("exec sleep 60", place)
    assert processes.alive(process)


def test_one_that_ends_shows_its_last_words_and_where_the_rest_is(place: Place) -> None:
    with pytest.raises(SandboxError) as failure:
        run("echo wrong flag; exit 1", place)
    assert str(failure.value) == (
        "start of thing: the process ended\n"
        "  | wrong flag\n"
        f"The whole log is {place.path('logs/thing.log')}; `gpuyard sandbox down --name mine` and `up` begin anew."
    )


def test_one_that_takes_too_long_is_given_up(place: Place) -> None:
    with pytest.raises(SandboxError, match="not ready within 0 s"):
        run("echo thinking; exec sleep 60", place, within=0.2)


def test_one_that_finds_its_port_taken_is_told_apart(place: Place) -> None:
    with pytest.raises(PortTakenError) as failure:
        run("echo 'listen tcp: bind: address already in use'; exit 1", place)
    assert failure.value.component == "thing"
    assert f"port {place.ports['thing']} is taken" in str(failure.value)


@pytest.mark.usefixtures("healthy")
def test_a_stranger_who_answers_on_the_port_is_not_taken_for_the_component(place: Place) -> None:
    component = thing("echo 'address already in use'; exit 1")
    process = launch.start(component, SHELL, place)
    while processes.alive(process):
        pass
    with pytest.raises(PortTakenError):
        launch.wait_ready(component, process, place)


def test_a_full_disk_is_called_so(place: Place) -> None:
    with pytest.raises(SandboxError, match="The disk is full: make room for"):
        run("echo 'write: no space left on device'; exit 1", place)


STACK = 'for n in $(seq 40); do echo "goroutine $n"; done'


def test_a_full_disk_is_called_so_whatever_the_program_said_after_it(place: Place) -> None:
    with pytest.raises(SandboxError, match="The disk is full: make room for"):
        run(f"echo 'write: no space left on device'; {STACK}; exit 2", place)


def test_a_taken_port_is_found_whatever_the_program_said_after_it(place: Place) -> None:
    with pytest.raises(PortTakenError):
        run(f"echo 'bind: address already in use'; {STACK}; exit 2", place)


@pytest.mark.parametrize(
    "cause",
    ["panic: wal: write failed", '{"level":"fatal","msg":"write failed"}', "F1118 16:00:00.0 main.go:1] write failed"],
)
def test_one_that_breaks_down_shows_why_and_not_the_end_of_its_stack(place: Place, cause: str) -> None:
    with pytest.raises(SandboxError) as failure:
        run(f"echo starting; echo '{cause}'; {STACK}; exit 2", place)
    assert failure.value.log[:2] == (cause, "goroutine 1")
    assert len(failure.value.log) == LINES_SHOWN


def test_the_log_begins_anew_and_the_earlier_one_is_kept(place: Place) -> None:
    for word in ("first", "second"):
        with pytest.raises(SandboxError):
            run(f"echo {word}; exit 1", place)
    assert launch.log_of(place.folder, "thing").read_text() == "second\n"
    assert (place.folder / "logs" / "thing.previous.log").read_text() == "first\n"
