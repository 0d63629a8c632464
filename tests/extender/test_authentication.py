"""Who is answered: by token, by certificate, or anybody where that is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from gpuyard.common.tokens import PREVIOUS, TOKEN, authorization
from gpuyard.extender.http.authentication import (
    ANYBODY,
    KNOWN,
    NO_CERTIFICATES,
    NO_TOKENS,
    NOT_KNOWN,
    NOT_SHOWN,
    Gate,
    Standing,
    Tokens,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.common.extender_config import Authentication

ONE, TWO, THREE = "one" * 8, "two" * 8, "three" * 8


def put(folder: Path, token: str = ONE, previous: str = "") -> Path:
    (folder / TOKEN).write_text(token)
    if previous:
        (folder / PREVIOUS).write_text(previous)
    return folder


def gate(mode: Authentication = "token", tokens: Tokens | None = None) -> Gate:
    made = Gate(lambda: mode)
    made.tokens = tokens
    return made


@pytest.mark.row("X-20", case="token")
def test_a_caller_with_the_token_is_known(tmp_path: Path) -> None:
    asked = gate(tokens=Tokens(put(tmp_path)))
    assert asked.standing(authorization(ONE)) == KNOWN
    assert asked.problem() == ""


@pytest.mark.row("X-20", case="no-token")
def test_a_caller_without_a_token_is_told_where_it_belongs(tmp_path: Path) -> None:
    assert gate(tokens=Tokens(put(tmp_path))).standing(b"") == Standing(NOT_SHOWN)


@pytest.mark.row("X-20", case="wrong-token")
@pytest.mark.parametrize(
    "shown",
    [
        authorization(TWO),
        authorization(ONE)[:-1],
        authorization(ONE) + b"x",
        b"Basic",
        b"Bearer " + ONE.encode(),
        b"\xff",
    ],
)
def test_a_caller_with_another_header_is_refused(tmp_path: Path, shown: bytes) -> None:
    assert gate(tokens=Tokens(put(tmp_path))).standing(shown) == Standing(NOT_KNOWN)


@pytest.mark.row("X-21", case="accepted")
def test_the_token_before_is_accepted_and_the_one_before_that_is_not(tmp_path: Path) -> None:
    asked = gate(tokens=Tokens(put(tmp_path, TWO, ONE)))
    assert {asked.standing(authorization(each)) for each in (ONE, TWO)} == {KNOWN}
    assert asked.standing(authorization(THREE)).refusal == NOT_KNOWN


@pytest.mark.row("X-21", case="followed")
async def test_a_rotated_token_is_in_force_within_seconds_and_told(tmp_path: Path) -> None:
    changed = asyncio.Event()
    tokens = Tokens(put(tmp_path), changed=lambda _: changed.set())
    tokens.interval = 0.01
    task = asyncio.create_task(tokens.run())
    put(tmp_path, TWO, ONE)
    await asyncio.wait_for(changed.wait(), 30)
    await asyncio.sleep(0.05)
    task.cancel()
    assert {gate(tokens=tokens).standing(authorization(each)) for each in (ONE, TWO)} == {KNOWN}


def test_a_folder_that_can_no_longer_be_used_leaves_the_last_tokens_in_force(tmp_path: Path) -> None:
    told: list[str] = []
    tokens = Tokens(put(tmp_path), refused=told.append)
    put(tmp_path, "no token")
    for _ in range(3):
        tokens.poll()
    assert gate(tokens=tokens).standing(authorization(ONE)) == KNOWN
    assert len(told) == 1
    assert "the last good tokens stay in force" in told[0]


@pytest.mark.row("X-22", case="no-token-yet")
def test_without_a_token_nobody_is_answered_until_one_comes(tmp_path: Path) -> None:
    told: list[str] = []
    tokens = Tokens(tmp_path, refused=told.append)
    asked = gate(tokens=tokens)
    for shown in (b"", b"Basic Og==", authorization(ONE)):
        assert asked.standing(shown) == Standing(NO_TOKENS)
    assert "`gpuyard certificates token` makes it" in asked.problem()
    assert len(told) == 1
    put(tmp_path)
    tokens.poll()
    assert asked.standing(authorization(ONE)) == KNOWN
    assert asked.problem() == ""


def test_without_a_folder_nobody_is_answered_either() -> None:
    assert gate().standing(b"") == Standing(NO_TOKENS)
    assert gate().problem() == NO_TOKENS


def test_with_certificates_whoever_comes_through_is_known() -> None:
    asked = gate()
    asked.by_certificate = True
    assert asked.standing(b"") == KNOWN
    assert asked.problem() == ""


@pytest.mark.row("X-22", case="mtls-without-certificates")
def test_certificates_that_are_asked_for_without_tls_let_nobody_in() -> None:
    assert gate("mtls").standing(authorization(ONE)) == Standing(NO_CERTIFICATES)
    assert gate("mtls").problem() == NO_CERTIFICATES


@pytest.mark.row("X-23", case="answered")
def test_where_nothing_is_asked_for_anybody_is_answered_and_nobody_is_known() -> None:
    assert gate("none").standing(b"") == ANYBODY
    assert not ANYBODY.known
    assert gate("none").problem() == ""
