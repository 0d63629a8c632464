"""Certificates for the way from kube-scheduler to the extender: one authority, and one certificate for each end.

Made with ECDSA keys that leave this process only into Secrets. The authority signs nothing else, so whoever shows a
certificate of it for callers is kube-scheduler.

Decided in docs/decisions.md: "Certificates are made by a command of ours, with `cryptography`".
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from gpuyard.common.tls import AUTHORITY, CERTIFICATE, KEY

Pems = dict[str, bytes]
"""The content of a Secret: `tls.crt`, `tls.key`, for both ends also `ca.crt`."""

AUTHORITY_LIFE = dt.timedelta(days=3650)
LIFE = dt.timedelta(days=90)
RENEW_BEFORE = dt.timedelta(days=30)
# Clocks of two machines differ.
SKEW = dt.timedelta(minutes=10)

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

Key = ec.EllipticCurvePrivateKey


class UnreadableError(ValueError):
    """What should be a certificate and its key is not."""


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def until(self) -> dt.datetime:
        """The end of its time."""
        return self.certificate.not_valid_after_utc

    def pems(self, *trusted: x509.Certificate) -> Pems:
        """As the files of a Secret; with those who are trusted."""
        secret = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        texts = {CERTIFICATE: _pem(self.certificate), KEY: secret}
        return texts | ({AUTHORITY: b"".join(map(_pem, trusted))} if trusted else {})


def authority(name: str, now: dt.datetime) -> Issued:
    """A new authority."""
    key = _key()
    subject = _named(name)
    made = _begun(subject, subject, key, now, now + AUTHORITY_LIFE)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(signs_certificates=True), critical=True)
    return Issued(made.sign(key, hashes.SHA256()), key)


def leaf(by: Issued, name: str, end: x509.ObjectIdentifier, hosts: tuple[str, ...], now: dt.datetime) -> Issued:
    """A certificate for one end of the connection: `end` says which; it never outlives its authority."""
    key = _key()
    made = _begun(_named(name), by.certificate.subject, key, now, min(now + LIFE, by.until))
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs_certificates=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([end]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    made = made.add_extension(signer, critical=False)
    if hosts:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
    return Issued(made.sign(by.key, hashes.SHA256()), key)


def read(content: Mapping[str, bytes]) -> Issued:
    """What a Secret holds; raises `UnreadableError`."""
    try:
        certificate = x509.load_pem_x509_certificate(content[CERTIFICATE])
        key = serialization.load_pem_private_key(content[KEY], password=None)
    except (KeyError, ValueError, TypeError) as error:
        raise UnreadableError(f"it holds no certificate and key: {error}") from None
    if not isinstance(key, Key) or key.public_key() != certificate.public_key():
        raise UnreadableError("its key is not that of its certificate")
    return Issued(certificate, key)


def why_new(found: Mapping[str, bytes] | None, by: Issued, hosts: tuple[str, ...], now: dt.datetime) -> str:
    """Why a certificate has to be made anew; empty: it will do."""
    if found is None:
        return "there is none"
    try:
        held = read(found)
        held.certificate.verify_directly_issued_by(by.certificate)
    except UnreadableError as error:
        return str(error)
    except (ValueError, TypeError, InvalidSignature):
        return "it is of another authority"
    if found.get(AUTHORITY) != _pem(by.certificate):
        return "it trusts another authority"
    if _hosts(held.certificate) != hosts:
        return "it is for other names"
    return "it runs out soon" if held.until - now < RENEW_BEFORE and held.until < by.until else ""


def _key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: Key, now: dt.datetime, until: dt.datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - SKEW).not_valid_after(until)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(names.get_values_for_type(x509.DNSName))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
