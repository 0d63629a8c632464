"""What comes from Debian's packages: the base of every image where no registry gives one, and single programs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.tools import architecture

if TYPE_CHECKING:
    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.kind.docker import Docker
    from gpuyard.sandbox.releases import Say

SUITE = "bookworm"
MOUNTS = Path("/proc/mounts")
UNUSED = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
# The program that a package is installed for.
PACKAGES = {"dockerd": "docker.io", "iptables": "iptables", "debootstrap": "debootstrap"}
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base(docker: Docker, folders: Folders, say: Say, arch: str = "") -> str:
    """The base image's name; it is made if the engine does not have it.

    For another processor than this machine's, `arch`, it holds Python too: nothing could be installed in it later.
    """
    arch = arch or architecture()
    image = f"gpuyard.io/debian:{SUITE}-{_key(arch)}"
    if not docker.has(image):
        docker.take_in(_archive(folders, say, arch), image, arch)
    return image


def install(programs: tuple[str, ...], say: Say) -> None:
    """Install the Debian packages of programs that are not on this machine."""
    packages = [PACKAGES[program] for program in programs if shutil.which(program, path=SYSTEM) is None]
    if packages:
        say(f"installing the Debian packages {', '.join(packages)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        _run(["apt-get", "update", "-q"], environment)
        _run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages], environment)


def unpack(package: str, folder: Path) -> None:
    """Put a package's files into a folder. Nothing is installed: apt keeps lists of its own, so no root is needed."""
    if shutil.which("apt-get", path=SYSTEM) is None:
        raise SandboxError(f"Debian package {package}", "there is no apt-get on this machine")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for part in ("lists/partial", "archives/partial"):
            (work / part).mkdir(parents=True)
        apt = ["apt-get", "-q", "-o", f"Dir::State={work}", "-o", f"Dir::Cache={work}"]
        _run([*apt, "update"])
        _run([*apt, "download", package], folder=work)
        for archive in work.glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(archive), str(folder)])


def can_install() -> bool:
    """Whether this is a Debian on which we may install packages."""
    return os.geteuid() == 0 and shutil.which("apt-get", path=SYSTEM) is not None


def _key(arch: str) -> str:
    return hashlib.sha256(repr((SUITE, _variant(arch), UNUSED, arch)).encode()).hexdigest()[:12]


def _variant(arch: str) -> list[str]:
    if arch == architecture():
        return ["--variant=minbase", "--include=ca-certificates"]
    return ["--variant=minbase", "--include=ca-certificates,python3", "--foreign", f"--arch={arch}"]


def _archive(folders: Folders, say: Say, arch: str) -> Path:
    archive = folders.root / "images" / f"{SUITE}-{_key(arch)}.tar"
    with held(archive.with_suffix(".lock"), lambda: say("another gpuyard is making the base image: waiting")):
        if not archive.exists():
            _make(archive, say, arch)
    return archive


def _make(archive: Path, say: Say, arch: str) -> None:
    if not can_install():
        raise SandboxError(
            "base image",
            "no registry gives one, and making one needs root on Debian",
            remedy="Let the Docker engine reach Docker Hub, or use `gpuyard sandbox up --ground processes`.",
        )
    install(("debootstrap",), say)
    say(f"making a base image of Debian {SUITE} packages for {arch} (about a minute)")
    folder = archive.with_suffix(".partial")
    _remove(folder)
    root = folder / "root"
    root.mkdir(parents=True)
    try:
        _run(["debootstrap", *_variant(arch), SUITE, str(root)])
        if arch != architecture():
            _unpack_all(root)
        for path in UNUSED:
            _empty(root / path)
        (root / "etc" / "machine-id").write_text("")
        partial = folder / "base.tar"
        _run(["tar", "--numeric-owner", "--sort=name", "-C", str(root), "-cf", str(partial), "."])
        partial.rename(archive)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove what a run makes, or one that was killed has left; then debootstrap's own mounts are in it."""
    mounts = [line.split()[1] for line in MOUNTS.read_text().splitlines()]
    for mount in reversed(mounts):
        if Path(mount).is_relative_to(folder):
            _run(["umount", "--lazy", mount])
    shutil.rmtree(folder, ignore_errors=True)


def _unpack_all(root: Path) -> None:
    """Unpack every package; their own set-up would have to run on the other processor, and Python runs without."""
    for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    shutil.rmtree(root / "debootstrap")


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _run(command: list[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> None:
    environment = {**(environment or os.environ), "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM}"}
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        log = (done.stdout + done.stderr).splitlines()[-LINES_SHOWN:]
        raise SandboxError(
            command[0],
            f"ended with status {done.returncode}",
            log=log,
            remedy="This machine must reach Debian's packages.",
        )
