"""Where the token is kept by which the extender knows kube-scheduler: a Secret, and a configuration of kube-scheduler.

Without a cluster both are files of one folder: kind reads the configuration before there is a cluster.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import yaml
from gpuyard.cli.issuing import Pems
from gpuyard.cli.keeping import ATTEMPTS, OPAQUE, Secrets
from gpuyard.common import tokens
from gpuyard.common.kube.client import Client
from gpuyard.sandbox.kind import config

CONFIG, SECRET_FILE = "config.yaml", "secret.yaml"
HEADING = "# Made by `gpuyard certificates token`. It holds a secret: only its owner may read it.\n"

_URL = re.compile(r"""^(\s*(?:-\s*)?urlPrefix:\s*["']?)(https?://[^\s"']+/scheduler/?)(?![^\s"'])""", re.MULTILINE)
_ADDRESS = "10.96.0.77"
_HOSTS = "gpuyard-"
_MARK = f"{tokens.USER}:TOKEN@"


class NoTokenError(ValueError):
    """A token that cannot be made or brought where it is needed; the text says why."""


class Keeper:
    """One run on a cluster: looks, and makes or rotates; says what it does, and never the token."""

    def __init__(self, client: Client, namespace: str, say: Callable[[str], None]) -> None:
        self._secrets = Secrets(client, namespace)
        self._about = f"secret {namespace}/{tokens.SECRET}"
        self._say = say

    async def keep(self, *, rotate: bool = False) -> str:
        """The token in force, made if there is none, with `rotate` made anew."""
        for _ in range(ATTEMPTS):
            found = await self._secrets.found(tokens.SECRET)
            held, version = found or ({}, "")
            if tokens.TOKEN in held and not rotate:
                self._say(f"{self._about}: it is there")
                return held[tokens.TOKEN].decode().strip()
            wanted = following(held)
            if await self._secrets.write(tokens.SECRET, wanted, version, OPAQUE):
                self._say(f"{self._about}: {told(wanted)}")
                return wanted[tokens.TOKEN].decode()
        raise NoTokenError(f"{self._about}: others write it again and again")


def following(held: Pems) -> Pems:
    """What the Secret holds after a new token was made: the one before goes on to be accepted."""
    before = {tokens.PREVIOUS: held[tokens.TOKEN]} if tokens.TOKEN in held else {}
    return {tokens.TOKEN: tokens.new().encode(), **before}


def told(wanted: Pems) -> str:
    """What was made, for people."""
    if tokens.PREVIOUS in wanted:
        return "a new token is made; the one before is accepted until the next is made"
    return "a token is made"


def save(folder: Path, token: str) -> str:
    """Write kube-scheduler's configuration with the token into a folder; what was done.

    Of one that is there only the address of our extender changes.
    """
    file = folder / CONFIG
    folder.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _write(file, HEADING + yaml.safe_dump(config.scheduler(token), sort_keys=False))
        return f"{file}: kube-scheduler's configuration, with the token"
    text = file.read_text()
    start, end = _ours(file, text)
    _write(file, text[:start] + tokens.with_token(text[start:end], token) + text[end:])
    return f"{file}: the token is in its urlPrefix; kube-scheduler reads it when it starts"


def _ours(file: Path, text: str) -> tuple[int, int]:
    """Where the address of our extender stands in a configuration; raises `NoTokenError` unless one fits."""
    found = [match.span(2) for match in _URL.finditer(text) if _is_ours(match[2])]
    if not found:
        raise NoTokenError(
            f"{file}: it has no urlPrefix that ends with /scheduler and is gpuyard's, which is known by the address "
            f"{_ADDRESS}, by a host that begins with {_HOSTS}, or by {_MARK} before the host; write {_MARK} there"
        )
    if len(found) > 1:
        lines = " and ".join(str(text.count("\n", 0, start) + 1) for start, _ in found)
        raise NoTokenError(
            f"{file}: the urlPrefix of several extenders could be gpuyard's, in lines {lines}; the token is written "
            "only where one fits: remove the others, or write the token by hand"
        )
    return found[0]


def _is_ours(url: str) -> bool:
    """Whether an address is that of our extender and not of another vendor's."""
    userinfo, _, host = url.split("/", 3)[2].rpartition("@")
    name = host.partition(":")[0]
    return name == _ADDRESS or name.startswith(_HOSTS) or userinfo.split(":")[0] == tokens.USER or "TOKEN" in userinfo


def offline(folder: Path, *, rotate: bool = False) -> list[str]:
    """Make both files in a folder, or keep the token that they have; what was done."""
    file = folder / SECRET_FILE
    held = _held(file) if file.exists() else {}
    wanted = held if held and not rotate else following(held)
    folder.mkdir(parents=True, exist_ok=True)
    token = wanted[tokens.TOKEN].decode()
    done = f"{file}: {told(wanted) if wanted is not held else 'the token is there'}; `kubectl apply -f` it"
    _write(file, HEADING + yaml.safe_dump_all(config.secret(wanted), sort_keys=False))
    return [done, save(folder, token)]


def _held(file: Path) -> Pems:
    """The tokens of a Secret in a file of ours."""
    try:
        data = list(yaml.safe_load_all(file.read_text()))[-1]["data"]
        return config.tokens_of(data)
    except (ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        raise NoTokenError(f"{file}: it holds no Secret with a token; remove it, and run this again") from None


def _write(file: Path, text: str) -> None:
    """Replace a file in one step by one that only its owner may read."""
    coming = file.with_name(f".{file.name}.coming")
    coming.unlink(missing_ok=True)
    with os.fdopen(os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    coming.replace(file)
