"""TLS on a port of ours: who we are, and whose certificates we accept. Both may change while we serve.

The folder holds `tls.crt`, `tls.key` and `ca.crt`, as kubelet mounts such a Secret. Each handshake uses what was there
at the last look; connections that stand already go on. What cannot be used never replaces what could.
"""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuyard.common.following import Following
from gpuyard.common.settings import SettingsError

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"

Content = tuple[bytes, ...]
Ends = Mapping[str, float]
"""When certificates run out, in seconds since 1970, by file."""


class _Certificates(NamedTuple):
    """The files, until when they are good, and the context made of them."""

    content: Content
    ends: Ends
    context: ssl.SSLContext


class Identity(Following[_Certificates]):
    """Our certificate, and the authority of those who may call; `context` is what a port listens with."""

    what = "certificates"

    def __init__(
        self,
        folder: Path,
        *,
        changed: Callable[[object], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Read the folder for the first time; raises `SettingsError`, since nothing good is in force yet."""
        self._folder = folder
        super().__init__(self._load(), changed=changed, refused=refused)
        self.context = self.current.context
        self.context.sni_callback = self._present

    @property
    def ends(self) -> Ends:
        """When what is in force runs out."""
        return self.current.ends

    def read(self) -> _Certificates:
        """The certificates as they are now; the same ones while the files are the same."""
        return self.current if self._read() == self.current.content else self._load()

    def _present(self, handshake: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        """OpenSSL asks this at each handshake, whether the caller names a server or not."""
        handshake.context = self.current.context

    def _load(self) -> _Certificates:
        before = self._read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        # Whoever comes again shows a certificate again: a resumed session would show none.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=before[-1].decode("ascii"))
            context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY)
            ends = _ends(before)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise SettingsError(f"{self._folder}: not a certificate, its key and an authority: {error}") from None
        # OpenSSL reads by itself: what it read has to be what we remember.
        if self._read() != before:
            raise SettingsError(f"{self._folder}: changes while it is read")
        return _Certificates(before, ends, context)

    def _read(self) -> Content:
        try:
            return tuple((self._folder / name).read_bytes() for name in (CERTIFICATE, KEY, AUTHORITY))
        except OSError as error:
            raise SettingsError(f"{error.filename}: {error.strerror}; `gpuyard certificates` makes it") from None


def _ends(content: Content) -> Ends:
    """Of ours each has to be good; of several authorities, while one follows another, the last one will do."""
    from cryptography import x509  # noqa: PLC0415  # 8 MiB, of which an extender without certificates has no use

    own, authorities = (
        [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(pem)]
        for pem in (content[0], content[-1])
    )
    return {CERTIFICATE: min(own), AUTHORITY: max(authorities)}
