"""The node image: kind's own where it can be pulled, else one built here, from programs and Debian's packages alone.

The built one gets a name of ours with a hash of all that went in, so an engine that has it needs no build.

Decided in docs/decisions.md: "The node image is one Dockerfile".
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox import binaries, golang, tools
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import debian
from gpuyard.sandbox.kind.archive import write_image
from gpuyard.sandbox.locks import held

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.kind.docker import Docker
    from gpuyard.sandbox.kind.engines import Engine
    from gpuyard.sandbox.releases import Say

RECIPES = Path(__file__).parent / "images"
OFFICIAL = "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"
BUILT = "gpuyard.io/node"
PYTHON = "gpuyard.io/python"
NETWORK = "gpuyard.io/pod-network"

# Programs beside the image's own runtime, and programs that a node runs by their well-known path.
RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr", "crictl")
NODE = ("kubeadm", "kubectl", "kubelet")
# One image each: the program, and the image's name; kubeadm asks for these.
COMPONENTS = {
    "kube-apiserver": "registry.k8s.io/kube-apiserver:{kubernetes}",
    "kube-controller-manager": "registry.k8s.io/kube-controller-manager:{kubernetes}",
    "kube-scheduler": "registry.k8s.io/kube-scheduler:{kubernetes}",
    "etcd": "registry.k8s.io/etcd:{etcd}-0",
    "coredns": "registry.k8s.io/coredns/coredns:{coredns}",
}
PROGRAMS = (*RUNTIME, *NODE, *COMPONENTS, "kube-proxy")


def node(engine: Engine, folders: Folders, say: Say) -> str:
    """The name of a node image that the engine holds; it is pulled or built if need be."""
    docker = engine.docker
    built = f"{BUILT}:{kubernetes()}-{_key()}"
    for image in (built, OFFICIAL):
        if docker.has(image):
            return image
    # An engine of our own may withhold a capability that the official image counts on.
    if not engine.private:
        say(f"pulling {OFFICIAL.partition('@')[0]}")
        if docker.pull(OFFICIAL):
            return OFFICIAL
    say("building a node image, since none can be pulled")
    parts = _parts(docker, folders, say)
    with _building(folders, say):
        if not docker.has(built):
            _build(docker, built, parts, folders.root / "kind" / "build", say)
            if engine.private:
                _forget_others(docker, built)
    return built


def python(docker: Docker, folders: Folders, say: Say) -> str:
    """The name of a base image with Debian's Python, built if need be."""
    recipe = RECIPES / "python"
    base = debian.base(docker, folders, say)
    key = hashlib.sha256(base.encode() + (recipe / "Dockerfile").read_bytes()).hexdigest()[:12]
    image = f"{PYTHON}:{key}"
    with _building(folders, say):
        if not docker.has(image):
            say("building a base image with Debian's Python")
            docker.build(recipe, image, base=base)
    return image


def _building(folders: Folders, say: Say) -> AbstractContextManager[None]:
    """Be the only one that builds: of an image that is built twice, one is left without a name."""
    return held(folders.root / "kind" / "images.lock", lambda: say("another gpuyard is building images: waiting"))


def kubernetes() -> str:
    """The version of Kubernetes that the node runs."""
    return tools.catalogue()["kubelet"].version


def references() -> dict[str, str]:
    """Program: name of its image."""
    catalogue = tools.catalogue()
    versions = {
        "kubernetes": kubernetes(),
        "etcd": catalogue["etcd"].version.removeprefix("v"),
        "coredns": catalogue["coredns"].version,
    }
    return {program: template.format(**versions) for program, template in COMPONENTS.items()}


def _key() -> str:
    catalogue = tools.catalogue()
    digest = hashlib.sha256()
    for slot in sorted({catalogue[name].slot for name in (*PROGRAMS, "kind")}):
        digest.update(slot.encode())
    for recipe in sorted(path for path in RECIPES.rglob("*") if path.is_file()):
        digest.update(recipe.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Parts:
    """What a node image is made of: a base image, programs by name, and the files of kind's own base."""

    base: str
    programs: Mapping[str, Path]
    kind_files: Path


def _parts(docker: Docker, folders: Folders, say: Say) -> Parts:
    with ThreadPoolExecutor(1) as beside:
        # The base waits for the network, the programs for the processor.
        base = beside.submit(debian.base, docker, folders, say)
        programs = {name: found.path for name, found in binaries.ensure(PROGRAMS, folders, say).items()}
        kind = golang.source(tools.catalogue()["kind"], "sigs.k8s.io/kind", folders, say)
    return Parts(base.result(), programs, kind / "images" / "base" / "files")


def _build(docker: Docker, image: str, parts: Parts, work: Path, say: Say) -> None:
    shutil.rmtree(work, ignore_errors=True)
    try:
        network = _network_context(work / "network", parts.programs)
        docker.build(network, f"{NETWORK}:v1", base=parts.base)
        say("node image: pod network built")
        context = _node_context(work / "node", network, parts)
        docker.ask("save", "--output", str(context / "images" / "network.tar"), f"{NETWORK}:v1")
        say("node image: programs packed; installing Debian packages (about a minute)")
        docker.build(context, image, base=parts.base, kubernetes=kubernetes())
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _network_context(context: Path, programs: Mapping[str, Path]) -> Path:
    shutil.copytree(RECIPES / "network", context)
    _copy(programs, ["kube-proxy"], context)
    return context


def _node_context(context: Path, network: Path, parts: Parts) -> Path:
    shutil.copytree(RECIPES / "node", context)
    _copy_plain(parts.kind_files, context / "kind-files")
    _copy(parts.programs, RUNTIME, context / "bin" / "local")
    _copy(parts.programs, NODE, context / "bin" / "node")
    shutil.copy(network / "pod-network.yaml", context / "manifests" / "default-cni.yaml")
    (context / "images").mkdir()
    for program, reference in references().items():
        # CoreDNS is started by its path, as in its official image; the others are looked up.
        target = "coredns" if program == "coredns" else f"usr/local/bin/{program}"
        files = {target: parts.programs[program]}
        write_image(context / "images" / f"{program}.tar", reference, files, tools.architecture(), [f"/{target}"])
    return context


def _copy(programs: Mapping[str, Path], names: Iterable[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(programs[name], folder / name)


def _copy_plain(source: Path, target: Path) -> None:
    """Copy a tree of Go's module cache, where nothing is executable: what lies in a `bin` has to be."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        place.chmod(0o755 if place.parent.name == "bin" else 0o644)


def _forget_others(docker: Docker, image: str) -> None:
    """Remove node images of earlier recipes, and the layers that no image is made of any more."""
    docker.ask("image", "prune", "--force")
    for other in docker.lines("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", BUILT):
        if other != image:
            with contextlib.suppress(SandboxError):  # a cluster still runs on it
                docker.ask("image", "rm", other)
