"""Starts one component and waits until it is ready, or says why it is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuyard.sandbox import processes
from gpuyard.sandbox.api import healthy
from gpuyard.sandbox.errors import SandboxError, all_lines, telling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuyard.sandbox.components import Component, Place
    from gpuyard.sandbox.processes import Process

READY_WITHIN = 60.0
POLL = 0.1


class PortTakenError(SandboxError):
    """Somebody else took the component's port before the component did."""

    def __init__(self, component: str, port: int, log: Sequence[str]) -> None:
        super().__init__(f"start of {component}", f"port {port} is taken", log=log)
        self.component = component


def log_of(folder: Path, component: str) -> Path:
    """Where a component of the sandbox in `folder` writes its log."""
    return folder / "logs" / f"{component}.log"


def start(component: Component, program: Path, place: Place) -> Process:
    """Start the component; its log begins anew, the earlier one is kept beside it."""
    log = log_of(place.folder, component.name)
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))
    command = component.command(program, place)
    return processes.start(command, place.folder, component.name, component.digest(program, place), log)


def wait_ready(component: Component, process: Process, place: Place, within: float = READY_WITHIN) -> None:
    """Return when the component is ready; raise SandboxError when it ends or takes too long."""
    deadline = time.monotonic() + within
    while not healthy(component.health_url(place)):
        if not processes.alive(process):
            raise _ended(component, place)
        if time.monotonic() > deadline:
            raise _failed(component, place, f"not ready within {within:.0f} s")
        time.sleep(POLL)
    # Its port may be held by a stranger who answers, too.
    if not processes.alive(process):
        raise _ended(component, place)


def _ended(component: Component, place: Place) -> SandboxError:
    lines = all_lines(log_of(place.folder, component.name))
    if any("address already in use" in line for line in lines):
        return PortTakenError(component.name, place.ports[component.name], telling(lines))
    return _failed(component, place, "the process ended")


def _failed(component: Component, place: Place, problem: str) -> SandboxError:
    log = log_of(place.folder, component.name)
    lines = all_lines(log)
    remedy = f"The whole log is {log}; `gpuyard sandbox down --name {place.spec.name}` and `up` begin anew."
    if any("no space left on device" in line for line in lines):
        remedy = f"The disk is full: make room for {place.folder} and run `gpuyard sandbox up` again."
    return SandboxError(f"start of {component.name}", problem, log=telling(lines), remedy=remedy)
