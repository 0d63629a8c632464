"""One two-GPU topology in five forms: the same ids, labels and metrics from each."""

import pytest
from gpuyard.common.topology.model import Node
from gpuyard.common.topology.pools import node_of
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.resources import offers
from gpuyard.common.topology.writing import per_node_document
from gpuyard.gfd.labels import labels

from tests.common.topology.documents import BLOCK_POOLS, CLUSTER, CLUSTER_STATUS, FLAT_POOLS
from tests.mock.pages import page

GPU = "nvidia.com/gpu"
PER_NODE = "gpuMemory: 11441\ngpuProduct: Tesla-K80\ngpus: [{}, {}]\nmigStrategy: mixed\n"


def listed(text: str) -> Node:
    return read(text, "node-a").nodes["node-a"]


def pooled(text: str) -> Node:
    """By way of the map that a pool's node gets."""
    [pool] = read(text).pools
    assert node_of(pool, "node-a").gpus == listed(per_node_document(pool, "node-a")).gpus
    return listed(per_node_document(pool, "node-a"))


FORMS = {
    "T1": listed(CLUSTER),
    "T2": listed(CLUSTER_STATUS),
    "T3": pooled(FLAT_POOLS),
    "T4": pooled(BLOCK_POOLS),
    "T5": listed(PER_NODE),
}


@pytest.mark.parametrize("form", [pytest.param(form, marks=pytest.mark.row("M-10", case=form)) for form in FORMS])
def test_each_form_gives_the_same_ids_labels_and_metrics(form: str) -> None:
    node, seed = FORMS[form], FORMS["T1"]
    assert [offer.id for offer in offers(node)[GPU]] == [offer.id for offer in offers(seed)[GPU]]
    assert labels(node) == labels(seed)
    assert page({"node-a": node}) == page({"node-a": seed})
