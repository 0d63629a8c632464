"""The way to a cluster: server, trust, credentials; found in a kubeconfig or inside a pod."""

import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuyard.common.kube.errors import AccessError
from gpuyard.common.kube.tls import client_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Authorization:
    """The Authorization header, fetched anew when it is older than `lifetime` seconds or after `forget`."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[str]],
        lifetime: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._lifetime = lifetime
        self._clock = clock
        self._value: str | None = None
        self._fetched = 0.0

    @classmethod
    def fixed(cls, value: str) -> "Authorization":
        """A header that never changes; empty: none is sent."""

        async def fetch() -> str:
            return value

        return cls(fetch)

    @classmethod
    def token_file(cls, path: Path, clock: Callable[[], float] = time.monotonic) -> "Authorization":
        """A bearer token in a file that somebody renews, as kubelet does; read again once a minute."""

        async def fetch() -> str:
            return f"Bearer {_read(path, 'token')}"

        return cls(fetch, 60, clock)

    async def header(self) -> dict[str, str]:
        """What to send with a request."""
        if self._value is None or self._clock() - self._fetched > self._lifetime:
            self._value = await self._fetch()
            self._fetched = self._clock()
        return {"Authorization": self._value} if self._value else {}

    def forget(self) -> None:
        """The server did not accept it: fetch it anew for the next request."""
        self._value = None


@dataclass(frozen=True)
class Access:
    """All that a client needs to know to talk to one cluster."""

    server: str
    tls: ssl.SSLContext | None = None
    authorization: Authorization = field(default_factory=lambda: Authorization.fixed(""))
    namespace: str = "default"
    server_name: str | None = None
    proxy: str | None = None
    origin: str = ""
    """Where this was found, for messages."""


async def find_access(
    kubeconfig: str = "", context: str = "", environ: Mapping[str, str] = os.environ, mount: Path = SERVICE_ACCOUNT
) -> Access:
    """The way to the cluster: the given kubeconfig, else `KUBECONFIG`, else this pod's account, else `~/.kube/config`.

    Raises `AccessError`, which says what was looked for and what would do.
    """
    if files := _kubeconfigs(kubeconfig, environ, mount):
        from gpuyard.common.kube.kubeconfig import load  # noqa: PLC0415  # a pod has no use for YAML

        return await load(files, context)
    return in_cluster(environ, mount)


def _kubeconfigs(kubeconfig: str, environ: Mapping[str, str], mount: Path) -> list[Path]:
    """The files to read, none inside a pod."""
    if named := kubeconfig or environ.get("KUBECONFIG", ""):
        return [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    if "KUBERNETES_SERVICE_HOST" in environ and (mount / "token").exists():
        return []
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return [home]
    raise AccessError(
        f"no cluster to talk to: KUBECONFIG is not set, {home} does not exist and this is not a pod; "
        "name one with --kubeconfig FILE, or start one with `gpuyard sandbox up`"
    )


def in_cluster(environ: Mapping[str, str], mount: Path = SERVICE_ACCOUNT) -> Access:
    """The way that kubelet prepares for a pod: its service account's token, renewed on disk, and the cluster's CA."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    bracketed = f"[{host}]" if ":" in host else host
    namespace = mount / "namespace"
    return Access(
        server=f"https://{bracketed}:{port}",
        tls=client_context(_read(mount / "ca.crt", "certificate authority")),
        authorization=Authorization.token_file(mount / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        origin=str(mount),
    )


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise AccessError(
            f"{path}: cannot read the {what}: {error.strerror}; does the pod mount its service account's token?"
        ) from None
