"""The repository as its own tests see it: which files it has, and its Python read."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@cache
def files() -> tuple[Path, ...]:
    """Give every file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the user's git
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return tuple(path for path in sorted(paths) if path.is_file())


def python(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Read our own Python in these folders, or everywhere; what protoc has written is not ours."""
    for name, text in texts():
        generated = Path(name).stem.endswith(("_pb2", "_pb2_grpc"))
        if name.endswith(".py") and not generated and (not folders or name.startswith(tuple(f"{f}/" for f in folders))):
            yield name, ast.parse(text, name)


def named(path: Path) -> str:
    """Name a file as people do: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def texts() -> Iterator[tuple[str, str]]:
    """Give the name and content of every text file; one that is gone by now is no part of the repository."""
    for path in files():
        with suppress(UnicodeDecodeError, FileNotFoundError):
            yield named(path), path.read_text()


def project() -> dict[str, Any]:
    """Read pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def components() -> list[str]:
    """Name the folders that hold a part of the distribution."""
    return sorted(path.parent.name for path in ROOT.glob("*/gpuyard") if path.is_dir())
