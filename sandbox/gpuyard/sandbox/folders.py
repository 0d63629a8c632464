"""Where the sandbox keeps things: one folder, outside of the repository and of anything else in the user's home."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SANDBOXES = "sandboxes"


@dataclass(frozen=True)
class Folders:
    """The layout of the cache folder."""

    root: Path

    @classmethod
    def of_user(cls) -> Folders:
        """`$XDG_CACHE_HOME/gpuyard`, or `~/.cache/gpuyard`."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(cache).resolve() / "gpuyard")

    @property
    def binaries(self) -> Path:
        """Finished binaries, one folder per tool and lock hash."""
        return self.root / "bin"

    @property
    def go(self) -> Path:
        """Go's toolchain, if we had to fetch it, and its module and build caches."""
        return self.root / "go"

    @property
    def sandboxes(self) -> Path:
        """One folder per cluster that is up."""
        return self.root / SANDBOXES
