"""The topology from the command line: which map is written, what is refused, what a reader is told."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from gpuyard.cli.topology import ChangeError, Place, complaints, index_of, read_maps, write
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import Address
from gpuyard.common.topology.reading import read

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

CLUSTER = "nodes:\n  n: {gpu-product: x, gpu-memory: 5, gpus: [{id: a}, {id: b}]}  # mine\n"
OWN = "{gpuProduct: y, gpuMemory: 7, gpus: [{id: c}]}"


class Api:
    """ConfigMaps, and whoever is faster than we are."""

    def __init__(self, **texts: str) -> None:
        self.texts = {name.replace("_", "-"): text for name, text in texts.items()}
        self.labels: dict[str, dict[str, str | None]] = {}
        self.rivals = 0

    async def items(self, _address: Address) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": name, "resourceVersion": "1", "labels": self.labels.get(name, {})},
                "data": {"topology.yml": text},
            }
            for name, text in self.texts.items()
        ]

    async def patch(self, address: Address, body: dict[str, Any]) -> None:
        if self.rivals:
            self.rivals -= 1
            raise ApiError("configmaps", 409, "Conflict", "changed")
        name = address.path.rpartition("/")[2]
        self.texts[name] = body["data"]["topology.yml"]
        self.labels[name] = body["metadata"].get("labels", {})

    def change(self, place: str, **changes: object) -> str:
        return str(asyncio.run(write(cast("Client", self), "ns", Place.read(place), changes)))

    def told(self) -> list[str]:
        return list(complaints(asyncio.run(read_maps(cast("Client", self), "ns")), "ns"))


def test_a_gpu_of_the_common_map_is_changed_and_the_rest_stays_to_the_letter() -> None:
    api = Api(topology=CLUSTER)
    assert api.change("n/b", health="unhealthy") == "configmap/topology"
    assert api.texts["topology"] == CLUSTER.replace("{id: b}", '{id: b, health: "unhealthy"}')
    api.change("n/1", health=None)
    assert api.texts["topology"] == CLUSTER


def test_a_nodes_own_map_is_changed_before_the_common_one() -> None:
    api = Api(topology=CLUSTER, topology_n=OWN)
    assert api.change("n", utilization="5-9") == "configmap/topology-n"
    assert yaml.safe_load(api.texts["topology-n"])["utilization"] == "5-9"


def test_a_map_made_from_a_pool_becomes_the_users_own() -> None:
    api = Api(topology="nodePools: {p: {gpu: {profile: t4}}}", topology_n=OWN)
    api.labels["topology-n"] = {"gpuyard.io/generated": "true"}
    assert api.change("n/0", xid=79).endswith("it is your own now, and no longer follows its pool")
    assert api.labels["topology-n"] == {"gpuyard.io/generated": None}


def test_who_was_slower_begins_anew() -> None:
    api = Api(topology=CLUSTER)
    api.rivals = 3
    api.change("n/0", xid=79)
    assert "xid: 79" in api.texts["topology"]
    api.rivals = 9
    with pytest.raises(ChangeError, match="try again"):
        api.change("n/0", xid=48)


@pytest.mark.parametrize(
    ("place", "changes", "message"),
    [
        ("m/0", {"xid": 1}, "no node 'm' in the topology; there are: n"),
        ("n/7", {"xid": 1}, "node n has no GPU '7'; it has 2, counted from 0"),
        ("n/0", {"colour": "red"}, "n/0: nodes.n.gpus[0].colour: unknown key; known here: health, id, metrics"),
        ("n", {"gpu-memory": -1}, "n: nodes.n.gpu-memory: is -1; write a whole number"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(place: str, changes: dict[str, object], message: str) -> None:
    api = Api(topology=CLUSTER)
    with pytest.raises(ChangeError) as error:
        api.change(place, **changes)
    assert str(error.value).startswith(message)
    assert api.texts["topology"] == CLUSTER


def test_a_map_that_cannot_be_read_is_to_be_mended_first() -> None:
    api = Api(last_good_topology=CLUSTER, topology="nodes: [")
    with pytest.raises(ChangeError, match=r"configmap/topology cannot be read: .* line 2: no YAML: .*; mend it first"):
        api.change("n/0", xid=79)


def test_a_reader_is_told_of_what_is_not_well() -> None:
    assert Api(topology=CLUSTER).told() == []
    assert Api().told() == ["namespace ns has no ConfigMap topology: no node has mock GPUs"]
    [line] = Api(topology="nodes: [").told()
    assert line.startswith("configmap/topology: topology.yml: line 2: no YAML")
    assert line.endswith("nothing of it can be shown")
    [line] = Api(last_good_topology=CLUSTER, topology="nodes: [").told()
    assert line.endswith("shown is its last good state")


def test_a_gpu_is_named_by_index_or_id() -> None:
    assert [index_of(read(CLUSTER).nodes["n"], name) for name in ("1", "b", "a")] == [1, 1, 0]


def test_a_place_is_written_as_it_is_read() -> None:
    assert [str(Place.read(text)) for text in ("n", "n/0", "n/GPU-a")] == ["n", "n/0", "n/GPU-a"]
