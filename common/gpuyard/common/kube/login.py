"""Who we are to the API server, also where only a plugin or an OIDC provider can tell (clusters of the big clouds)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.common.kube.access import Authorization
from gpuyard.common.kube.errors import AccessError

PLUGIN_LIFETIME = 300.0
"""Seconds after which a plugin is asked again; the shortest-lived tokens of the big clouds last 15 minutes."""


@dataclass(frozen=True)
class Credentials:
    """A token to send, or a certificate to present, or both."""

    authorization: Authorization
    certificate: str = ""
    key: str = ""


async def log_in(kubeconfigs: Sequence[Path], context: str) -> Credentials:
    """Run the exec plugin or OIDC refresh that the kubeconfigs name, read as one.

    This is kubernetes-asyncio's part: it knows the plugin protocol, and costs 40 MiB that only who needs it pays.
    """
    files = os.pathsep.join(map(str, kubeconfigs))
    first = await _ask(files, context)
    fresh = [first.token]

    async def fetch() -> str:
        return fresh.pop() if fresh else (await _ask(files, context)).token

    return Credentials(Authorization(fetch, PLUGIN_LIFETIME), first.certificate, first.key)


@dataclass(frozen=True)
class _Answer:
    token: str
    certificate: str
    key: str


async def _ask(files: str, context: str) -> _Answer:
    from kubernetes_asyncio import config  # noqa: PLC0415  # 40 MiB
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415

    told = Configuration()
    try:
        await config.load_kube_config(files, context=context or None, client_configuration=told)
    except (config.ConfigException, OSError, AssertionError, ValueError, KeyError) as error:
        raise AccessError(
            f"{files}, context {context}: the login plugin failed: {error}; does `kubectl get nodes` work with it?"
        ) from None
    pems = (Path(file).read_text() if file else "" for file in (told.cert_file, told.key_file))  # noqa: ASYNC240
    return _Answer(told.api_key.get("BearerToken", ""), *pems)
