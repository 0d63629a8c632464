"""Where the certificates are kept: three Secrets in the cluster, and a folder for a kube-scheduler that reads files.

Each run makes what is missing and renews what runs out, and may be repeated, also by several at once.
"""

import base64
import datetime as dt
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from gpuyard.cli import issuing
from gpuyard.cli.inventory import GPUYARD, INSTANCE, PART_OF
from gpuyard.cli.issuing import CLIENT, SERVER, Issued, Pems
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import SECRETS
from gpuyard.common.version import __version__

AUTHORITY = "gpuyard-authority"
EXTENDER, SCHEDULER = "gpuyard-extender-tls", "gpuyard-scheduler-tls"
SERVICE = "gpuyard-extender"
ATTEMPTS = 5
TLS, OPAQUE = "kubernetes.io/tls", "Opaque"


@dataclass(frozen=True)
class End:
    """One end of the connection: its Secret, its name, and what its certificate is for."""

    secret: str
    name: str
    purpose: x509.ObjectIdentifier
    hosts: tuple[str, ...] = ()


def ends(namespace: str) -> tuple[End, End]:
    """The extender, by every name that its Service has; kube-scheduler."""
    hosts = tuple(f"{SERVICE}{suffix}" for suffix in ("", f".{namespace}", f".{namespace}.svc"))
    return End(EXTENDER, SERVICE, SERVER, hosts), End(SCHEDULER, "gpuyard-scheduler", CLIENT)


class Secrets:
    """The Secrets of a namespace; nothing is written over what somebody else wrote meanwhile."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def found(self, name: str) -> tuple[Pems, str] | None:
        """What a Secret holds, and its version."""
        try:
            seen = await self._client.get(SECRETS.named(name, self._namespace))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        data = {key: base64.b64decode(value) for key, value in (seen.get("data") or {}).items()}
        return data, seen["metadata"]["resourceVersion"]

    async def write(self, name: str, data: Pems, version: str, kind: str) -> bool:
        """Write a Secret, unless it is not of that version any more; without a version it is made."""
        body = _secret(name, self._namespace, data, version, kind)
        try:
            if version:
                await self._client.update(SECRETS.named(name, self._namespace), body)
            else:
                await self._client.create(SECRETS.within(self._namespace), body)
        except ApiError as error:
            if error.conflict or error.already_exists:
                return False
            raise
        return True


class Keeper:
    """One run: looks, and makes or renews; says what it does."""

    def __init__(self, client: Client, namespace: str, say: Callable[[str], None], now: dt.datetime) -> None:
        self._secrets = Secrets(client, namespace)
        self._namespace = namespace
        self._say = say
        self._now = now

    async def keep(self, *, renew: bool = False) -> Pems:
        """Have all three in force, with `renew` both ends anew; kube-scheduler's files."""
        authority = await self._authority()
        extender, scheduler = ends(self._namespace)
        await self._end(extender, authority, renew=renew)
        return await self._end(scheduler, authority, renew=renew)

    async def _authority(self) -> Issued:
        for _ in range(ATTEMPTS):
            found = await self._secrets.found(AUTHORITY)
            why = "there is none" if found is None else self._why_new(found[0])
            if found and not why:
                return issuing.read(found[0])
            made = issuing.authority(GPUYARD, self._now)
            if await self._secrets.write(AUTHORITY, made.pems(), found[1] if found else "", TLS):
                self._say(f"secret {self._namespace}/{AUTHORITY}: made, {why}; good until {_day(made)}")
        raise issuing.UnreadableError(f"secret {self._namespace}/{AUTHORITY}: others write it again and again")

    def _why_new(self, found: Mapping[str, bytes]) -> str:
        """Why the authority has to be made anew; empty: it will do. One that cannot be read is left to people."""
        try:
            return "it runs out soon" if issuing.read(found).until - self._now < issuing.LIFE else ""
        except issuing.UnreadableError as error:
            raise issuing.UnreadableError(f"secret {self._namespace}/{AUTHORITY}: {error}") from None

    async def _end(self, end: End, by: Issued, *, renew: bool) -> Pems:
        for _ in range(ATTEMPTS):
            found = await self._secrets.found(end.secret)
            held = found[0] if found else None
            why = issuing.why_new(held, by, end.hosts, self._now) or ("so it was asked" if renew else "")
            if held is not None and not why:
                self._say(f"secret {self._namespace}/{end.secret}: good until {_day(issuing.read(held))}")
                return held
            made = issuing.leaf(by, end.name, end.purpose, end.hosts, self._now)
            pems = made.pems(by.certificate)
            if await self._secrets.write(end.secret, pems, found[1] if found else "", TLS):
                self._say(f"secret {self._namespace}/{end.secret}: made, {why}; good until {_day(made)}")
                return pems
        raise issuing.UnreadableError(f"secret {self._namespace}/{end.secret}: others write it again and again")


def _secret(name: str, namespace: str, content: Pems, version: str, kind: str) -> Json:
    labels = {"app.kubernetes.io/name": GPUYARD, PART_OF: GPUYARD, INSTANCE: "extender"}
    meta: Json = {"name": name, "namespace": namespace, "labels": labels | {"app.kubernetes.io/version": __version__}}
    if version:
        meta["resourceVersion"] = version
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": data}


def _day(issued: Issued) -> str:
    return f"{issued.until:%Y-%m-%d}"


def save(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a folder so that nobody ever reads a new key beside an old certificate.

    As kubelet does it: the names are links into a folder behind one more link, and that one is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "..data"
    before = current.resolve() if current.is_symlink() else None
    _link(current, _written(folder, files).name)
    for name in files:
        if not (folder / name).is_symlink():
            _link(folder / name, f"{current.name}/{name}")
    if before and before.parent == folder.resolve() and before.is_dir():
        _remove(before)


def _written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """The files in a new folder within the folder, for their owner alone."""
    fresh = folder / f"..{secrets.token_hex(8)}"
    fresh.mkdir(mode=0o700)
    for name, content in files.items():
        handle = os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    return fresh


def _link(link: Path, target: str) -> None:
    """Make a link, also in the place of what has that name, in one step."""
    coming = link.with_name("..coming")
    coming.unlink(missing_ok=True)
    coming.symlink_to(target)
    coming.replace(link)


def _remove(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
