"""The sandbox's own requests: what the API server refuses, and where nobody answers, becomes one kind of error."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
import trustme
from gpuyard.sandbox.api import Api, healthy
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server(HTTPServer):
    """An HTTPS server on the loopback address that gives one answer and remembers what it was asked."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answer: tuple[int, object] = (200, {})
        self.asked: list[tuple[str, str, str, bytes]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization", ""), body))
        status, content = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    with Server(authority.issue_cert("127.0.0.1")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server, tmp_path: Path) -> Iterator[Api]:
    with Api(server.server_port, "secret", tmp_path / "ca.crt") as api:
        yield api


def test_no_proxy_is_asked_for_this_machines_own_health_pages(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert healthy(f"https://127.0.0.1:{server.server_port}/readyz")


def test_the_objects_of_a_collection_are_read_with_the_token(api: Api, server: Server) -> None:
    server.answer = (200, {"items": [{"kind": "Node"}]})
    assert api.items("/api/v1/nodes") == [{"kind": "Node"}]
    assert server.asked == [("GET", "/api/v1/nodes", "Bearer secret", b"")]


def test_an_object_that_is_there_already_is_as_good_as_created(api: Api, server: Server) -> None:
    server.answer = (409, {"reason": "AlreadyExists"})
    api.create("/api/v1/nodes", {"kind": "Node"})
    assert server.asked == [("POST", "/api/v1/nodes", "Bearer secret", b'{"kind":"Node"}')]


def test_a_collection_is_deleted_at_once(api: Api, server: Server) -> None:
    api.delete_all("/leases")
    assert server.asked == [("DELETE", "/leases", "Bearer secret", b"")]


def test_a_refusal_tells_the_request_and_the_answer(api: Api, server: Server) -> None:
    server.answer = (403, {"message": "no rights"})
    with pytest.raises(SandboxError, match=r"GET /api/v1/nodes: the API server refuses: 403 .*no rights") as no:
        api.items("/api/v1/nodes")
    assert "--api-server-flag" in no.value.remedy


def test_silence_tells_the_request(tmp_path: Path, server: Server) -> None:
    del server
    with Api(9, "secret", tmp_path / "ca.crt") as api, pytest.raises(SandboxError, match="does not answer") as silence:
        api.items("/api/v1/nodes")
    assert "`gpuyard sandbox status` names its log" in silence.value.remedy


def test_a_server_with_another_certificate_is_not_believed(server: Server, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.crt")
    with Api(server.server_port, "secret", tmp_path / "other.crt") as api, pytest.raises(SandboxError, match="CERT"):
        api.items("/api/v1/nodes")
    assert server.asked == []


@pytest.mark.parametrize(("status", "answer"), [(200, True), (500, False)])
def test_a_health_page_says_yes_or_no(server: Server, status: int, *, answer: bool) -> None:
    server.answer = (status, {})
    assert healthy(f"https://127.0.0.1:{server.server_port}/readyz") is answer


def test_where_nobody_listens_nothing_is_healthy() -> None:
    assert healthy("http://127.0.0.1:9/healthz") is False
