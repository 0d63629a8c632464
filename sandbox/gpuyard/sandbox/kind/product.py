"""Builds the product image from a repository: wheels are fetched here, for the Python of the base, and unpacked there.

`python -m gpuyard.sandbox.kind.product [--arch arm64]` is what `make image` runs.

Decided in docs/decisions.md: "The product image unpacks wheels".
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpuyard.common.version import __version__
from gpuyard.sandbox import kind
from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError, told
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import debian, engines, images
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.tools import architecture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuyard.sandbox.kind.docker import Docker
    from gpuyard.sandbox.releases import Say

IMAGE = f"gpuyard.io/gpuyard:{__version__}"
CONTENT = "gpuyard.io/content"
PUBLIC_BASE = "python:3.13-slim-bookworm"
REPOSITORY = Path(__file__).parents[4]
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# A wheel says the oldest C library it runs on; the bases have 2.36.
C_LIBRARY = range(36, 16, -1)
ASK_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def build(docker: Docker, folders: Folders, say: Say, arch: str = architecture()) -> str:
    """Have the product image of this repository in the engine, and return its name."""
    with told("product image", f"Make {folders.root} writable, with room for 1 GB, and run the command again."):
        return _build(docker, folders, say, arch)


def _build(docker: Docker, folders: Folders, say: Say, arch: str) -> str:
    image = IMAGE if arch == architecture() else f"{IMAGE}-{arch}"
    content = _content(REPOSITORY, arch)
    if content in _labels(docker, image):
        return image
    builder, base = _bases(docker, folders, say, arch)
    version = docker.ask("run", "--rm", "--network", "none", builder, "python3", "-c", ASK_VERSION)
    context = folders.root / "kind" / "product"
    with held(context.with_suffix(".lock")):
        # What a run that was killed has left does not count.
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(_wheelhouse(folders, version, arch, say), context / "wheels")
        shutil.copy(REPOSITORY / "Dockerfile", context)
        _own_wheel(context / "wheels")
        say(f"product image: installing {len(list(context.glob('wheels/*')))} wheels")
        docker.build(context, image, {CONTENT: content}, base=base, builder=builder)
        shutil.rmtree(context)
        docker.ask("image", "prune", "--force", "--filter", f"label={CONTENT}")
    return image


def _bases(docker: Docker, folders: Folders, say: Say, arch: str) -> tuple[str, str]:
    """The image in which wheels are unpacked, and the one that the product is built on."""
    if arch == architecture() and (docker.has(PUBLIC_BASE) or docker.pull(PUBLIC_BASE)):
        return PUBLIC_BASE, PUBLIC_BASE
    builder = images.python(docker, folders, say)
    return builder, builder if arch == architecture() else debian.base(docker, folders, say, arch)


def platforms(arch: str) -> list[str]:
    """Pip's names for every kind of wheel that runs on the bases."""
    machine = MACHINES[arch]
    return [*(f"manylinux_2_{minor}_{machine}" for minor in C_LIBRARY), f"manylinux2014_{machine}"]


def _wheelhouse(folders: Folders, version: str, arch: str, say: Say) -> Path:
    """The folder with the wheels of everything that gpuyard needs; it is filled once for each lock."""
    lock = REPOSITORY / "requirements" / "base.txt"
    house = folders.root / "wheels" / f"{version}-{arch}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    with held(house.with_suffix(".lock")):
        if not house.exists():
            say(f"product image: fetching wheels for Python {version} on {arch}")
            partial = house.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            target = [word for name in platforms(arch) for word in ("--platform", name)]
            arguments = ["--only-binary=:all:", "--no-deps", "--require-hashes", "--python-version", version, *target]
            _pip("download", *arguments, "--requirement", str(lock), "--dest", str(partial))
            partial.rename(house)
    return house


def _own_wheel(wheels: Path) -> None:
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(REPOSITORY))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        log = done.stderr.splitlines()[-LINES_SHOWN:]
        remedy = "pip's package index must be reachable; the next run goes on from here."
        raise SandboxError(f"pip {arguments[0]}", f"ended with status {done.returncode}", log=log, remedy=remedy)


def _content(repository: Path, arch: str) -> str:
    """A hash of all that goes into the image."""
    files = [repository / name for name in ("Dockerfile", "pyproject.toml", "requirements/base.txt")]
    digest = hashlib.sha256(arch.encode())
    for file in sorted([*files, *_sources(repository)]):
        digest.update(str(file.relative_to(repository)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(repository: Path) -> Iterable[Path]:
    packages = repository.glob("*/gpuyard/*/**/*")
    return [path for path in packages if path.is_file() and "__pycache__" not in path.parts]


def _labels(docker: Docker, image: str) -> Sequence[str]:
    if not docker.has(image):
        return ()
    return docker.lines("image", "inspect", "--format", "{{range .Config.Labels}}{{println .}}{{end}}", image)


@click.command()
@click.option("--arch", type=click.Choice(list(MACHINES)), default=architecture(), show_default=True)
def main(arch: str) -> None:
    """Build the product image in the Docker engine that answers, or in the sandbox's own."""
    folders = Folders.of_user()
    say = Progress()
    try:
        with engines.borrowed(folders, say, lambda: kind.names(folders=folders)) as engine:
            image = build(engine.docker, folders, say, arch)
            size = int(engine.docker.ask("image", "inspect", "--format", "{{.Size}}", image))
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{image} ({size / 1e6:.0f} MB) is in {engine.docker.name}")


if __name__ == "__main__":
    main()
