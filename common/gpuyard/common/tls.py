"""TLS on a port of ours: who we are, and whose certificates we accept. Both may change while we serve.

The folder holds `tls.crt`, `tls.key` and `ca.crt`, as kubelet mounts such a Secret. Each handshake uses what was there
at the last look; connections that stand already go on. What cannot be used never replaces what could.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from gpuyard.common.settings import SettingsError

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"

Content = tuple[bytes, ...]
Ends = Mapping[str, float]
"""When certificates run out, in seconds since 1970, by file."""


class Identity:
    """Our certificate, and the authority of those who may call; `context` is what a port listens with.

    `ends` says when what is in force runs out.
    """

    def __init__(
        self,
        folder: Path,
        *,
        changed: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda _: None,
        interval: float = 2,
    ) -> None:
        """Read the folder for the first time; raises `SettingsError`, since nothing good is in force yet."""
        self._folder = folder
        self._changed = changed
        self._refused = refused
        self._interval = interval
        self._problem = ""
        self._seen, self.ends, self._current = self._load()
        self.context = self._current
        self.context.sni_callback = self._present

    async def run(self) -> NoReturn:
        """Follow the folder until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            self.poll()

    def poll(self) -> None:
        """Look once: `changed` is told of new certificates, `refused` of each new problem, once."""
        try:
            if self._read() == self._seen:
                self._problem = ""
                return
            self._seen, self.ends, self._current = self._load()
        except SettingsError as error:
            if str(error) != self._problem:
                self._refused(f"{error}; the last good certificates stay in force")
            self._problem = str(error)
            return
        self._problem = ""
        self._changed()

    def _present(self, handshake: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        """OpenSSL asks this at each handshake, whether the caller names a server or not."""
        handshake.context = self._current

    def _load(self) -> tuple[Content, Ends, ssl.SSLContext]:
        """The files, until when they are good, and the context made of them."""
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
        return before, ends, context

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
