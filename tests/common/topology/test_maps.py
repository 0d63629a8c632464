"""Maps: the common one and those of single nodes; a broken one never replaces a good one."""

import pytest
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.maps import ConfigMap, Maps

GOOD = "nodes: {n: {gpu-product: x, gpu-memory: 5, gpus: [{}]}, m: {gpu-product: x, gpu-memory: 5, gpus: []}}"
NODE = "{gpuProduct: y, gpuMemory: 7, gpus: [{}, {}]}"


def found(text: str, name: str = "topology", **labels: str) -> ConfigMap:
    return ConfigMap(Meta(name=name, labels=labels), {"topology.yml": text})


class Told:
    def __init__(self) -> None:
        self.changes = 0
        self.problems: list[tuple[str, str]] = []
        self.maps = Maps(self._changed, lambda name, why: self.problems.append((name, why)))

    def _changed(self) -> None:
        self.changes += 1

    def put(self, *new: ConfigMap) -> None:
        self.maps.take(Batch([Change(None, each) for each in new]))

    def gone(self, old: ConfigMap) -> None:
        self.maps.take(Batch([Change(old, None)]))


def test_a_nodes_own_map_wins_over_the_common_one() -> None:
    told = Told()
    told.put(found(GOOD), found(NODE, "topology-n"))
    assert {name: len(node.gpus) for name, node in told.maps.nodes().items()} == {"n": 2, "m": 0}
    told.gone(found(NODE, "topology-n"))
    assert {name: len(node.gpus) for name, node in told.maps.nodes().items()} == {"n": 1, "m": 0}


def test_a_label_may_name_the_node() -> None:
    told = Told()
    told.put(found(NODE, "topology-3f", **{"node-name": "n.example"}))
    assert list(told.maps.nodes()) == ["n.example"]


def test_a_label_that_comes_later_names_the_node_from_then_on() -> None:
    told = Told()
    told.put(found(NODE, "topology-3f"))
    told.put(found(NODE, "topology-3f", **{"node-name": "n.example"}))
    assert list(told.maps.nodes()) == ["n.example"]


def test_a_broken_map_leaves_its_last_good_state_and_is_reported_once() -> None:
    told = Told()
    told.put(found(GOOD))
    told.put(found("nodes: {n: {colour: red}}"))
    told.put(found("nodes: {n: {colour: red}}"))
    assert set(told.maps.nodes()) == {"n", "m"}
    assert told.changes == 1
    [(name, why)] = told.problems
    assert name == "topology"
    assert "line 1, nodes.n.colour" in why


def test_the_next_good_version_is_taken() -> None:
    told = Told()
    told.put(found(GOOD))
    told.put(found("nodes: ["))
    told.put(found("nodes: {}"))
    assert told.maps.nodes() == {}
    assert told.maps.sheets["topology"].problem == ""


def test_a_broken_map_that_is_mended_to_the_old_text_is_well_again() -> None:
    told = Told()
    told.put(found(GOOD))
    told.put(found("nodes: ["))
    told.put(found(GOOD))
    assert told.maps.sheets["topology"].problem == ""


def test_other_config_maps_are_none_of_our_business() -> None:
    told = Told()
    told.put(found("rubbish", "kube-root-ca.crt"))
    told.gone(found("rubbish", "kube-root-ca.crt"))
    assert (told.changes, told.problems, told.maps.sheets) == (0, [], {})


def test_an_empty_first_list_is_news_too() -> None:
    told = Told()
    told.maps.take(Batch([], listed=True))
    assert told.changes == 1


@pytest.mark.parametrize(("text", "count"), [(GOOD, 0), ("nodePools: {a: {gpu: {profile: t4}}}", 1)])
def test_pools_come_from_the_common_map(text: str, count: int) -> None:
    told = Told()
    assert told.maps.pools() == ()
    told.put(found(text))
    assert len(told.maps.pools()) == count


# ---- copies of the last good state --------------------------------------------------------------------------------

BROKEN = found("nodes: [")
COPY = found(GOOD, "last-good-topology")


@pytest.mark.parametrize("order", [(BROKEN, COPY), (COPY, BROKEN)])
def test_who_starts_while_a_map_is_broken_has_its_copy(order: tuple[ConfigMap, ConfigMap]) -> None:
    told = Told()
    for each in order:
        told.put(each)
    assert set(told.maps.nodes()) == {"n", "m"}
    assert told.maps.sheets["topology"].problem


def test_a_map_that_can_be_read_counts_and_its_copy_does_not() -> None:
    told = Told()
    told.put(found("nodes: {}"), COPY)
    assert told.maps.nodes() == {}


def test_what_was_read_here_counts_before_an_older_copy_and_a_newer_copy_counts() -> None:
    told = Told()
    told.put(found("nodes: {}"), COPY, BROKEN)
    assert told.maps.nodes() == {}
    told.put(found(GOOD.replace("[{}]", "[{}, {}]"), "last-good-topology"))
    assert {name: len(node.gpus) for name, node in told.maps.nodes().items()} == {"n": 2, "m": 0}


def test_a_spoiled_copy_counts_for_nothing() -> None:
    told = Told()
    told.put(BROKEN, found("rubbish", "last-good-topology"))
    assert told.maps.nodes() == {}


def test_a_copy_that_goes_is_news_and_takes_nothing_along() -> None:
    told = Told()
    told.put(found(GOOD), COPY)
    before = told.changes
    told.gone(COPY)
    assert told.changes == before + 1
    assert set(told.maps.nodes()) == {"n", "m"}


def test_the_copy_of_a_nodes_map_is_of_that_node() -> None:
    told = Told()
    told.put(found("[", "topology-n"), found(NODE, "last-good-topology-n"))
    assert list(told.maps.nodes()) == ["n"]


# ---- users' own profiles ------------------------------------------------------------------------------------------

POOL = "nodePools: {p: {gpu: {profile: mine}}}"


def profile(memory: int) -> ConfigMap:
    text = f"{{device_defaults: {{name: Mine, memory: {{total_bytes: {memory * 1048576}}}}}, device_count: 2}}"
    return ConfigMap(Meta(name="gpu-profile-mine"), {"profile.yaml": text})


def memories(told: Told) -> list[int]:
    return [pool.hardware.memory for pool in told.maps.pools()]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pool_may_be_of_a_users_own_profile(order: tuple[int, int]) -> None:
    told = Told()
    for each in order:
        told.put((found(POOL), profile(5))[each])
    assert memories(told) == [5]
    told.put(profile(7))
    assert memories(told) == [7]


def test_a_profile_that_goes_leaves_the_last_good_state() -> None:
    told = Told()
    told.put(profile(5), found(POOL))
    told.gone(profile(5))
    assert memories(told) == [5]
    assert "gpu-profile-mine" in told.maps.sheets["topology"].problem
    told.put(found(POOL))
    assert told.maps.sheets["topology"].problem


def test_who_speaks_of_one_node_needs_no_profile() -> None:
    problems: list[str] = []
    maps = Maps(report=lambda name, _why: problems.append(name), node="n")
    maps.take(Batch([Change(None, found(POOL)), Change(None, profile(5)), Change(profile(5), None)]))
    assert (problems, maps.pools()) == ([], ())
