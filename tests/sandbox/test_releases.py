"""Release pages, tried on a local one: what arrives whole and checked is taken, everything else is refused at once."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest
from gpuyard.sandbox import releases
from gpuyard.sandbox.errors import SandboxError

from tests.sandbox.workshop import ReleasePage, Said, serving, tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = b"a program"
DIGEST = hashlib.sha256(CONTENT).hexdigest().encode()


@pytest.fixture
def page() -> Iterator[ReleasePage]:
    with serving(ReleasePage({"/v1.2.3/thing": CONTENT})) as page:
        yield page


def fetch(home: Path, page: ReleasePage, *, checksum: str = "", member: str = "") -> bytes:
    thing = tool(home, "thing", url=page.url + "/{version}/{binary}", checksum=checksum, member=member)["thing"]
    target = io.BytesIO()
    releases.download(thing, "thing", target, Said())
    return target.getvalue()


def test_a_release_is_fetched_from_its_address(tmp_path: Path, page: ReleasePage) -> None:
    assert fetch(tmp_path, page) == CONTENT
    assert page.asked == ["/v1.2.3/thing"]


def test_a_tool_that_no_project_publishes_is_not_looked_for(tmp_path: Path) -> None:
    unpublished = msgspec.structs.replace(tool(tmp_path, "thing")["thing"], release=None)
    with pytest.raises(SandboxError, match="download of thing: no project publishes it"):
        releases.download(unpublished, "thing", io.BytesIO(), Said())


@pytest.mark.parametrize("checksums", [DIGEST, b"0000  other\n" + DIGEST + b"  thing\n", DIGEST + b" *thing\n"])
def test_a_release_that_fits_its_checksum_is_taken(tmp_path: Path, page: ReleasePage, checksums: bytes) -> None:
    page.files["/sums"] = checksums
    assert fetch(tmp_path, page, checksum=f"{page.url}/sums") == CONTENT


@pytest.mark.row("P-06")
@pytest.mark.parametrize("checksums", [b"0000", b"0000  thing", DIGEST + b"  other", b""])
def test_a_release_that_does_not_is_refused(tmp_path: Path, page: ReleasePage, checksums: bytes) -> None:
    page.files["/sums"] = checksums
    with pytest.raises(SandboxError, match="the checksum does not match"):
        fetch(tmp_path, page, checksum=f"{page.url}/sums")


@pytest.mark.row("P-06")
def test_a_release_without_a_checksum_is_said_to_be_unchecked(tmp_path: Path, page: ReleasePage) -> None:
    thing = tool(tmp_path, "thing", url=page.url + "/{version}/{binary}", checksum="", member="")["thing"]
    releases.download(thing, "thing", io.BytesIO(), said := Said())
    assert said.lines == [f"{page.url}/v1.2.3/thing could not be checked: its publisher gives no checksum"]


def test_a_program_is_taken_out_of_its_archive(tmp_path: Path, page: ReleasePage) -> None:
    page.files["/v1.2.3/thing"] = archive("thing-v1.2.3/thing")
    assert fetch(tmp_path, page, member="thing-{version}/{binary}") == CONTENT


def test_an_archive_without_the_program_is_refused(tmp_path: Path, page: ReleasePage) -> None:
    page.files["/v1.2.3/thing"] = archive("something/else")
    with pytest.raises(SandboxError, match="thing"):
        fetch(tmp_path, page, member="{binary}")


def test_an_answer_that_breaks_off_is_refused(tmp_path: Path, page: ReleasePage) -> None:
    page.cut_short = True
    with pytest.raises(SandboxError, match="broke off after 8 of 9 bytes"):
        fetch(tmp_path, page)


def test_a_release_that_does_not_exist_is_refused(tmp_path: Path, page: ReleasePage) -> None:
    page.files.clear()
    with pytest.raises(SandboxError, match=r"download of .*/v1.2.3/thing: .*Not Found"):
        fetch(tmp_path, page)


def test_a_page_that_does_not_answer_is_given_up_soon(
    tmp_path: Path, page: ReleasePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert releases.ANSWER_WITHIN == 2
    monkeypatch.setattr(releases, "ANSWER_WITHIN", 0.1)
    page.delay = threading.Event()
    begin = time.monotonic()
    with pytest.raises(SandboxError, match="gave no answer within"):
        fetch(tmp_path, page)
    assert time.monotonic() - begin < 2


def test_a_host_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="refused"):
        fetch(tmp_path, ReleasePage(url="http://127.0.0.1:9"))


def archive(member: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        entry = tarfile.TarInfo(member)
        entry.size = len(CONTENT)
        files.addfile(entry, io.BytesIO(CONTENT))
    return packed.getvalue()
