"""Ownership: the API server says which labels are ours; we write only what differs."""

import msgspec
from gpuyard.common.node_labels import DECODER, LabelledNode, body, owned
from gpuyard.gfd.labeller import due
from gpuyard.gfd.labels import TIMESTAMP, Labels, labels
from gpuyard.gfd.owned import change

from tests.gfd.test_labels import node as topology_node

OURS = {"nvidia.com/gpu.count": "2", TIMESTAMP: "1"}


def node(ours: Labels, foreign: Labels | None = None) -> LabelledNode:
    named: dict[str, object] = {f"f:{name}": {} for name in ours}
    fields = {"f:metadata": {"f:labels": named}}
    managed = [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}},
        {"manager": "gpuyard-gfd", "operation": "Apply", "fieldsV1": fields},
    ]
    meta = {"name": "n", "uid": "u", "labels": ours | (foreign or {}), "managedFields": managed}
    return DECODER.decode(msgspec.json.encode({"metadata": meta}))


def test_only_what_we_applied_is_ours() -> None:
    assert owned(node(OURS, {"team": "a"})) == OURS


def test_nothing_is_written_while_all_is_right() -> None:
    assert change(node(OURS), OURS) is None


def test_a_newer_timestamp_alone_is_no_reason_to_write() -> None:
    assert change(node(OURS), OURS | {TIMESTAMP: "2"}) is None


def test_a_changed_a_missing_and_a_superfluous_label_are_written() -> None:
    more = OURS | {"nvidia.com/gpu.memory": "5"}
    assert change(node(OURS), OURS | {"nvidia.com/gpu.count": "3"}) == OURS | {"nvidia.com/gpu.count": "3"}
    assert change(node(OURS), more) == more
    assert change(node(more), OURS) == OURS


def test_labels_of_a_node_that_the_topology_does_not_name_are_taken_away() -> None:
    assert change(node(OURS), {}) == {}
    assert change(node({}, {"team": "a"}), {}) is None


def test_a_label_that_somebody_else_took_over_is_written_again() -> None:
    taken = node({}, {"nvidia.com/gpu.count": "9"})
    assert change(taken, OURS) == OURS


def test_the_body_names_our_labels_and_nothing_else() -> None:
    assert body("n", OURS) == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": OURS}}


def test_due_are_the_nodes_that_differ() -> None:
    wanted = labels(topology_node(), "1")
    nodes = {"n": node({}), "right": node(wanted), "gone": node(OURS), "foreign": node({}, {"team": "a"})}
    topology = {"n": topology_node(), "right": topology_node()}
    assert due(nodes, topology, "2").keys() == {"n", "gone"}
    assert due(nodes, topology, "2")["gone"] == {}
