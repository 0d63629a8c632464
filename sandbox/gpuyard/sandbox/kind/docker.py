"""The docker command, aimed at one engine: what we run there, and what its failures mean."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError
from gpuyard.sandbox.kind.archive import write_system
from gpuyard.sandbox.tools import architecture

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROGRAM = "docker"
ANSWER_WITHIN = 10.0
FIRST_WORD_WITHIN = 15.0

# The variables by which the docker command finds an engine.
HOST, CONTEXT = "DOCKER_HOST", "DOCKER_CONTEXT"
LEADING = (HOST, CONTEXT, "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG")
# All that we put into an engine has a name of ours; what a user has there keeps its own.
OURS = "gpuyard.io/"


@dataclass(frozen=True)
class Docker:
    """One engine, by the variables that lead the docker command (and kind) to it; without any, the environment's."""

    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment for programs that talk to this engine; no variable in it leads to another."""
        others = LEADING if self.variables else ()
        return {name: value for name, value in os.environ.items() if name not in others} | dict(self.variables)

    @property
    def name(self) -> str:
        """Where the engine is, for people."""
        return self.variables.get(HOST, "your Docker engine")

    @property
    def id(self) -> str:
        """What the engine calls itself, as no other does; nothing if it does not say."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return self._run("info", "--format", "{{.ID}}", timeout=ANSWER_WITHIN).stdout.strip()
        return ""

    def pinned(self) -> Docker:
        """This engine by variables that lead to it whatever the environment says later."""
        found = {name: os.environ[name] for name in LEADING if name in os.environ} | dict(self.variables)
        if HOST in found:
            found.pop(CONTEXT, None)
        else:
            with contextlib.suppress(SandboxError):  # another program in docker's place, which knows no contexts
                found[CONTEXT] = self.ask("context", "inspect", "--format", "{{.Name}}")
        return Docker(found)

    def answers(self) -> bool:
        """Whether an engine is there and lets us in."""
        return not self.refusal()

    def refusal(self) -> str:
        """Why no engine is there for us, in words; nothing if one answers."""
        try:
            done = self._run("version", "--format", "{{.Server.Version}}", timeout=ANSWER_WITHIN)
        except subprocess.TimeoutExpired:
            return f"it says nothing within {ANSWER_WITHIN:.0f} s"
        except OSError:
            return "there is no docker command"
        if done.returncode:
            return "it does not let this user in" if "permission denied" in done.stderr else "none answers"
        return ""

    def ask(self, *arguments: str) -> str:
        """Run a docker command and return what it prints; a failure is a SandboxError with its last lines."""
        try:
            done = self._run(*arguments)
        except OSError as error:
            remedy = "Have the docker command on the PATH again, and run the command again."
            raise SandboxError(f"docker {arguments[0]}", "there is no docker command", remedy=remedy) from error
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
        _need_ours(tag)
        marks = [text for name, value in (labels or {}).items() for text in ("--label", f"{name}={value}")]
        settings = [text for name, value in values.items() for text in ("--build-arg", f"{name.upper()}={value}")]
        self.ask("build", "--force-rm", "--network", "host", "--tag", tag, *marks, *settings, str(context))

    def take_in(self, system: Path, image: str, arch: str) -> None:
        """Make an image of a file system's archive."""
        _need_ours(image)
        if arch == architecture():
            self.ask("import", "--change", 'CMD ["bash"]', str(system), image)
            return
        # An import is always said to be for this machine's processor, so another's comes as a whole image.
        with tempfile.TemporaryDirectory(dir=system.parent) as folder:
            archive = Path(folder) / "image.tar"
            write_system(archive, image, system, arch, Cmd=["bash"])
            self.ask("load", "--input", str(archive))

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


def _need_ours(image: str) -> None:
    """Refuse to give an image a name that somebody else's may have: ValueError."""
    if not image.startswith(OURS):
        raise ValueError(f"{image!r} is not of ours: their names begin with {OURS}")
