"""Reads kubeconfig files into an `Access`; what needs a plugin to log in is left to kubernetes-asyncio."""

import base64
import binascii
import contextlib
import ipaddress
import ssl
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml
from gpuyard.common.kube.access import Access, Authorization
from gpuyard.common.kube.errors import AccessError
from gpuyard.common.kube.login import Credentials, log_in
from gpuyard.common.kube.tls import client_context
from gpuyard.common.shallow import ShallowLoader

T = TypeVar("T")

_LOCAL = ("localhost", "127.0.0.1", "::1")


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(default="", name="as")


class _Context(msgspec.Struct, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = "default"


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User = msgspec.field(default_factory=_User)


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


async def load(paths: Sequence[Path], context: str = "") -> Access:
    """The access that `context` (or the current one) means; what several files name, the first one decides.

    Raises `AccessError`.
    """
    files = [(path, _parse(path)) for path in paths if path.exists() or len(paths) == 1]
    name = context or next((file.current_context for _, file in files if file.current_context), "")
    _, chosen = _find("context", name, [(path, e.name, e.context) for path, file in files for e in file.contexts or ()])
    home, cluster = _find(
        "cluster", chosen.cluster, [(path, e.name, e.cluster) for path, file in files for e in file.clusters or ()]
    )
    if not cluster.server:
        raise AccessError(f"{home}: cluster {chosen.cluster!r} names no server")
    user_home, user = home, _User()
    if chosen.user:
        users = [(path, e.name, e.user) for path, file in files for e in file.users or ()]
        user_home, user = _find("user", chosen.user, users)
    if user.impersonate:
        raise AccessError(f"{user_home}: `as` (impersonation) is not supported; use a user that has the rights itself")
    if user.exec or user.auth_provider:
        # The context may stand in another file than the user.
        credentials = await log_in([path for path, _ in files], name)
    else:
        credentials = _credentials(user_home, user)
    return Access(
        server=cluster.server.rstrip("/"),
        tls=_tls(home, cluster, credentials),
        authorization=credentials.authorization,
        namespace=chosen.namespace,
        server_name=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or _proxy_of_environment(cluster.server),
        origin=f"{home}, context {name}",
    )


def _parse(path: Path) -> _File:
    try:
        content = yaml.load(path.read_bytes(), ShallowLoader) or {}  # noqa: S506 - it makes no more than the safe one
        return msgspec.convert(content, _File)
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}; name a kubeconfig with --kubeconfig FILE or KUBECONFIG") from None
    except yaml.YAMLError as error:
        raise AccessError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise AccessError(f"{path}: not a kubeconfig: {error}") from None
    except (ValueError, AttributeError) as error:
        # What looks like a date and is none: 2026-13-45.
        raise AccessError(f"{path}: not YAML: {error}") from None


def _find(what: str, name: str, candidates: list[tuple[Path, str, T]]) -> tuple[Path, T]:
    for path, known, item in candidates:
        if known == name:
            return path, item
    names = ", ".join(sorted({known for _, known, _ in candidates})) or "none"
    raise AccessError(f"the kubeconfig has no {what} {name!r}; known: {names}; choose one with --context")


def _credentials(home: Path, user: _User) -> Credentials:
    """Who we are, from the first kind of credentials that the user entry has itself."""
    certificate = _pem(home, user.client_certificate, user.client_certificate_data, "client-certificate")
    key = _pem(home, user.client_key, user.client_key_data, "client-key")
    return Credentials(_authorization(home, user), certificate, key)


def _authorization(home: Path, user: _User) -> Authorization:
    if user.token:
        return Authorization.fixed(f"Bearer {user.token}")
    if user.token_file:
        return Authorization.token_file(home.parent / user.token_file)
    if user.username:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return Authorization.fixed(f"Basic {pair}")
    return Authorization.fixed("")


def _tls(home: Path, cluster: _Cluster, credentials: Credentials) -> ssl.SSLContext | None:
    if not cluster.server.startswith("https:"):
        return None
    authority = _pem(home, cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority")
    try:
        return client_context(
            authority, credentials.certificate, credentials.key, verify=not cluster.insecure_skip_tls_verify
        )
    except ssl.SSLError as error:
        raise AccessError(f"{home}: the certificates cannot be used: {error}; fetch a new kubeconfig") from None


def _proxy_of_environment(server: str) -> str | None:
    """What HTTPS_PROXY and NO_PROXY say, as kubectl reads them: this machine itself is never behind a proxy."""
    address = urlsplit(server)
    host = address.hostname or ""
    proxies = urllib.request.getproxies()
    if host in _LOCAL or urllib.request.proxy_bypass(host) or _in_a_network(host, proxies.get("no", "")):
        return None
    return proxies.get(address.scheme)


def _in_a_network(host: str, no_proxy: str) -> bool:
    """Whether the host is an address in one of the networks of NO_PROXY, which urllib takes for names."""
    for entry in no_proxy.split(","):
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _pem(home: Path, file: str, data: str, field: str) -> str:
    """The PEM text of a field that exists as a path, relative to the kubeconfig, and as inline base64, which wins."""
    try:
        if data:
            return base64.b64decode(data, validate=True).decode()
        return (home.parent / file).read_text() if file else ""
    except (binascii.Error, UnicodeDecodeError):
        raise AccessError(f"{home}: {field}-data is not base64 of a PEM text") from None
    except OSError as error:
        raise AccessError(f"{home}: {field}: {home.parent / file}: {error.strerror}") from None
