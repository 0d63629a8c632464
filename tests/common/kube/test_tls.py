"""Whom we trust, and who we are, shown by real handshakes."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from gpuyard.common.kube.tls import client_context


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def server_context(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@asynccontextmanager
async def serving(context: ssl.SSLContext, seen: Callable[[object], None] = lambda _: None) -> AsyncIterator[int]:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen(writer.get_extra_info("peercert"))
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def greeted(port: int, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        return await reader.readline()
    finally:
        writer.close()
        await asyncio.sleep(0.01)


async def test_the_given_authority_is_trusted(authority: trustme.CA) -> None:
    async with serving(server_context(authority)) as port:
        assert await greeted(port, client_context(pem(authority))) == b"hello\n"


async def test_another_authority_is_not(authority: trustme.CA) -> None:
    async with serving(server_context(authority)) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await greeted(port, client_context(pem(trustme.CA())))


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA) -> None:
    async with serving(server_context(authority, "elsewhere.example")) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await greeted(port, client_context(pem(authority)))


async def test_verification_can_be_switched_off_on_demand(authority: trustme.CA) -> None:
    async with serving(server_context(authority, "elsewhere.example")) as port:
        assert await greeted(port, client_context(verify=False)) == b"hello\n"


async def test_a_client_certificate_is_presented_and_left_nowhere_on_disk(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    identity = authority.issue_cert("robot@example.com")
    certificate = b"".join(blob.bytes() for blob in identity.cert_chain_pems).decode()
    ours = client_context(pem(authority), certificate, identity.private_key_pem.bytes().decode())
    assert list(tmp_path.iterdir()) == []
    theirs = server_context(authority)
    theirs.verify_mode = ssl.CERT_REQUIRED
    theirs.load_verify_locations(cadata=pem(authority))
    seen: list[object] = []
    async with serving(theirs, seen.append) as port:
        assert await greeted(port, ours) == b"hello\n"
    assert "robot@example.com" in str(seen[0])


def signed(name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, issuer: str) -> x509.Certificate:
    """A certificate as old tools made them: without key identifiers."""
    now = dt.datetime.now(dt.UTC)
    titles = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)]) for title in (name, issuer)]
    builder = x509.CertificateBuilder(titles[1], titles[0], key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
    builder = builder.add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
    if name != issuer:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(by, hashes.SHA256())


@pytest.fixture(scope="module")
def old_fashioned(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    """An authority without a key identifier, and a server with a certificate of it."""
    root_key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = signed("old", root_key, root_key, "old")
    leaf = signed("server", leaf_key, root_key, "old")
    file = tmp_path_factory.mktemp("old") / "server.pem"
    secret = leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(leaf.public_bytes(Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return root.public_bytes(Encoding.PEM).decode(), context


async def test_an_authority_without_key_identifier_is_trusted_although_python_313_would_not(
    old_fashioned: tuple[str, ssl.SSLContext],
) -> None:
    authority, theirs = old_fashioned
    strict = ssl.create_default_context(cadata=authority)
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    async with serving(theirs) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="Key Identifier"):
            await greeted(port, strict)
        assert await greeted(port, client_context(base=strict)) == b"hello\n"
