"""What a sandbox shall be: the values that `up` makes true."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


def checked(name: str) -> str:
    """The name of a sandbox, which becomes the name of a folder: ValueError for one that could lead elsewhere."""
    if not NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} is not made of lower-case letters, digits and inner dashes")
    return name


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted cluster.

    `scheduler_config` is a KubeSchedulerConfiguration; the sandbox fills in how to reach the API server, and
    `extender_url` as the address of its extenders. Raises ValueError when a value cannot be.
    """

    name: str = "default"
    nodes: int = 4
    gpus: int = 8
    scheduler_config: Path | None = None
    extender_url: str = ""
    audit_policy: Path | None = None
    api_server_flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no cluster can be."""
        checked(self.name)
        for field in ("nodes", "gpus"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field}: {getattr(self, field)} is less than 0")
        if self.extender_url and self.scheduler_config is None:
            raise ValueError("extender_url: needs a scheduler_config that has extenders")
