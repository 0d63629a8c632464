"""Writes an image of single programs as an archive that any engine loads: no engine, no base and no registry needed.

The same content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PATH = "PATH=/usr/local/bin:/usr/bin:/bin:/"


def write_image(
    archive: Path, reference: str, programs: Mapping[str, Path], architecture: str, entrypoint: Sequence[str] = ()
) -> None:
    """Write an image named `reference` that holds `programs` (path inside: file here) and nothing else."""
    layer = archive.with_suffix(".layer")
    try:
        _write_layer(layer, programs)
        write_system(archive, reference, layer, architecture, Entrypoint=list(entrypoint))
    finally:
        layer.unlink(missing_ok=True)


def write_system(archive: Path, reference: str, layer: Path, architecture: str, **settings: Sequence[str]) -> None:
    """Write an image named `reference` of a file system, which `layer` holds as a plain tar."""
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    config = _config(digest, architecture, settings)
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": [f"{digest}.tar"]}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        _add(tar, name, config)
        tar.add(layer, f"{digest}.tar", filter=_plain)


def _write_layer(layer: Path, programs: Mapping[str, Path]) -> None:
    with tarfile.open(layer, "w") as tar:
        for target, program in sorted(programs.items()):
            tar.add(program, target.lstrip("/"), filter=_plain)


def _config(layer: str, architecture: str, settings: Mapping[str, Sequence[str]]) -> bytes:
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [PATH], **settings},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }
    return json.dumps(config, sort_keys=True).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755
    return entry
