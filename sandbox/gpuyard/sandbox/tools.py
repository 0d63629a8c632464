"""The tools a sandbox runs on, each pinned by its folder: tool.toml (versions, releases), go.mod and go.sum.

A folder's files are the tool's lock: their hash names the tool's place in the cache. A tool that is a program of our
own around somebody's modules has its source there, too.

Decided in docs/decisions.md: "Tools are pinned by folder, and a folder's hash is its place in the cache".
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from pathlib import Path

import msgspec

HOME = Path(__file__).parent / "tools"
LINUX = "linux"
LOCK_FILES = ("tool.toml", "go.mod", "go.sum")
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a project publishes its binaries; `{version}`, `{number}`, `{arch}` and `{binary}` are filled in."""

    url: str
    checksum: str = ""
    member: str = ""


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Go package that becomes a program, and how to ask that program for its version."""

    package: str
    ask: tuple[str, ...] = ("--version",)


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool: a version, a release, and the programs built from one set of Go modules."""

    version: str
    binaries: dict[str, Binary]
    release: Release | None = None
    """None if no project publishes it: then it is always built."""
    stamps: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    folder: Path = Path()
    system: str = LINUX
    """For which system its programs are, in Go's words."""

    @property
    def name(self) -> str:
        """The folder's name, as in `kubernetes`."""
        return self.folder.name

    @property
    def slot(self) -> str:
        """The name of this tool's place in the cache: it changes whenever the lock files do."""
        digest = hashlib.sha256()
        for path in (*(self.folder / name for name in LOCK_FILES), *sorted(self.folder.glob("*.go"))):
            digest.update(path.read_bytes())
        return f"{self.name}-{self.version}-{self.system}-{architecture()}-{digest.hexdigest()[:12]}"

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that builds it."""
        found = re.search(r"^go (\S+)$", (self.folder / "go.mod").read_text(), re.MULTILINE)
        return numbers(found[1]) if found else ()

    def fill(self, template: str, binary: str = "") -> str:
        """A template of tool.toml with its placeholders replaced."""
        number = self.version.removeprefix("v")
        # tool.toml names the files for Linux; those for another system differ in this word.
        return template.replace(LINUX, self.system).format(
            version=self.version, number=number, arch=architecture(), binary=binary
        )


def read(folder: Path, system: str = LINUX) -> Tool:
    """The tool that a folder describes."""
    tool = msgspec.toml.decode((folder / "tool.toml").read_bytes(), type=Tool)
    return msgspec.structs.replace(tool, folder=folder, system=system)


@functools.cache
def catalogue(home: Path = HOME, system: str = LINUX) -> dict[str, Tool]:
    """Every program by name, with the tool it belongs to; for Linux, on which clusters run, or for this very system."""
    tools = [read(path.parent, system) for path in sorted(home.glob("*/tool.toml"))]
    return {binary: tool for tool in tools for binary in tool.binaries}


def architecture() -> str:
    """This machine's processor, in Go's words."""
    machine = platform.machine().lower()
    return ARCHITECTURES.get(machine, machine)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: `1.26.0` is (1, 26, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
