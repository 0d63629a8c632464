"""What the mock leaves on a node, and when it can be taken away."""

from gpuyard.cli import remains

from tests.mock.cluster import cluster_node

GPU = "nvidia.com/gpu"
MARKED = {"gpuyard.io/mock": "true"}


def test_on_a_kwok_node_everything_can_go_at_once() -> None:
    node = cluster_node(labels=MARKED, capacity={GPU: "2", "cpu": "4"})
    assert remains.entries(node) == {GPU}
    assert remains.held(node) == set()


def test_what_kubelet_still_counts_it_would_write_again() -> None:
    assert remains.held(cluster_node(labels=MARKED, kwok=False, capacity={GPU: "2"})) == {GPU}
    assert remains.held(cluster_node(labels=MARKED, kwok=False, capacity={GPU: "0"})) == set()


def test_of_other_resources_only_those_are_ours_that_the_updater_noted() -> None:
    noted = {"gpuyard.io/mock-resources": f"example.com/x,{GPU}"}
    there = {GPU: "2", "example.com/x": "3", "example.com/foreign": "1"}
    assert remains.entries(cluster_node(labels=MARKED, annotations=noted, capacity=there)) == {GPU, "example.com/x"}


def test_what_was_noted_is_ours_on_a_node_that_the_topology_no_longer_names() -> None:
    noted = {"gpuyard.io/mock-resources": f"example.com/x,{GPU}"}
    there = {GPU: "0", "example.com/x": "0", "cpu": "4"}
    node = cluster_node(annotations=noted, capacity=there, kwok=False)
    assert remains.entries(node) == {GPU, "example.com/x"}
    assert remains.told(node, []) == f"example.com/x, {GPU}"


def test_a_node_that_was_never_ours_has_nothing_of_ours() -> None:
    assert remains.entries(cluster_node(capacity={GPU: "8"})) == set()


def test_the_patches_take_away_and_set_nothing() -> None:
    assert remains.without({GPU}) == {"status": {"capacity": {GPU: None}, "allocatable": {GPU: None}}}
    assert set(remains.unmarked()["metadata"]["labels"].values()) == {None}


def test_what_a_node_carries_is_told_and_nothing_is_nothing() -> None:
    node = cluster_node(labels=MARKED, capacity={GPU: "2"})
    assert remains.told(node, ["nvidia.com/gpu.count"]) == f"1 labels, the mark gpuyard.io/mock, {GPU}"
    assert remains.told(cluster_node(capacity={GPU: "8"}), []) == ""
