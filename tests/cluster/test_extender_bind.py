"""`bind` against the real API server: what it answers, and what a failed one gives back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

NOBODY = "nobody-schedules-this"
"""A scheduler that does not exist: these pods wait until the tests bind them."""

SHARING = [{"name": "main", "image": "pause", "resources": {"limits": {"gpuyard.io/shared-gpu": "1"}}}]
"""The containers of a pod that shares a GPU, as the overlay `shared-gpus` has them."""


def waiting(yard: Yard, name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a Pod
    """A pod that only the test binds, as the API server has it."""
    yard.submit(name, schedulerName=NOBODY, **more)
    return yard.pods()[name]


def bind(yard: Yard, pod: dict[str, Any], node: str, uid: str = "") -> str:
    """The error that `bind` answers; empty: bound."""
    meta = pod["metadata"]
    told = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": uid or meta["uid"], "Node": node}
    error: str = yard.ask("bind", told)["Error"]
    return error


@pytest.mark.row("E-12", case="bound")
def test_a_pod_is_bound_to_its_node(yard: Yard) -> None:
    assert bind(yard, waiting(yard, "p"), "node-1") == ""
    assert yard.pods()["p"]["spec"]["nodeName"] == "node-1"


@pytest.mark.row("E-12", case="repeated")
def test_binding_it_there_again_is_success(yard: Yard) -> None:
    pod = waiting(yard, "p")
    assert [bind(yard, pod, "node-1") for _ in range(3)] == ["", "", ""]


@pytest.mark.row("E-12", case="conflict")
def test_a_pod_that_is_bound_elsewhere_stays_there(yard: Yard) -> None:
    pod = waiting(yard, "p")
    assert bind(yard, pod, "node-1") == ""
    assert bind(yard, pod, "node-2"), "whether the watch shows the binding yet or not"
    assert yard.pods()["p"]["spec"]["nodeName"] == "node-1"


@pytest.mark.row("E-12", case="gone")
def test_a_pod_that_is_gone_gives_back_what_was_reserved(unscheduled: Yard) -> None:
    yard, queue = unscheduled, unscheduled.queue("team", limit=1)
    yard.submit("gone", "other", queue=queue)
    gone, other = yard.one("gone"), yard.one("other")
    yard.until(partial(passes, yard, gone), 15, "the queue is known")
    assert not passes(yard, other), "the only GPU is reserved"
    yard.delete("gone")
    assert bind(yard, gone, "node-1")
    yard.until(partial(passes, yard, other), 15, "what was reserved is free again")


@pytest.mark.row("X-10", case="other-node")
def test_a_governed_pod_is_not_bound_where_its_queue_does_not_let_it(unscheduled: Yard) -> None:
    yard, queue = unscheduled, unscheduled.queue("team", limit=0)
    yard.submit("p", queue=queue)
    assert "limit of 0" in bind(yard, yard.one("p"), "node-1")
    assert "nodeName" not in yard.one("p")["spec"]


@pytest.mark.row("X-11")
def test_a_name_with_another_address_in_it_reaches_no_api(yard: Yard) -> None:
    named = yard.pod("x/exec?command=id")
    named["metadata"]["uid"] = "u"
    assert bind(yard, named, "node-1")
    assert not list(yard.audit("create", "pods", subresource="exec"))


@pytest.mark.row("E-12", case="uid-mismatch")
def test_another_pod_of_the_same_name_is_not_bound(yard: Yard) -> None:
    pod = waiting(yard, "p")
    assert bind(yard, pod, "node-1", uid="of-an-earlier-one")
    assert "nodeName" not in yard.pods()["p"]["spec"]


def test_parts_of_a_gpu_say_which_gpu_they_share(unscheduled: Yard) -> None:
    yard, queue = unscheduled, unscheduled.queue("team")
    yard.submit("a", "b", queue=queue, gpus=0, annotations={"gpu-fraction": "0.5"}, containers=SHARING)
    for name, pod in yard.pods().items():
        yard.until(partial(passes, yard, pod), 15, f"{name} may go")
        assert bind(yard, pod, "node-3") == ""
    labels = {pod["metadata"]["labels"].get("runai-gpu-group") for pod in yard.pods().values()}
    assert labels == {"gpu-0"}


@pytest.mark.row("X-64", case="live")
def test_pods_that_run_with_the_annotation_alone_leave_their_queue_and_their_nodes_to_others(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    yard.submit("a", "b", queue=queue, gpus=0, annotations={"gpu-fraction": "1"})
    yard.until(lambda: yard.placed() == {"a", "b"}, 30, "kube-scheduler starts them without asking")
    yard.submit("real", queue=queue)
    yard.until(lambda: "real" in yard.placed(), 30, "the only GPU of the queue is free")


def passes(yard: Yard, pod: dict[str, Any]) -> bool:
    """Whether `filter` lets a pod through."""
    return bool(yard.filter(pod)["NodeNames"])
