"""What a cluster node should carry: our marks, and on KWOK nodes the resources."""

from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.status_updater.cluster_nodes import capacity, marks

from tests.mock.cluster import cluster_node

GPU = "nvidia.com/gpu"
MARKED = {"gpuyard.io/mock": "true"}
OURS = {"gpuyard.io/mock-resources": GPU}


def node(gpus: str = "[{id: a}, {id: b}]", extra: str = "") -> Node:
    return read(f"nodes: {{n: {{gpu-product: x, gpu-memory: 5, gpus: {gpus}{extra}}}}}").nodes["n"]


def test_a_named_node_is_marked_once() -> None:
    assert marks(cluster_node(kwok=False), node()) == {
        "metadata": {"labels": {"gpuyard.io/mock": "true"}, "annotations": {"gpuyard.io/mock-resources": GPU}}
    }
    assert marks(cluster_node(labels=MARKED, annotations=OURS, kwok=False), node()) is None


def test_a_node_that_is_no_longer_named_loses_its_marks_and_a_strange_one_is_left_alone() -> None:
    patch = marks(cluster_node(labels=MARKED, annotations=OURS), None)
    assert patch == {
        "metadata": {"labels": {"gpuyard.io/mock": None}, "annotations": {"gpuyard.io/mock-resources": None}}
    }
    assert marks(cluster_node(labels={"team": "a"}), None) is None


def test_a_kwok_node_gets_capacity_and_what_is_healthy_of_it_as_allocatable() -> None:
    patch = capacity(cluster_node(), node("[{}, {health: unhealthy}]"))
    assert patch == {"status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "1"}}}


def test_nothing_is_patched_while_it_is_right() -> None:
    assert capacity(cluster_node(labels=MARKED, annotations=OURS, capacity={GPU: "2", "cpu": "4"}), node()) is None


def test_a_changed_count_is_patched() -> None:
    patch = capacity(cluster_node(labels=MARKED, capacity={GPU: "4"}), node())
    assert patch == {"status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}}}


def test_a_node_with_a_kubelet_is_never_patched() -> None:
    assert capacity(cluster_node(kwok=False), node()) is None


def test_a_kwok_node_that_is_not_ready_is_waited_for() -> None:
    assert capacity(cluster_node(ready=False), node()) is None


def test_what_is_no_longer_offered_is_taken_away_and_foreign_resources_stay() -> None:
    noted = {"gpuyard.io/mock-resources": f"example.com/x,{GPU}"}
    there = {GPU: "2", "example.com/x": "3", "example.com/foreign": "1", "cpu": "4"}
    patch = capacity(cluster_node(labels=MARKED, annotations=noted, capacity=there), None)
    gone = {GPU: None, "example.com/x": None}
    assert patch == {"status": {"capacity": gone, "allocatable": gone}}


def test_the_marks_of_a_kwok_node_stay_until_its_status_shows_nothing_of_ours() -> None:
    noted = {"gpuyard.io/mock-resources": f"example.com/x,{GPU}"}
    shown = {GPU: "2", "example.com/x": "3", "cpu": "4"}
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity=shown), None) is None
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity=shown), node()) is None
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity={GPU: "2"}), node()) == {
        "metadata": {"labels": MARKED, "annotations": OURS}
    }
    gone = {"metadata": {"labels": {"gpuyard.io/mock": None}, "annotations": {"gpuyard.io/mock-resources": None}}}
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity={"cpu": "4"}), None) == gone


def test_what_a_kubelet_still_shows_stays_noted_on_a_node_that_is_no_mock_node_any_more() -> None:
    noted = {"gpuyard.io/mock-resources": f"example.com/x,{GPU}"}
    shown = {GPU: "0", "example.com/x": "0", "cpu": "4"}
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity=shown, kwok=False), None) == {
        "metadata": {"labels": {"gpuyard.io/mock": None}, "annotations": noted}
    }
    assert marks(cluster_node(annotations=noted, capacity=shown, kwok=False), None) is None
    assert marks(cluster_node(labels=MARKED, annotations=noted, capacity=shown, kwok=False), node()) is None
    assert marks(cluster_node(annotations=noted, capacity={"cpu": "4"}, kwok=False), None) == {
        "metadata": {"labels": {"gpuyard.io/mock": None}, "annotations": {"gpuyard.io/mock-resources": None}}
    }


def test_gpus_of_a_node_that_was_never_ours_are_left_alone() -> None:
    assert capacity(cluster_node(capacity={GPU: "8"}), None) is None
