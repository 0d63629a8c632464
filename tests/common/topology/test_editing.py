"""Editing: one key of one place changes, and nothing else."""

import pytest
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.editing import change

from tests.common.topology.documents import FLAT_POOLS, NODE, SEED


def lines_that_differ(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_a_gpus_keys_are_added_and_taken_away_again() -> None:
    failed = change(SEED, "node-a", 1, {"health": "unhealthy", "xid": 79})
    assert lines_that_differ(SEED, failed) == ([], ["        health: unhealthy", "        xid: 79"])
    assert change(failed, "node-a", 1, {"health": None, "xid": None}) == SEED


def test_a_nodes_keys_are_changed_in_place() -> None:
    changed = change(SEED, "node-a", None, {"gpu-memory": 16280, "faults": ["crash"]})
    gone, new = lines_that_differ(SEED, changed)
    assert gone == ["    gpu-memory: 11441"]
    assert new == ["    gpu-memory: 16280", "    faults:", "    - crash"]


def test_taking_away_what_is_not_there_changes_nothing() -> None:
    assert change(SEED, "node-a", 0, {"health": None}) == SEED
    assert change("{gpuMemory: 1, gpuProduct: x, gpus: [{}]}", "n", 0, {"health": None}).count("health") == 0


def test_a_per_node_document_is_its_node() -> None:
    assert "driverVersion: 550.1\n" in change(NODE, "n", None, {"driverVersion": 550.1})


@pytest.mark.parametrize(
    ("text", "node", "gpu", "changes", "message"),
    [
        (SEED, "node-x", None, {"xid": 1}, "names no node 'node-x'"),
        (SEED, "node-a", 7, {"xid": 1}, "has 2 GPUs; index 7 is none of them"),
        (SEED, "node-a", 0, {"health": "ill"}, "write one of healthy, unhealthy"),
        (SEED, "node-a", 0, {"colour": "red"}, "unknown key"),
    ],
)
def test_what_would_be_no_topology_is_refused(
    text: str, node: str, gpu: int | None, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        change(text, node, gpu, changes)


def test_a_document_of_pools_has_no_gpus_to_change() -> None:
    with pytest.raises(TopologyError, match="pools"):
        change(FLAT_POOLS, "n", 0, {"xid": 1})
