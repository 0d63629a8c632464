"""`gpuyard snapshot load`: pods that waited are made last, when the extender has counted those that had a node."""

from collections import defaultdict
from typing import TYPE_CHECKING, cast

import pytest
from gpuyard.cli import counted
from gpuyard.cli.loading import NOT_COUNTED, Loaded, load
from gpuyard.cli.playing import playable
from gpuyard.common.kube.errors import api_error

from tests.engine.kube.written import Json, node, pod, queue, with_meta

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.resources import Address

OLD, NEW = "2026-01-01T08:00:00Z", "2026-03-01T08:00:00Z"
NEVER = 1 << 30
RUNS = {"status": {"phase": "Running", "startTime": NEW}}


class Sandbox:
    """Stands in for a sandbox's API server, and for an extender that writes what queues hold at a later look."""

    def __init__(self, counts_at: int = 1, *, takes_at: int = 1, extender: bool = True) -> None:
        self.things: dict[str, list[Json]] = defaultdict(list)
        self.pods: list[str] = []
        self.looks: list[int] = []
        """How often the Queues had been looked at when each pod was made."""
        self.missing = ""
        """The kind that it does not know."""
        self._looked = 0
        self._counts_at = counts_at
        self._takes_at = takes_at
        self._extender = extender

    async def create(self, _address: "Address", body: Json) -> Json:
        self.things[body["kind"]].append(body | {"status": {"phase": "Pending"}})
        if body["kind"] == "Pod":
            self.pods.append(body["metadata"]["name"])
            self.looks.append(self._looked)
        return body

    async def patch(self, _address: "Address", body: Json) -> Json:
        self.things["Node"][-1] |= body
        return body

    async def get(self, _address: "Address") -> Json:
        raise api_error("GET configmaps gpuyard-extender", 404, b"", "")

    async def items(self, address: "Address") -> list[Json]:
        if address.about == self.missing:
            raise api_error(f"GET {address.about}", 404, b"", "")
        kind = {"nodes": "Node", "pods": "Pod", "queues": "Queue"}.get(address.about, "")
        found = [dict(thing) for thing in self.things[kind]]
        if kind == "Queue":
            self._looked += 1
            return [thing | self._status() for thing in found]
        if kind == "Pod" and self._looked >= self._takes_at:
            return [one | RUNS if one["spec"].get("nodeName") else one for one in found]
        return found

    def _status(self) -> Json:
        gpus = sum(2 for one in self.things["Pod"] if one["spec"].get("nodeName"))
        held = gpus if self._looked >= max(self._counts_at, self._takes_at) else 0
        return {"status": {"allocated": {"nvidia.com/gpu": str(held)}}} if self._extender else {}


def aged(name: str, created: str, on: str = "") -> Json:
    return with_meta(pod(name, 2, on=on), creationTimestamp=created)


GIVEN = (node(), queue(), aged("waits", OLD), aged("runs", NEW, on="node-1"), aged("too", NEW, on="node-1"))


async def loaded(sandbox: Sandbox, *given: Json) -> Loaded:
    return await load(cast("Client", sandbox), *playable(given))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PAUSE", "NOBODY"):
        monkeypatch.setattr(counted, name, 0.001)


@pytest.mark.row("B-37", case="order")
async def test_a_pod_that_waited_is_made_after_younger_ones_that_had_a_node() -> None:
    sandbox = Sandbox()
    done = await loaded(sandbox, *GIVEN)
    assert (sandbox.pods, done.made["Pod"]) == (["runs", "too", "waits"], 3)


@pytest.mark.row("B-37", case="counted")
async def test_a_pod_that_waited_is_made_when_the_queues_say_what_the_others_hold() -> None:
    sandbox = Sandbox(counts_at=4)
    await loaded(sandbox, *GIVEN)
    assert sandbox.looks == [0, 0, 4]


@pytest.mark.row("B-37", case="taken")
@pytest.mark.parametrize("extender", [True, False])
async def test_a_pod_that_waited_is_made_when_the_others_count_as_more_than_a_wish(*, extender: bool) -> None:
    """While no kubelet has taken them the queues rightly say that their pods hold nothing."""
    sandbox = Sandbox(takes_at=4, extender=extender)
    await loaded(sandbox, *GIVEN)
    assert sandbox.looks == [0, 0, 4]


@pytest.mark.row("B-37", case="counted")
async def test_where_no_queue_says_anything_there_is_no_extender_to_wait_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sandbox = Sandbox(extender=False)
    await loaded(sandbox, *GIVEN)
    assert (sandbox.pods[-1], NOT_COUNTED in capsys.readouterr().err) == ("waits", False)


async def test_when_the_queues_never_say_it_the_pod_is_made_all_the_same_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counted, "PATIENCE", 0.001)
    sandbox = Sandbox(counts_at=NEVER)
    await loaded(sandbox, *GIVEN)
    assert (sandbox.pods[-1], NOT_COUNTED in capsys.readouterr().err) == ("waits", True)


async def test_where_there_are_no_queues_at_all_nothing_but_the_kubelets_is_waited_for() -> None:
    sandbox = Sandbox(takes_at=0)
    sandbox.missing = "queues"
    await loaded(sandbox, *GIVEN)
    assert sandbox.pods[-1] == "waits"


@pytest.mark.parametrize("given", [GIVEN[:3], (*GIVEN[:2], *GIVEN[3:])], ids=["nobody-ran", "nobody-waited"])
async def test_nothing_is_waited_for_where_only_some_ran_or_only_some_waited(given: tuple[Json, ...]) -> None:
    sandbox = Sandbox(counts_at=NEVER)
    await loaded(sandbox, *given)
    assert set(sandbox.looks) == {0}
