"""What the demo sees of the cluster: it waits for as long as that makes sense, and says what it waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.common.kube.reflector import Reflector
from gpuyard.sandbox.demo import play
from gpuyard.sandbox.demo.play import View
from gpuyard.sandbox.demo.telling import tables
from gpuyard.sandbox.errors import SandboxError

from tests.common.kube.wire import Answer, client_of, refusal, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gpuyard.common.kube.client import Client


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "READ_WITHIN", 0.5)
    monkeypatch.setattr(play, "DECIDED_WITHIN", 0.5)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with served() as wire, client_of(wire) as client:
        wire.answers.extend([refusal(403, "Forbidden", "no rights")] * 99)
        yield client


async def test_a_cluster_that_cannot_be_read_is_given_up_with_the_reason(client: Client) -> None:
    with pytest.raises(SandboxError, match=r"not read within 0 s: .*no rights") as failure:
        async with View(client, print).watching():
            pytest.fail("nothing was read")
    assert "`gpuyard sandbox status`" in failure.value.remedy


async def test_a_watch_that_breaks_ends_the_wait_with_what_broke_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Any) -> None:  # noqa: ANN401 - a reflector of any kind
        raise KeyError("inside")

    monkeypatch.setattr(Reflector, "run", broken)
    with pytest.raises(KeyError, match="inside"):
        async with View(client, print).watching():
            pytest.fail("nothing was read")


async def test_a_pod_of_which_the_scheduler_says_nothing_is_named() -> None:
    async with served() as wire, client_of(wire) as client:
        wire.answers.append(Answer(body=b'{"metadata": {}}'))
        with pytest.raises(SandboxError, match="pod lost: kube-scheduler said nothing about it"):
            await View(client, print).submit({"kind": "Pod", "metadata": {"name": "lost", "namespace": "ns"}})


async def test_an_empty_cluster_is_read_too() -> None:
    async with served() as wire, client_of(wire) as client:
        wire.answers.extend([Answer(body=b'{"metadata": {"resourceVersion": "100"}, "items": []}')] * 3)
        view = View(client, print)
        async with view.watching():
            assert tables(view.scene()).startswith("NODE")
