"""The token by which the extender knows kube-scheduler: what one is, where it stands, where it never shows."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from gpuyard.common import tokens
from gpuyard.common.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "0123456789abcdef"


def put(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_no_two_tokens_are_the_same_and_each_is_one(tmp_path: Path) -> None:
    made = {tokens.new() for _ in range(100)}
    assert len(made) == 100
    for each in made:
        assert tokens.read(put(tmp_path, token=each)) == (each,)


def test_the_header_is_basic_authentication() -> None:
    scheme, _, content = tokens.authorization(GOOD).partition(b" ")
    assert (scheme, base64.b64decode(content)) == (b"Basic", b"gpuyard:" + GOOD.encode())


@pytest.mark.parametrize("before", ["http://10.96.0.77:8080/scheduler", "http://gpuyard:old@10.96.0.77:8080/scheduler"])
def test_in_an_address_it_takes_the_place_of_the_one_before(before: str) -> None:
    assert tokens.with_token(before, "new") == "http://gpuyard:new@10.96.0.77:8080/scheduler"


@pytest.mark.parametrize("text", ["http://gpuyard:secret@h/p", "x https://gpuyard:secret@h, y", "http://secret@h"])
def test_a_masked_text_shows_no_userinfo(text: str) -> None:
    assert "secret" not in tokens.masked(text)
    assert "//***@h" in tokens.masked(text)


def test_a_folder_holds_the_one_in_force_and_the_one_before(tmp_path: Path) -> None:
    assert tokens.read(put(tmp_path, token=f"{GOOD}\n", previous=GOOD[::-1])) == (GOOD, GOOD[::-1])


@pytest.mark.parametrize("text", ["", "short", "with a space in the middle", f"{GOOD}@{GOOD}", "ü" * 20, "x" * 257])
@pytest.mark.parametrize("name", ["token", "previous"])
def test_what_is_no_token_is_named_by_its_file_and_not_shown(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path, token=GOOD)
    put(tmp_path, **{name: text})
    with pytest.raises(SettingsError, match=str(tmp_path / name)) as refusal:
        tokens.read(tmp_path)
    assert not text or text not in str(refusal.value)


def test_a_folder_without_a_token_is_told_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"`gpuyard certificates token` makes it"):
        tokens.read(tmp_path)
