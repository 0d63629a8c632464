"""Brings a kind cluster up and down: real kubelets in containers of a Docker engine.

    nothing ──▶ being made (record, no mark) ──▶ up (mark)
       ▲                    │    ▲                 │
       └──────── down ──────┴────┘ repeated up     └─▶ up again: its nodes are started

The record is written before the first container. A cluster without the mark is made anew. One that was up holds what
people put there: its stopped nodes are started, and nothing but `down` removes it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml
from gpuyard.common import tokens
from gpuyard.sandbox import binaries, files, removal
from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError, last_lines
from gpuyard.sandbox.folders import SANDBOXES, Folders
from gpuyard.sandbox.kind import config, engines, images
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.private import NETWORK
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.spec import NAME, Spec, checked
from gpuyard.sandbox.tools import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuyard.sandbox.kind.engines import Engine
    from gpuyard.sandbox.releases import Say

READY_WITHIN = 300
AGAIN_WITHIN = 60.0
POLL = 0.5
STEP = " ✓ "
# What makes a node run that is in one of these states.
REVIVE = {"created": "start", "exited": "start", "paused": "unpause"}


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind sandbox has to remember between commands."""

    spec: Spec
    engine: dict[str, str]
    """The variables that lead to the engine, whatever the environment says by now."""
    private: bool
    programs: dict[str, Path]
    network: bool = False
    """Whether the network in a user's engine is of our making, so that the last `down` removes it."""
    engine_id: str = ""
    """What a user's engine calls itself: nothing is ever removed from another."""
    token: str = ""
    """By which the extender knows kube-scheduler; empty: the cluster was made before there was one."""


@dataclass(frozen=True)
class Cluster:
    """A kind cluster that was brought up."""

    folder: Path
    record: Record

    @property
    def name(self) -> str:
        """The sandbox's name."""
        return self.record.spec.name

    @property
    def docker(self) -> Docker:
        """The docker command for the engine in which its nodes are containers."""
        return Docker(self.record.engine)

    @property
    def engine(self) -> Engine:
        """The engine in which its nodes are containers."""
        return engines.Engine(self.docker, private=self.record.private, id=self.record.engine_id)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON line for each request that the API server answered."""
        return self.folder / "logs" / "audit.log"

    @property
    def nodes(self) -> dict[str, str]:
        """The nodes' containers and their states, as the engine says."""
        lines = self.docker.lines(
            "ps", "--all", "--filter", config.label(self.name), "--format", "{{.Names}} {{.State}}"
        )
        return dict(line.split() for line in sorted(lines))

    def program(self, name: str) -> Path:
        """One of the programs this cluster is handled with: `kind` or `kubectl`."""
        return self.record.programs[name]

    def load(self, image: str) -> None:
        """Put an image of the engine onto every node."""
        self.kind("load", "docker-image", image, "--name", config.kind_name(self.name))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; raises SandboxError when it fails."""
        command = [str(self.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        # kubectl keeps a cache in the home folder: the sandbox's, not the user's.
        return _run("kubectl", command, {"HOME": str(self.folder)}, stdin)

    def give_token(self) -> None:
        """Put the token that its kube-scheduler shows where the extender reads it; harmless if it is there."""
        if not self.record.token:
            return
        items = config.secret({tokens.TOKEN: self.record.token.encode()})
        self.kubectl(
            "apply", "--server-side", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        )

    def kind(self, *arguments: str) -> str:
        """What kind prints; raises SandboxError when it fails."""
        return _run("kind", [str(self.program("kind")), *arguments], self.docker.environment)

    def answers(self) -> bool:
        """Whether it was brought up, every node is there, and the API server is ready."""
        with contextlib.suppress(SandboxError):
            complete = list(self.nodes.values()) == ["running"] * (1 + self.record.spec.nodes)
            ready = ("get", "--raw=/readyz", "--request-timeout=10s")
            return complete and self.was_up and self.kubectl(*ready) == "ok"
        return False

    @property
    def was_up(self) -> bool:
        """Whether it was brought up once; else it is half made."""
        return self._mark.exists()

    def revive(self) -> None:
        """Start the nodes that stand still; return when it answers, or raise SandboxError when it does not."""
        for node, state in self.nodes.items():
            if state in REVIVE:
                self.docker.ask(REVIVE[state], node)
        deadline = time.monotonic() + AGAIN_WITHIN
        while not self.answers():
            if time.monotonic() > deadline:
                raise _kept(self.name, f"is there, and does not answer within {AGAIN_WITHIN:.0f} s")
            time.sleep(POLL)

    def down(self) -> None:
        """Remove the sandbox."""
        down(self.name, folders=Folders(self.folder.parents[2]))

    @property
    def _mark(self) -> Path:
        return self.folder / "up"

    def create(self, image: str, say: Say) -> None:
        """Make it from nothing; what an earlier attempt left is removed first."""
        self.delete()
        self._write_settings(image)
        log = self.folder / "logs" / "kind.log"
        arguments = ["--config", str(self.folder / "kind.yaml"), "--kubeconfig", str(self.kubeconfig), "--retain"]
        command = [str(self.program("kind")), "create", "cluster", *arguments]
        with log.open("w") as lines, subprocess.Popen(
            command, env=self.docker.environment, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stderr is not None  # noqa: S101 - PIPE above
            for line in process.stderr:
                lines.write(line)
                if line.startswith(STEP):
                    say(f"kind: {_plain(line)}")
        if process.returncode:
            raise self._failed(log)
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={READY_WITHIN}s")
        self._mark.touch()

    def delete(self) -> None:
        """Remove its nodes and their volumes from the engine."""
        self._mark.unlink(missing_ok=True)
        nodes = self.nodes
        if nodes:
            self.docker.ask("rm", "--force", "--volumes", *nodes)

    def _write_settings(self, image: str) -> None:
        spec = self.record.spec
        settings = self.folder / "settings"
        for part in (settings, self.folder / "logs"):
            part.mkdir(exist_ok=True)
        own = files.scheduler_source(spec.scheduler_config, spec.extender_url) if spec.scheduler_config else None
        _write(settings / "scheduler.yaml", config.scheduler(self.record.token, own, spec.extender_url))
        policy = spec.audit_policy or files.OURS / "audit-policy.yaml"
        (settings / "audit-policy.yaml").write_bytes(policy.read_bytes())
        _write(self.folder / "kind.yaml", config.cluster(spec, image, self.folder))

    def _failed(self, log: Path) -> SandboxError:
        """The error of a cluster that could not be made; its nodes' logs are kept, its nodes are not."""
        nodes = self.folder / "logs" / "nodes"
        with contextlib.suppress(SandboxError):
            self.kind("export", "logs", str(nodes), "--name", config.kind_name(self.name))
        lines = last_lines(log)
        self.delete()
        return SandboxError(
            "kind create cluster",
            "it failed",
            log=lines,
            remedy=f"The whole log is {log}, those of the nodes are in {nodes}. `gpuyard sandbox up` may be repeated.",
        )


def up(spec: Spec, *, folders: Folders | None = None, say: Say | None = None) -> Cluster:
    """Make the wanted cluster run, whatever is there already, and return when all its nodes are ready.

    A cluster that was up stays, its stopped nodes are started; one that is wanted otherwise is refused. On this ground
    the mock stack brings the GPUs, so their number says nothing.
    Raises SandboxError with the step that failed, its log's last lines and the remedy.
    """
    folders = folders or Folders.of_user()
    say = say or Progress()
    folder = _home(folders) / spec.name
    config.flags(spec.api_server_flags)
    with removal.at_work(folder, say):
        before = find(spec.name, folders=folders)
        if before and before.was_up and (there := _again(before, spec, folders, say)):
            say(f"sandbox {spec.name} is up")
            return there
        engine = _engine(folder, before, folders, say)
        cluster = Cluster(folder, _record(spec, engine, folders, say))
        _write_record(cluster)
        cluster.create(images.node(engine, folders, say), say)
        say(f"sandbox {spec.name} is up: {len(cluster.nodes)} nodes")
        return cluster


def down(name: str, *, folders: Folders | None = None, say: Say | None = None) -> bool:
    """Remove the cluster, and our own engine with the last one, also after a crash. False if there was nothing."""
    folders = folders or Folders.of_user()
    say = say or Progress()
    folder = _home(folders) / checked(name)
    removal.guard(folder)
    with removal.at_work(folder, say):
        cluster = find(name, folders=folders)
        if cluster:
            engines.again(cluster.engine, folders, say)
            cluster.delete()
            if cluster.record.network:
                _remove_network(cluster.docker)
        elif (folder / files.RECORD).exists():
            _remove_unknown(name, folders)
        found = folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        if not names(folders=folders):
            engines.release(folders, say)
    with contextlib.suppress(OSError):  # other sandboxes are in the first, the images of our own engine in the second
        _home(folders).rmdir()
        _home(folders).parent.rmdir()
    return found


def find(name: str, *, folders: Folders | None = None) -> Cluster | None:
    """The kind sandbox of this name, if there is one; it may be half made."""
    folder = _home(folders or Folders.of_user()) / checked(name)
    with contextlib.suppress(OSError, msgspec.DecodeError):
        content = (folder / files.RECORD).read_bytes()
        return Cluster(folder, msgspec.json.decode(content, type=Record, dec_hook=lambda kind, value: kind(value)))
    return None


def names(*, folders: Folders | None = None) -> list[str]:
    """The names of all kind sandboxes."""
    home = _home(folders or Folders.of_user())
    if not home.exists():
        return []
    return sorted(path.name for path in home.iterdir() if path.is_dir() and NAME.fullmatch(path.name))


def _again(before: Cluster, spec: Spec, folders: Folders, say: Say) -> Cluster | None:
    """The cluster that was up once, running again; None if the engine has none of its nodes any more."""
    alike = msgspec.structs.replace(before.record.spec, gpus=spec.gpus) == spec
    if alike and before.answers():
        return before
    engines.again(before.engine, folders, say)
    if not before.nodes:
        return None
    if not alike:
        raise _kept(spec.name, "is there, made with other settings than are asked for")
    say(f"sandbox {spec.name} does not answer: starting its nodes again")
    # Those it was made with may be gone by now.
    cluster = Cluster(before.folder, msgspec.structs.replace(before.record, programs=_programs(folders, say)))
    _write_record(cluster)
    cluster.revive()
    return cluster


def _kept(name: str, problem: str) -> SandboxError:
    """The refusal to remove a cluster in which somebody's work may be."""
    remedy = f"To have it made anew, run `gpuyard sandbox down --name {name} --ground kind` first: that removes it."
    return SandboxError(f"sandbox {name}", f"it {problem}", remedy=remedy)


def _remove_unknown(name: str, folders: Folders) -> None:
    """Remove the nodes of a sandbox whose record cannot be read, by their label, from the engines that answer."""
    answering = engines.answering(folders)
    if not answering:
        raise SandboxError(
            f"sandbox {name}", "its record cannot be read, and no Docker engine answers that may have its nodes",
            remedy="Start the engine in which it was made, and run the command again.",
        )  # fmt: skip
    for docker in answering:
        if nodes := docker.lines("ps", "--all", "--quiet", "--filter", config.label(name)):
            docker.ask("rm", "--force", "--volumes", *nodes)


def _remove_network(docker: Docker) -> None:
    """Remove kind's network, unless somebody else's containers are in it by now, be they stopped."""
    with contextlib.suppress(SandboxError):  # one that has just come
        if not docker.lines("ps", "--all", "--quiet", "--filter", f"network={NETWORK}"):
            docker.ask("network", "rm", NETWORK)


def _engine(folder: Path, before: Cluster | None, folders: Folders, say: Say) -> Engine:
    """The engine; the folder says from now on that it is needed, so no `down` of another sandbox stops it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return engines.again(before.engine, folders, say) if before else engines.engine(folders, say)
    except SandboxError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


def _record(spec: Spec, engine: Engine, folders: Folders, say: Say) -> Record:
    return Record(
        spec=spec,
        engine=dict(engine.docker.variables),
        private=engine.private,
        engine_id=engine.id,
        programs=_programs(folders, say),
        token=tokens.new(),
        network=not engine.private and _makes_network(engine.docker, folders),
    )


def _programs(folders: Folders, say: Say) -> dict[str, Path]:
    # They run beside the engine, which may be on a Mac, and not on the nodes.
    programs = binaries.ensure(("kind", "kubectl"), folders, say, tools=catalogue(system=sys.platform))
    return {name: found.path for name, found in programs.items()}


def _makes_network(docker: Docker, folders: Folders) -> bool:
    """Whether kind's network is not there yet, or a sandbox of ours has made it."""
    ours = [found.record.network for name in names(folders=folders) if (found := find(name, folders=folders))]
    return any(ours) or NETWORK not in docker.lines("network", "ls", "--format", "{{.Name}}")


def _write_record(cluster: Cluster) -> None:
    partial = cluster.folder / f"{files.RECORD}.partial"
    partial.touch(mode=0o600)
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(cluster.record, enc_hook=str)))
    partial.rename(cluster.folder / files.RECORD)


def _write(file: Path, value: config.Value) -> None:
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(value, sort_keys=False))


def _plain(line: str) -> str:
    """A line of kind's without its pictures."""
    return "".join(letter for letter in line.removeprefix(STEP) if letter.isascii()).strip()


def _home(folders: Folders) -> Path:
    return folders.root / "kind" / SANDBOXES


def _run(step: str, command: Sequence[str], environment: dict[str, str], stdin: str | None = None) -> str:
    try:
        done = subprocess.run(
            command, env=environment, input=stdin or "", capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise SandboxError(
            step, f"{command[0]} cannot be run: {error.strerror}",
            remedy="`gpuyard sandbox up --ground kind` with the sandbox's name finds or makes it again.",
        ) from error  # fmt: skip
    if done.returncode:
        log = (done.stdout + done.stderr).splitlines()[-LINES_SHOWN:]
        raise SandboxError(
            step, f"{' '.join(command[1:])} failed", log=log,
            remedy="`gpuyard sandbox status` tells how its nodes are; `gpuyard sandbox up --ground kind` mends it.",
        )  # fmt: skip
    return done.stdout
