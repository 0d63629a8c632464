"""The real kube-scheduler and the token in its urlPrefix: who is answered, how it changes, where it never shows."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest
from gpuyard.common import tokens
from gpuyard.common.tokens import PREVIOUS, TOKEN
from gpuyard.extender.http.authentication import NOT_KNOWN, NOT_SHOWN
from gpuyard.sandbox import files
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, extender_token, set_up, start_extender
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.lifecycle import down

from tests.cluster.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

SCHEDULER = "kube-scheduler"
OTHER = tokens.new()


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A sandbox of its own, whose kube-scheduler shows the token that `set_up` made; nothing of it is to be seen."""
    name = next(sandbox_names)
    try:
        made = Yard(set_up(name, print), "default")
        made.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


@pytest.fixture
def folder(yard: Yard) -> Iterator[Path]:
    """Where the extender reads its tokens; afterwards they are those of before."""
    where = yard.cluster.folder / files.EXTENDER_TOKEN
    yield where
    put(where, extender_token(yard.cluster))


def put(folder: Path, token: str, previous: str = "") -> None:
    (folder / PREVIOUS).write_text(previous) if previous else (folder / PREVIOUS).unlink(missing_ok=True)
    (folder / TOKEN).write_text(token)


def answers(yard: Yard, token: str) -> bool:
    """Whether a caller with this token is answered."""
    body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node-1"]}).encode()
    headers = {"Authorization": tokens.authorization(token).decode()} if token else {}
    url = f"http://127.0.0.1:{extender_port(yard.cluster)}/scheduler/filter"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
        assert response.status == 200
        answer = json.loads(response.read())
    assert answer["Error"] in ("", NOT_SHOWN, NOT_KNOWN)
    return not answer["Error"]


def shown(yard: Yard) -> str:
    """All that a user of the cluster, or a reader of logs, can see."""
    kinds = "pods,events,nodes,queues.scheduling.run.ai,plans.gpuyard.io,leases,configmaps"
    objects = yard.cluster.kubectl("get", kinds, "-A", "-o", "json")
    logs = [yard.cluster.log(name).read_text(errors="replace") for name in (SCHEDULER, EXTENDER)]
    return "\n".join([objects, *logs, yard.page()])


def hides(yard: Yard) -> bool:
    """Whether neither the token nor the header made of it can be seen."""
    seen = shown(yard)
    token = extender_token(yard.cluster)
    return not any(each in seen for each in (token, OTHER, tokens.authorization(token).decode().split()[1]))


@pytest.mark.row("X-33")
def test_kube_scheduler_is_answered_by_the_token_in_its_configuration_and_nobody_without(yard: Yard) -> None:
    yard.submit("one", queue=yard.queue("team", limit=1))
    yard.until(lambda: "one" in yard.placed(), 60, "the pod has a node")
    assert answers(yard, extender_token(yard.cluster))
    assert not answers(yard, "")
    assert not answers(yard, OTHER)
    for name in ("scheduler.yaml", f"{files.EXTENDER_TOKEN}/{TOKEN}", files.RECORD):
        assert (yard.cluster.folder / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.row("X-34")
@pytest.mark.row("X-36", case="refused")
def test_with_a_wrong_token_a_pod_waits_with_a_sentence_and_the_token_is_nowhere(yard: Yard, folder: Path) -> None:
    put(folder, OTHER)
    yard.until(lambda: answers(yard, OTHER) and not answers(yard, extender_token(yard.cluster)), 30, "it is in force")
    yard.submit("refused", queue=yard.queue("wide"))
    yard.submit("plain", gpus=0)
    yard.until(lambda: NOT_KNOWN in yard.verdicts().get("refused", ""), 60, "its condition says why")
    yard.until(lambda: "plain" in yard.placed(), 60, "pods without GPUs go on")
    events = json.loads(yard.cluster.kubectl("get", "events", "-o", "json"))["items"]
    assert any(NOT_KNOWN in event.get("message", event.get("note", "")) for event in events)
    assert hides(yard)
    put(folder, extender_token(yard.cluster))
    yard.until(lambda: "refused" in yard.placed(), 90, "with the right one it runs, and nobody was restarted")


@pytest.mark.row("X-35")
def test_a_rotated_token_is_taken_beside_the_one_before_without_a_restart(yard: Yard, folder: Path) -> None:
    before = {name: yard.cluster.processes[name].pid for name in (SCHEDULER, EXTENDER)}
    put(folder, OTHER, previous=extender_token(yard.cluster))
    yard.until(lambda: answers(yard, OTHER), 30, "the new one is in force")
    yard.submit("rotated", queue=yard.queue("wide"))
    yard.until(lambda: "rotated" in yard.placed(), 60, "kube-scheduler, which has the one before, is answered")
    assert {name: yard.cluster.processes[name].pid for name in before} == before


@pytest.mark.row("X-36", case="extender-away")
def test_while_the_extender_is_away_the_address_in_conditions_events_and_logs_shows_no_token(yard: Yard) -> None:
    yard.cluster.stop(EXTENDER)
    try:
        yard.submit("alone", queue=yard.queue("wide"))
        yard.until(lambda: "/scheduler/filter" in yard.verdicts().get("alone", ""), 60, "its condition has the address")
        said = yard.verdicts()["alone"]
    finally:
        start_extender(yard.cluster)
    assert "gpuyard:***@127.0.0.1" in said
    yard.until(lambda: "alone" in yard.placed(), 90, "it runs when the extender is back")
    assert hides(yard)
