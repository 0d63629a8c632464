"""Finds the programs a ground needs, or gets them: setting, PATH, cache, official release, build from Go modules.

What is half written never counts: a program enters the cache by a rename, when it is complete and on the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox import golang, releases
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.tools import Tool, catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.releases import Say

SETTING = "GPUYARD_BIN"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Found:
    """A program that can be run, its version, and where it was found."""

    path: Path
    version: str
    source: str


class _NowhereError(Exception):
    """A tool that is neither released where we reach it nor can be built."""

    def __init__(self, refused: SandboxError, failed: SandboxError) -> None:
        super().__init__(refused, failed)
        self.refused = refused
        self.failed = failed


def ensure(
    names: Iterable[str],
    folders: Folders,
    say: Say,
    *,
    given: Path | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> dict[str, Found]:
    """Every named program, in the first place that has it; what no place has is downloaded or built.

    `given` is a folder of programs to be used whatever their version is (else `$GPUYARD_BIN`).
    Raises SandboxError, one sentence, when something can neither be found nor got.
    """
    tools = tools or catalogue()
    setting = os.environ.get(SETTING)
    given = given or (Path(setting) if setting else None)
    found: dict[str, Found] = {}
    missing: dict[str, list[str]] = {}
    for name in names:
        tool = tools[name]
        place = _given(name, tool, given) or _on_path(name, tool) or _cached(name, tool, folders)
        if place:
            found[name] = place
        else:
            missing.setdefault(tool.name, []).append(name)
    try:
        for wanted in missing.values():
            found |= _get(tools[wanted[0]], wanted, folders, say)
    except _NowhereError as nowhere:
        wanted = [name for group in missing.values() for name in group]
        lacking = {name: tools[name] for name in wanted if not _cached(name, tools[name], folders)}
        raise _nowhere(lacking, nowhere) from nowhere
    return found


def _given(name: str, tool: Tool, folder: Path | None) -> Found | None:
    if folder is None or not (folder / name).exists():
        return None
    path = (folder / name).resolve()
    answer = _ask(path, tool, name)
    version = re.search(r"\bv?\d+\.\d+\.\d+\S*", answer)
    if not version:
        raise SandboxError(
            "binaries",
            f"{path} does not tell its version when asked with {' '.join(tool.binaries[name].ask)}",
            remedy=f"Replace it by a {name} for this machine, or take it out of the folder that {SETTING} names.",
        )
    return Found(path, version[0], "setting")


def _on_path(name: str, tool: Tool) -> Found | None:
    path = shutil.which(name)
    if path and is_version(_ask(Path(path), tool, name), tool.version):
        return Found(Path(path), tool.version, "PATH")
    return None


def _cached(name: str, tool: Tool, folders: Folders) -> Found | None:
    path = folders.binaries / tool.slot / name
    return Found(path, tool.version, "cache") if path.exists() else None


def is_version(answer: str, version: str) -> bool:
    """Whether a program's answer names exactly this version."""
    return version.removeprefix("v") in {word.removeprefix("v") for word in re.split(r'[\s:,"()]+', answer)}


def _ask(path: Path, tool: Tool, name: str) -> str:
    command = [str(path), *tool.binaries[name].ask]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _get(tool: Tool, names: list[str], folders: Folders, say: Say) -> dict[str, Found]:
    slot = folders.binaries / tool.slot
    with held(slot.with_name(slot.name + ".lock"), lambda: say(f"another gpuyard is getting {tool.name}: waiting")):
        slot.mkdir(parents=True, exist_ok=True)
        _sweep(slot)
        wanted = [name for name in names if not (slot / name).exists()]
        if wanted:
            _download_or_build(tool, wanted, slot, folders, say)
    return {name: Found(slot / name, tool.version, "cache") for name in names}


def _sweep(slot: Path) -> None:
    """Remove what a killed run left half written; we hold the lock, so nobody is writing now."""
    for leftover in slot.glob(f"*{PARTIAL}"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


def _download_or_build(tool: Tool, names: list[str], slot: Path, folders: Folders, say: Say) -> None:
    try:
        for name in names:
            _download(tool, name, slot, say)
    except SandboxError as refused:
        say(f"{tool.name} {tool.version}: {refused.step}: {refused.problem}")
        rest = [name for name in names if not (slot / name).exists()]
        try:
            _build(tool, rest, slot, folders, say)
        except SandboxError as failed:
            raise _NowhereError(refused, failed) from failed


def _download(tool: Tool, name: str, slot: Path, say: Say) -> None:
    def fetch(partial: Path) -> None:
        with partial.open("wb") as target:
            releases.download(tool, name, target, say)
        partial.chmod(0o755)
        if not is_version(_ask(partial, tool, name), tool.version):
            raise SandboxError(f"download of {name}", f"what arrived does not say that it is {tool.version}")

    _place(slot / name, fetch)


def _build(tool: Tool, names: list[str], slot: Path, folders: Folders, say: Say) -> None:
    workshop = slot / f"build{PARTIAL}"
    workshop.mkdir()
    try:
        golang.build(tool, names, workshop, folders, say)
        for name in names:
            _place(slot / name, (workshop / name).rename)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _place(path: Path, make: Callable[[Path], object]) -> None:
    """Make the file under another name, and give it its own only when it is whole and on the disk."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        make(partial)
        _sync(partial)
        partial.rename(path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _nowhere(lacking: Mapping[str, Tool], nowhere: _NowhereError) -> SandboxError:
    names: dict[str, list[str]] = {}
    for name, tool in lacking.items():
        names.setdefault(tool.version, []).append(name)
    missing = ", ".join(f"{', '.join(group)} {version}" for version, group in names.items())
    refused, failed = nowhere.refused, nowhere.failed
    # Without Go there was no build, whose log and remedy would help.
    built = not isinstance(failed, golang.ToolchainError)
    return SandboxError(
        "binaries",
        f"missing are {missing}: {next(iter(lacking))} can be neither downloaded ({refused.step}: {refused.problem}) "
        f"nor built ({failed.step}: {failed.problem}); put them into a folder and name it with {SETTING}=FOLDER, "
        f"or give this machine access to the release pages or to a Go module proxy and pip's package index.",
        log=failed.log if built else (),
        remedy=failed.remedy if built else "",
    )
