"""Renders the manifests that are applied without a checkout: what `make manifests` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpuyard.sandbox import binaries
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.tools import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuyard.sandbox.releases import Say

MANIFESTS = Path(__file__).parents[3] / "manifests"
SOURCES: Mapping[str, str] = {
    "install.yaml": "overlays/default-scheduler",
    "install-mock.yaml": "base/mock",
    "install-mock-kwok.yaml": "overlays/kwok",
}
"""Each rendered file, and the kustomization that it comes from."""

HEADING = "# Rendered from manifests/{source} by `make manifests`; change it there.\n"


def render(folders: Folders, say: Say) -> dict[str, str]:
    """What each rendered file should hold."""
    found = binaries.ensure(("kubectl",), folders, say, tools=catalogue(system=sys.platform))
    kubectl = found["kubectl"].path
    return {name: HEADING.format(source=source) + _kustomize(kubectl, source) for name, source in SOURCES.items()}


def _kustomize(kubectl: Path, source: str) -> str:
    done = subprocess.run([kubectl, "kustomize", MANIFESTS / source], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SandboxError(f"kubectl kustomize manifests/{source}", "failed", log=done.stderr.splitlines())
    return done.stdout


@click.command()
def main() -> None:
    """Write every rendered file anew."""
    try:
        rendered = render(Folders.of_user(), Progress())
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    for name, text in rendered.items():
        (MANIFESTS / name).write_text(text)
        click.echo(f"manifests/{name}")


if __name__ == "__main__":
    main()
