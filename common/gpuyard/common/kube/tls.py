"""TLS towards the API server: whom we trust, and who we are."""

import os
import ssl
import tempfile
from pathlib import Path


def client_context(
    authority: str = "",
    certificate: str = "",
    key: str = "",
    *,
    verify: bool = True,
    base: ssl.SSLContext | None = None,
) -> ssl.SSLContext:
    """A context from PEM texts; without `authority` the system's authorities are trusted."""
    context = base or ssl.create_default_context(cadata=authority or None)
    # From Python 3.13 on the default refuses authorities without a key identifier, which many clusters still have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _present(context, certificate, key)
    return context


def _present(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a client certificate; OpenSSL reads files only, so one exists for that moment, readable by us alone."""
    handle, name = tempfile.mkstemp(prefix="gpuyard-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{certificate.rstrip()}\n{key.rstrip()}\n")
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
