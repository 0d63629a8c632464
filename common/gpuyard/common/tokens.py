"""The token by which kube-scheduler proves to the extender who calls.

kube-scheduler can send no header of our choice. It does send the userinfo of its `urlPrefix` as Basic authentication,
and Go prints `***` for it when a call fails. So the token stands there: `http://gpuyard:TOKEN@10.96.0.77:8080/scheduler`.
"""

import base64
import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from gpuyard.common.settings import SettingsError

SECRET = "gpuyard-extender-token"  # noqa: S105 - a name
USER = "gpuyard"
TOKEN, PREVIOUS = "token", "previous"
"""Keys of the Secret, and files of the folder where it is mounted. Both are accepted: kube-scheduler reads its
configuration only at its start, so that for a while it still sends the previous one."""

REMEDY = "`gpuyard certificates token` makes it"

_USABLE = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_USERINFO = re.compile(r"(?<=://)[^\s/@]+@")


def new() -> str:
    """A token that nobody can guess, of characters that need no quoting in an address."""
    return secrets.token_hex(32)


def authorization(token: str) -> bytes:
    """The header that an HTTP client sends for an address with this token."""
    return b"Basic " + base64.b64encode(f"{USER}:{token}".encode())


def with_token(url: str, token: str) -> str:
    """The address with the token as userinfo, in the place of any that it has."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{USER}:{token}@{parts.netloc.rpartition('@')[2]}").geturl()


def masked(text: str) -> str:
    """A text in which no address shows its userinfo."""
    return _USERINFO.sub("***@", text)


def read(folder: Path) -> tuple[str, ...]:
    """The tokens of a folder, the current one first; raises `SettingsError`, which names files and no token."""
    found = [_token(folder / TOKEN)]
    if (folder / PREVIOUS).exists():
        found.append(_token(folder / PREVIOUS))
    return tuple(found)


def _token(file: Path) -> str:
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}; {REMEDY}") from None
    except UnicodeDecodeError:
        text = ""
    if not _USABLE.fullmatch(text):
        raise SettingsError(f"{file}: no token of 16 to 256 letters, digits, or any of . _ ~ -; {REMEDY}")
    return text
