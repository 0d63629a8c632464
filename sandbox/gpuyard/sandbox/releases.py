"""Gets a program from its project's own release page, if that page answers at once."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import urlsplit

from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.client import HTTPResponse

    from gpuyard.sandbox.tools import Tool

ANSWER_WITHIN = 2.0
STALLED_AFTER = 30.0
CHUNK = 1 << 20


class Say(Protocol):
    """Takes a sentence about what is going on."""

    def __call__(self, text: str, /) -> None:
        """Show the sentence."""


def download(tool: Tool, binary: str, target: BinaryIO, say: Say) -> None:
    """Write the released program to `target`, checked against its publisher's checksum where there is one.

    Raises SandboxError when there is no release page, or it does not answer, breaks off, or gives something else.
    """
    if tool.release is None:
        raise SandboxError(f"download of {binary}", "no project publishes it")
    url = tool.fill(tool.release.url, binary)
    with _step(f"download of {url}"):
        content = _fetch(url, say)
        if tool.release.checksum:
            _verify(content, _fetch(tool.fill(tool.release.checksum, binary), say), url)
        else:
            say(f"{url} could not be checked: its publisher gives no checksum")
        member = tool.fill(tool.release.member, binary)
        target.write(_unpack(content, member) if member else content)


@contextlib.contextmanager
def _step(step: str) -> Iterator[None]:
    try:
        yield
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SandboxError(step, getattr(reason, "strerror", None) or str(reason)) from error


def _fetch(url: str, say: Say) -> bytes:
    with _open(url) as response:
        size = int(response.headers.get("Content-Length") or 0)
        if size > 10 * CHUNK:
            say(f"downloading {url} ({size >> 20} MiB)")
        content = io.BytesIO()
        while chunk := response.read(CHUNK):
            content.write(chunk)
    if size and content.tell() != size:
        raise OSError(f"the answer broke off after {content.tell()} of {size} bytes")
    return content.getvalue()


def _open(url: str) -> HTTPResponse:
    """The page's answer; the time limit covers name resolution, too, which no socket timeout does."""
    outcome: list[HTTPResponse | Exception] = []
    given_up = threading.Event()

    def run() -> None:
        try:
            response = urllib.request.urlopen(url, timeout=STALLED_AFTER)  # noqa: S310 - tool.toml names https only
        except urllib.error.HTTPError as error:
            error.close()
            outcome.append(error)
        except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
            outcome.append(error)
        else:
            outcome.append(response)
            if given_up.is_set():
                response.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ANSWER_WITHIN)
    if not outcome:
        given_up.set()
        raise OSError(f"{urlsplit(url).netloc} gave no answer within {ANSWER_WITHIN:.0f} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _verify(content: bytes, checksums: bytes, url: str) -> None:
    """Accept `<digest>` alone, or the line `<digest>  <file>` of a list."""
    name = url.rsplit("/", 1)[-1]
    lines = [line.split() for line in checksums.decode().splitlines() if line.strip()]
    wanted = next((line[0] for line in lines if len(line) == 1 or line[1].lstrip("*") == name), None)
    if wanted != hashlib.sha256(content).hexdigest():
        raise ValueError("the checksum does not match")


def _unpack(archive: bytes, member: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = files.extractfile(member)
        if found is None:
            raise KeyError(f"{member} is no file")
        return found.read()
