"""The docker command, aimed at one engine: what we run there, and what its failures mean."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PROGRAM = "docker"
ANSWER_WITHIN = 10.0
FIRST_WORD_WITHIN = 15.0


@dataclass(frozen=True)
class Docker:
    """One engine, by the variables that lead the docker command (and kind) to it."""

    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment for programs that talk to this engine."""
        return {**os.environ, **self.variables}

    @property
    def name(self) -> str:
        """Where the engine is, for people."""
        return self.variables.get("DOCKER_HOST", "your Docker engine")

    def answers(self) -> bool:
        """Whether an engine is there and lets us in."""
        try:
            return self._run("version", "--format", "{{.Server.Version}}", timeout=ANSWER_WITHIN).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def ask(self, *arguments: str) -> str:
        """Run a docker command and return what it prints; a failure is a SandboxError with its last lines."""
        done = self._run(*arguments)
        if done.returncode:
            log = (done.stdout + done.stderr).splitlines()[-LINES_SHOWN:]
            problem = f"ended with status {done.returncode}"
            raise SandboxError(f"docker {arguments[0]}", problem, log=log, remedy=self._remedy(log))
        return done.stdout.strip()

    def _remedy(self, log: Iterable[str]) -> str:
        if any("no space left" in line for line in log):
            return "The engine's disk is full: `docker system df` tells what is on it."
        return f"The engine is {self.name}; the same command again goes on from here."

    def lines(self, *arguments: str) -> list[str]:
        """As `ask`, one entry per line."""
        return self.ask(*arguments).splitlines()

    def has(self, image: str) -> bool:
        """Whether the engine holds this image."""
        return self._run("image", "inspect", "--format", "{{.Id}}", image).returncode == 0

    def build(self, context: Path, tag: str, labels: Mapping[str, str] | None = None, **values: str) -> None:
        """Build a folder's Dockerfile; its steps use the machine's network, so they reach what the machine reaches."""
        marks = [text for name, value in (labels or {}).items() for text in ("--label", f"{name}={value}")]
        settings = [text for name, value in values.items() for text in ("--build-arg", f"{name.upper()}={value}")]
        self.ask("build", "--network", "host", "--tag", tag, *marks, *settings, str(context))

    def pull(self, image: str) -> bool:
        """Fetch an image; False if its registry does not answer at once, or refuses."""
        with subprocess.Popen(
            [PROGRAM, "pull", image],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - PIPE above
            try:
                process.wait(FIRST_WORD_WITHIN)
            except subprocess.TimeoutExpired:
                os.set_blocking(process.stdout.fileno(), False)
                if not process.stdout.read():
                    process.kill()
                    return False
                os.set_blocking(process.stdout.fileno(), True)
                process.communicate()
            return process.returncode == 0

    def _run(self, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout, check=False,
        )  # fmt: skip
