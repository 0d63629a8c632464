"""A port with certificates on both sides, shown by real handshakes: who is let in, and what changes while it serves."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trustme
from aiohttp import ClientConnectionError, ClientSession
from gpuyard.cli import issuing
from gpuyard.common.settings import SettingsError
from gpuyard.common.tls import AUTHORITY, CERTIFICATE, KEY, Identity
from gpuyard.extender.http.connection import Connection, Reply, Route
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server
from prometheus_client import CollectorRegistry

from tests.extender.builders import anybody
from tests.extender.callers import call, calling, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERVER = "server.example"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def folder(authority: trustme.CA, tmp_path: Path) -> Path:
    return put(tmp_path, authority)


def put(
    folder: Path, authority: trustme.CA, trusted: trustme.CA | None = None, expires: datetime | None = None
) -> Path:
    """Make a new certificate for the server; `trusted` signs those of callers."""
    made = authority.issue_cert(SERVER, not_after=expires)
    (folder / CERTIFICATE).write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    (folder / KEY).write_bytes(made.private_key_pem.bytes())
    (folder / AUTHORITY).write_bytes((trusted or authority).cert_pem.bytes())
    return folder


def caller(server: trustme.CA, own: trustme.CA | None = None) -> ssl.SSLContext:
    """What somebody calls with who trusts one authority and has a certificate of the other, if any."""
    context = ssl.create_default_context()
    server.configure_trust(context)
    if own:
        own.issue_cert("caller@example").configure_cert(context)
    return context


@asynccontextmanager
async def serving(identity: Identity) -> AsyncIterator[tuple[Server, int]]:
    """The verbs' port, which is the one with certificates."""

    async def slowly() -> Reply:
        await asyncio.sleep(0.05)
        return Reply(b"served")

    gate = anybody()
    gate.by_certificate = True
    server = Server([], VerbMetrics(CollectorRegistry()), gate)
    server.routes = {"/": Route(lambda _body: slowly(), lambda why: Reply(why.encode()), from_memory=False)}
    async with server.listening(0, "127.0.0.1", tls=identity.context) as port:
        yield server, port


async def called(port: int, context: ssl.SSLContext, name: str | None = SERVER) -> str:
    """What a new connection is answered."""
    async with (
        ClientSession() as session,
        session.post(f"https://127.0.0.1:{port}/", ssl=context, server_hostname=name) as answer,
    ):
        return await answer.text()


async def certificate(port: int, context: ssl.SSLContext) -> bytes | None:
    """What a new connection is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=SERVER)
    shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.close()
    await asyncio.sleep(0.01)
    return shown.getpeercert(binary_form=True)


async def test_who_has_a_certificate_of_the_authority_is_served(authority: trustme.CA, folder: Path) -> None:
    async with serving(Identity(folder)) as (_, port):
        assert await called(port, caller(authority, authority)) == "served"


@pytest.mark.parametrize("own", [None, trustme.CA()], ids=["none", "another-authority"])
async def test_who_has_none_or_another_is_not(authority: trustme.CA, folder: Path, own: trustme.CA | None) -> None:
    async with serving(Identity(folder)) as (_, port):
        with pytest.raises(ClientConnectionError):
            await called(port, caller(authority, own))


@pytest.mark.row("X-28")
async def test_connections_count_before_their_handshake_is_over_and_of_too_many_the_oldest_goes(
    authority: trustme.CA, folder: Path
) -> None:
    context = caller(authority, authority)
    async with serving(Identity(folder)) as (server, port), AsyncExitStack() as stack:
        server.max_connections = 3
        known = await stack.enter_async_context(calling(port, context))
        silent = [await stack.enter_async_context(calling(port)) for _ in range(3)]
        async with asyncio.timeout(5):  # less than a handshake may take
            assert await silent[0].is_left()
        assert (len(server.connections), len(server.handshakes)) == (1, 2)
        await known.say(call("/"))
        assert (await known.heard())[2] == b"served"
        late = await stack.enter_async_context(calling(port, context))
        await late.say(call("/"))
        assert (await late.heard())[2] == b"served"
        assert await silent[1].is_left()
        assert (len(server.connections), len(server.handshakes)) == (2, 1)


@pytest.mark.row("X-28")
async def test_where_all_have_certificates_who_connects_last_is_refused(authority: trustme.CA, folder: Path) -> None:
    async with serving(Identity(folder)) as (server, port):
        server.max_connections = 1
        async with calling(port, caller(authority, authority)) as known, calling(port) as late:
            assert await late.is_left()
            await known.say(call("/"))
            assert (await known.heard())[2] == b"served"


async def test_a_connection_is_not_counted_twice_when_its_handshake_is_over(
    authority: trustme.CA, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Identity(folder)) as (server, port):
        counted, came = [], server.came

        def noting(connection: Connection) -> None:
            came(connection)
            counted.append((len(server.connections), len(server.handshakes)))

        monkeypatch.setattr(server, "came", noting)
        assert await called(port, caller(authority, authority)) == "served"
        assert counted == [(1, 0)]


async def test_a_handshake_that_fails_or_is_given_up_counts_no_longer(folder: Path) -> None:
    async with serving(Identity(folder)) as (server, port):
        async with calling(port) as nonsense, calling(port):
            await eventually(lambda: len(server.handshakes) == 2)
            await nonsense.say(b"POST / HTTP/1.1\r\n\r\n")
            await eventually(lambda: len(server.handshakes) == 1)
        await eventually(lambda: not server.handshakes)


async def test_who_names_no_server_is_served_too(authority: trustme.CA, folder: Path) -> None:
    context = caller(authority, authority)
    context.check_hostname = False
    async with serving(Identity(folder)) as (_, port):
        assert await called(port, context, name="") == "served"


async def test_a_new_certificate_is_shown_from_the_next_handshake_on(authority: trustme.CA, folder: Path) -> None:
    identity = Identity(folder)
    context = caller(authority, authority)
    async with serving(identity) as (_, port):
        before = await certificate(port, context)
        assert await certificate(port, context) == before
        put(folder, authority)
        identity.poll()
        after = await certificate(port, context)
        assert after != before
        context.check_hostname = False
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="")
        assert writer.get_extra_info("ssl_object").getpeercert(binary_form=True) == after
        writer.close()


async def test_connections_that_stand_go_on_while_certificates_change(authority: trustme.CA, folder: Path) -> None:
    identity = Identity(folder)
    context = caller(authority, authority)
    async with serving(identity) as (_, port), ClientSession() as session:
        for _ in range(10):
            calls = [
                session.post(f"https://127.0.0.1:{port}/", ssl=context, server_hostname=SERVER),
                session.post(f"https://127.0.0.1:{port}/", ssl=caller(authority, authority), server_hostname=SERVER),
            ]
            answers = asyncio.gather(*calls)
            put(folder, authority)
            identity.poll()
            assert [await answer.text() for answer in await answers] == ["served", "served"]


async def test_callers_of_another_authority_are_let_in_once_it_is_trusted_and_the_old_ones_no_longer(
    authority: trustme.CA, folder: Path
) -> None:
    identity, other = Identity(folder), trustme.CA()
    async with serving(identity) as (_, port):
        put(folder, authority, trusted=other)
        identity.poll()
        assert await called(port, caller(authority, other)) == "served"
        with pytest.raises(ClientConnectionError):
            await called(port, caller(authority, authority))


async def test_a_session_is_never_resumed_so_that_every_connection_shows_a_certificate(
    authority: trustme.CA, folder: Path
) -> None:
    context = caller(authority, authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(Identity(folder)) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=SERVER)
        session = writer.get_extra_info("ssl_object").session
        writer.close()
        assert not session.has_ticket


# --- when it runs out ---


def test_it_is_known_when_our_certificate_and_the_last_of_the_authorities_run_out(tmp_path: Path) -> None:
    soon, later = datetime(2027, 3, 1, tzinfo=UTC), datetime(2036, 3, 1, tzinfo=UTC)
    authority = issuing.authority("one", soon - issuing.AUTHORITY_LIFE)
    following = issuing.authority("another", later - issuing.AUTHORITY_LIFE)
    ours = issuing.leaf(authority, "us", issuing.SERVER, (SERVER,), soon - timedelta(days=20) - issuing.LIFE)
    for name, pem in ours.pems(authority.certificate, following.certificate).items():
        (tmp_path / name).write_bytes(pem)
    ends = {CERTIFICATE: (soon - timedelta(days=20)).timestamp(), AUTHORITY: later.timestamp()}
    assert Identity(tmp_path).ends == ends


def test_with_a_new_certificate_another_day_holds(authority: trustme.CA, folder: Path) -> None:
    identity = Identity(folder)
    before = identity.ends[CERTIFICATE]
    put(folder, authority, expires=datetime(2030, 1, 1, tzinfo=UTC))
    assert identity.ends[CERTIFICATE] == before
    identity.poll()
    assert identity.ends[CERTIFICATE] == datetime(2030, 1, 1, tzinfo=UTC).timestamp()


# --- what cannot be used ---


def broken(folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", [CERTIFICATE, KEY, AUTHORITY])
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"\xff\xfe"], ids=["gone", "empty", "nonsense", "no-text"])
def test_a_folder_that_cannot_be_used_is_refused_at_the_start(folder: Path, name: str, content: bytes | None) -> None:
    broken(folder, name, content)
    with pytest.raises(SettingsError, match=str(folder)):
        Identity(folder)


async def test_a_key_of_another_certificate_changes_nothing_and_is_told_once(
    authority: trustme.CA, folder: Path
) -> None:
    told: list[str] = []
    identity = Identity(folder, refused=told.append)
    (folder / KEY).write_bytes(authority.issue_cert(SERVER).private_key_pem.bytes())
    for _ in range(3):
        identity.poll()
    async with serving(identity) as (_, port):
        assert await called(port, caller(authority, authority)) == "served"
    assert len(told) == 1
    assert "the last good certificates stay in force" in told[0]


def test_a_problem_that_went_and_came_again_is_told_again(authority: trustme.CA, folder: Path) -> None:
    told: list[str] = []
    identity = Identity(folder, refused=told.append)
    for _ in range(2):
        (folder / KEY).unlink()
        identity.poll()
        put(folder, authority)
        identity.poll()
    assert len(told) == 2
    assert "`gpuyard certificates` makes it" in told[0]


async def test_it_looks_by_itself(authority: trustme.CA, folder: Path) -> None:
    changed = asyncio.Event()
    identity = Identity(folder, changed=lambda _: changed.set())
    identity.interval = 0.01
    task = asyncio.create_task(identity.run())
    put(folder, authority)
    await asyncio.wait_for(changed.wait(), 30)
    task.cancel()


class Torn(Identity):
    """A folder that somebody writes to between two looks at it."""

    def _read(self) -> tuple[bytes, ...]:
        found = super()._read()
        (self._folder / AUTHORITY).write_bytes(found[-1] + b"\n")
        return found


def test_what_changes_while_it_is_read_is_not_taken(folder: Path) -> None:
    with pytest.raises(SettingsError, match="changes while it is read"):
        Torn(folder)
