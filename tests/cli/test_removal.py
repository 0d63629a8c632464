"""Kubelets let go of a resource five minutes after its plugin: what happens until then."""

import asyncio
from typing import Any

import pytest
from gpuyard.cli.removal import LET_GO_WITHIN, Removal
from gpuyard.common.kube.client import Patch
from gpuyard.common.kube.resources import Address

GPU = "nvidia.com/gpu"


class OneNode:
    """A cluster of one node with a kubelet, which sets its GPUs to 0 after some seconds."""

    def __init__(self, let_go_after: float, **carried: dict[str, str]) -> None:
        self.now = 0.0
        self._carried = carried or {"labels": {"gpuyard.io/mock": "true"}}
        self._let_go_after = let_go_after
        self.patched: list[str] = []
        self.said: list[str] = []

    async def items(self, _: Address) -> list[dict[str, Any]]:
        count = "0" if self.now >= self._let_go_after else "2"
        capacity = {} if "nodes n/status" in self.patched else {GPU: count}
        meta = {"name": "n"} if "nodes n" in self.patched else {"name": "n"} | self._carried
        return [{"metadata": meta, "status": {"capacity": capacity}}]

    async def patch(self, address: Address, _: object, __: Patch = Patch.MERGE) -> None:
        self.patched.append(address.about)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clean(self, *, wait: bool) -> list[str]:
        removal = Removal(self, self.said.append, clock=lambda: self.now, sleep=self.sleep)  # type: ignore[arg-type]

        async def work() -> list[str]:
            return await removal._let_go(await removal._clean_nodes(), wait=wait)

        return asyncio.run(work())


def test_it_waits_until_the_kubelet_has_let_go_and_then_cleans_the_node() -> None:
    node = OneNode(let_go_after=300)
    assert node.clean(wait=True) == []
    assert 300 <= node.now < 310
    assert node.patched == ["nodes n/status", "nodes n"]
    assert "five minutes" in node.said[0]


def test_told_not_to_wait_it_says_what_is_left_and_how_to_end_it() -> None:
    node = OneNode(let_go_after=300)
    [left] = node.clean(wait=False)
    assert left == f"kubelets still hold {GPU} of node n; run this again after five minutes"
    assert node.patched == []


def test_a_kubelet_that_never_lets_go_is_named_in_the_end() -> None:
    node = OneNode(let_go_after=float("inf"))
    assert "node n" in node.clean(wait=True)[0]
    assert node.now == pytest.approx(LET_GO_WITHIN, abs=10)


def test_a_node_that_the_topology_no_longer_names_is_cleaned_by_its_note() -> None:
    node = OneNode(let_go_after=0, annotations={"gpuyard.io/mock-resources": GPU})
    assert node.clean(wait=False) == []
    assert node.patched == ["nodes n/status", "nodes n"]


def test_run_again_after_that_it_cleans_at_once() -> None:
    node = OneNode(let_go_after=0)
    assert node.clean(wait=False) == []
    assert node.patched == ["nodes n/status", "nodes n"]
