"""What an uninstallation waits for: kubelets that let go of resources, and moved pods that have to be created again."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.cli.removal import LET_GO_WITHIN, Removal
from gpuyard.cli.uninstall import _stay_with
from gpuyard.common.effects.move import OF_PLAN, digest
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.client import Patch
from gpuyard.common.kube.resources import CONTROLLER_REVISIONS, PLANS, Address
from gpuyard.common.plans.plan import Kept

from tests.extender.planner.builders import Api, Json, error, plan, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(("confirmed", "ends"), [([], False), (["https://one"], False), (["https://other"], True)])
def test_nothing_is_removed_from_another_cluster_than_the_one_that_was_shown(
    confirmed: list[str], *, ends: bool
) -> None:
    client = cast("Client", SimpleNamespace(access=Access("https://one")))
    with pytest.raises(SystemExit) if ends else nullcontext():
        _stay_with(confirmed, client)


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


# --- pods that were being moved ---


class Moving(Api):
    """A cluster in which pods were being moved when gpuyard is removed from it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.listed: list[Json] = []
        """The ControllerRevisions of the first look, where they have changed since."""

    async def items(self, address: Address, _: object = None) -> list[Json]:
        if self.listed and address.path == CONTROLLER_REVISIONS.within().path:
            return self.listed
        if ("list", address.path) in self.errors:
            raise self.errors["list", address.path]
        kind = "/" + address.path.rpartition("/")[2]
        return [one for path, one in self.objects.items() if path.rpartition("/")[0].endswith(kind)]

    def moved(self, name: str, **recorded: str) -> None:
        """A pod has left; its spec is kept, and a plan says so, unless other values are `recorded`."""
        data = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"containers": []}}
        meta = {"name": f"gpuyard-move-{name}", "namespace": "ns", "uid": f"rev-{name}", "labels": {OF_PLAN: "p"}}
        self.put(CONTROLLER_REVISIONS.named(f"gpuyard-move-{name}", "ns").path, {"metadata": meta, "data": data})
        kept = Kept(**({"uid": f"uid-{name}", "revision": f"rev-{name}", "digest": digest(data)} | recorded))
        of = plan(victim(name), name=f"plan-{name}").with_status(kept=(kept,))
        self.put(PLANS.named(of.name).path, msgspec.to_builtins(of))

    def finished(self) -> list[str]:
        removal = Removal(self, self.said.append)  # type: ignore[arg-type]
        return asyncio.run(removal._finish_moves())

    def finished_from(self, *listed: Json) -> list[str]:
        self.listed = [*listed]
        return self.finished()

    def pods(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.objects if "/pods/" in path]


def refused(name: str) -> str:
    return (
        f"ControllerRevision ns/gpuyard-move-{name} is not what a plan says was kept of a pod:"
        " no pod is created from it; look at it, delete it"
    )


def test_a_pod_that_was_being_moved_is_created_again() -> None:
    cluster = Moving()
    cluster.moved("a")
    assert cluster.finished() == []
    assert (cluster.pods(), cluster.said) == (["a"], ["pod ns/a was being moved, and is there again"])


@pytest.mark.parametrize("recorded", [{"digest": "of something else"}, {"revision": "another"}, {"uid": "nobody"}])
def test_what_no_plan_vouches_for_is_not_created_and_the_others_are(recorded: dict[str, str]) -> None:
    cluster = Moving()
    cluster.moved("a", **recorded)
    cluster.moved("b")
    assert cluster.finished() == [refused("a")]
    assert cluster.pods() == ["b"]
    assert CONTROLLER_REVISIONS.named("gpuyard-move-a", "ns").path in cluster.objects


@pytest.mark.parametrize("data", [None, {}, {"metadata": None}, {"spec": {"hostPID": True}}])
def test_a_revision_that_holds_no_pod_ends_nothing(data: object) -> None:
    cluster = Moving()
    for name in ("a", "b"):
        cluster.moved(name)
    cluster.objects[CONTROLLER_REVISIONS.named("gpuyard-move-a", "ns").path]["data"] = data
    assert cluster.finished() == [refused("a")]
    assert cluster.pods() == ["b"]


@pytest.mark.parametrize("without", ["plans", "readable plans"])
def test_without_plans_nothing_is_created(without: str) -> None:
    cluster = Moving()
    cluster.moved("a")
    if without == "plans":
        cluster.errors["list", PLANS.within().path] = error(404, "NotFound")
    else:
        cluster.objects[PLANS.named("plan-a").path]["spec"] = {"phase": 7}
    assert cluster.finished() == [refused("a")]
    assert cluster.pods() == []


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_what_is_changed_after_the_first_look_is_a_problem(change: str) -> None:
    cluster = Moving()
    cluster.moved("a")
    path = CONTROLLER_REVISIONS.named("gpuyard-move-a", "ns").path
    seen = cluster.objects[path]
    if change == "replaced":
        cluster.objects[path] = seen | {"data": {"spec": {"hostPID": True}}}
    else:
        del cluster.objects[path]
    [left] = cluster.finished_from(seen)
    lost = "pod ns/a was being moved and cannot be created: somebody has deleted ControllerRevision ns/gpuyard-move-a"
    assert left.startswith(refused("a") if change == "replaced" else lost)
    assert (cluster.pods(), cluster.said) == ([], [])


def test_a_pod_that_the_api_server_refuses_is_told_and_the_others_go_on() -> None:
    cluster = Moving()
    for name in ("a", "b"):
        cluster.moved(name)
    cluster.errors["create", "/api/v1/namespaces/ns/pods/a"] = error(403, "Forbidden", "exceeded quota")
    [left] = cluster.finished()
    assert left == (
        "pod ns/a was being moved and cannot be created: exceeded quota;"
        " ControllerRevision ns/gpuyard-move-a keeps its spec"
    )
    assert cluster.pods() == ["b"]
