"""Requests that nobody meant, to the port itself: each is answered in form, none breaks anything, none is believed.

`mutations.py` makes them from real calls, `fuzzing.py` says what is wrong after one. A request that shows a fault is
written to build/fuzz_found.json: make it as small as possible and put it into fuzz_kept.json; those come first.
"""

import asyncio
import random

import pytest

from tests.extender.fuzzing import FOUND, Finding, calls, findings, fuzzed, keep, kept
from tests.extender.mutations import Attempt, Mutator

COUNTS = [2_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


@pytest.mark.row("X-93")
@pytest.mark.parametrize("attempt", kept(), ids=lambda attempt: attempt.name)
async def test_a_request_that_once_showed_a_fault_shows_none(attempt: Attempt) -> None:
    assert not [str(finding) for finding in await findings([attempt])]


@pytest.fixture(scope="module", params=COUNTS)
def found(request: pytest.FixtureRequest) -> list[Finding]:
    made = asyncio.run(fuzzed(request.param))
    if made:
        keep((finding.attempt for finding in made), FOUND)
    return made


def of_kind(kind: str, found: list[Finding]) -> str:
    return "\n".join(str(finding) for finding in found if finding.kind == kind)


@pytest.mark.chance
@pytest.mark.row("X-94", case="answered")
def test_each_answer_is_in_the_form_of_its_verb_or_refuses_what_is_no_call(found: list[Finding]) -> None:
    assert not of_kind("answer", found)


@pytest.mark.chance
@pytest.mark.row("X-94", case="logged")
def test_no_request_ends_in_an_error_in_the_log(found: list[Finding]) -> None:
    assert not of_kind("log", found)


@pytest.mark.chance
@pytest.mark.row("X-94", case="ledger")
def test_no_request_leaves_a_reservation_or_a_fact_that_no_watch_has_shown(found: list[Finding]) -> None:
    assert not of_kind("ledger", found)


@pytest.mark.chance
@pytest.mark.row("X-94", case="bound")
def test_no_request_makes_the_extender_ask_the_api_server_for_anything_but_the_binding_of_a_pod(
    found: list[Finding],
) -> None:
    assert not of_kind("path", found)


def test_the_same_seed_gives_the_same_requests() -> None:
    first, second = (Mutator(random.Random(7), list(calls())) for _ in range(2))
    assert [first.attempt() for _ in range(50)] == [second.attempt() for _ in range(50)]


def test_a_request_is_kept_as_it_was_sent(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("kept") / "kept.json"
    sent = [Attempt("all bytes", (bytes(range(256)), b""), ("filter",), cut=True)]
    keep(sent, file)
    assert kept(file) == sent
