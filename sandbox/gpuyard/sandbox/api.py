"""The few requests that the sandbox itself sends to its API server."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import msgspec
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

CONFLICT = 409
ERRORS = 400


class Api:
    """One connection to the API server, as the sandbox's administrator."""

    def __init__(self, port: int, token: str, authority: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        # The certificate that the API server makes for itself lacks a key identifier that newer Pythons insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __enter__(self) -> Self:
        """Use it in a `with` block, which closes the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a collection."""
        return list(self._send("GET", path)["items"])

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object, unless it is there."""
        self._send("POST", path, body, fine=CONFLICT)

    def delete_all(self, path: str) -> None:
        """Delete every object of a collection."""
        self._send("DELETE", path)

    def _send(self, method: str, path: str, body: object = None, fine: int = 0) -> Any:  # noqa: ANN401 - JSON
        content = msgspec.json.encode(body) if body is not None else None
        try:
            self._connection.request(method, path, content, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise SandboxError(
                f"{method} {path}", f"the API server does not answer: {error}",
                remedy="`gpuyard sandbox status` names its log; `gpuyard sandbox up` starts it again.",
            ) from error  # fmt: skip
        if response.status >= ERRORS and response.status != fine:
            raise SandboxError(
                f"{method} {path}", f"the API server refuses: {response.status} {answer.decode()[:300]}",
                remedy="Take back what was given with --api-server-flag or --audit-policy, or begin anew with `down`.",
            )  # fmt: skip
        return msgspec.json.decode(answer)


def healthy(url: str) -> bool:
    """Whether a health page of this machine says yes; its certificate is not looked at."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # The environment may name a proxy: it does not know this machine's loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with contextlib.suppress(OSError, http.client.HTTPException), opener.open(url, timeout=2):
        return True
    return False
