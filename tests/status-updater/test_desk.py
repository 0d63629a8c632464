"""The desk: caches in, writes out; whatever was missed, the end equals a rebuild."""

import pytest
import yaml
from gpuyard.status_updater.desk import MOST

from tests.mock.cluster import cluster_node, container, pod
from tests.mock.office import Office, a_map

TOPOLOGY = "nodes: {n: {gpu-product: Tesla-K80, gpu-memory: 11441, gpus: [{id: a}, {id: b}]}}"


def usage(office: Office, name: str = "topology") -> dict[str, str]:
    gpus = yaml.safe_load(office.maps[name].text)["nodes"]["n"]["gpus"]
    return {gpu["id"]: gpu["metrics"]["metadata"]["pod"] for gpu in gpus if "metrics" in gpu}


@pytest.fixture
def office() -> Office:
    return Office([cluster_node()], [a_map(TOPOLOGY)])


def test_a_pod_is_written_and_leaves_no_trace(office: Office) -> None:
    office.pod("p", pod("p"))
    office.settled()
    assert usage(office) == {"a": "p"}
    office.pod("p", None)
    assert office.settled() == {"topology": TOPOLOGY}


def test_at_rest_nothing_is_due(office: Office) -> None:
    office.pod("p", pod("p", annotations={"run.ai/simulated-gpu-utilization": "10-30"}))
    office.settled()
    office.desk.touch_all()
    due = office.desk.due()
    assert (due.texts, due.create, due.delete) == ({}, {}, {})


@pytest.mark.row("M-47", case="missed-delete")
def test_a_delete_that_was_missed_is_made_good_by_the_next_list(office: Office) -> None:
    office.pod("p", pod("p"))
    office.settled()
    office.missed("p", None)
    office.relist()
    assert office.settled() == office.rebuilt() == {"topology": TOPOLOGY}


@pytest.mark.row("M-47", case="tombstone")
def test_a_delete_that_shows_an_old_state_frees_the_gpu_all_the_same(office: Office) -> None:
    office.pod("p", pod("p"))
    office.settled()
    office.pods.pop("p")
    office.desk.take_pod(pod("p", phase="Pending"), None)
    assert office.settled() == office.rebuilt() == {"topology": TOPOLOGY}


@pytest.mark.row("M-47", case="pod-before-node")
def test_a_pod_that_comes_before_its_node_is_named_is_attributed_later() -> None:
    office = Office([], [a_map("nodes: {}")])
    office.pod("p", pod("p"))
    office.settled()
    office.put_map(a_map(TOPOLOGY, version=7))
    office.put_node(cluster_node())
    assert office.settled() == office.rebuilt()
    assert usage(office) == {"a": "p"}


@pytest.mark.row("M-47", case="same-name")
def test_a_pod_of_the_same_name_with_a_new_uid_takes_the_old_ones_place(office: Office) -> None:
    office.pod("p", pod("p", uid="one", annotations={"run.ai/simulated-gpu-utilization": "1-2"}))
    office.settled()
    office.missed("p", pod("p", uid="two", age=1, annotations={"run.ai/simulated-gpu-utilization": "1-2"}))
    office.relist()
    assert office.settled() == office.rebuilt()
    assert "uid: two" in office.maps["topology"].text or '"two"' in office.maps["topology"].text
    assert "one" not in office.maps["topology"].text


@pytest.mark.row("M-47", case="restart")
def test_a_restarted_updater_leaves_every_pod_where_it_was(office: Office) -> None:
    office.pod("old", pod("old", age=0))
    office.pod("p", pod("p", age=1))
    office.settled()
    office.pod("old", None)
    before = office.settled()
    assert usage(office) == {"b": "p"}
    assert office.rebuilt() == before


def test_who_leads_again_takes_over_what_another_leader_gave(office: Office) -> None:
    """By rule both would give the lowest index; the other one found it taken by a pod that has gone since."""
    office.pod("old", pod("old", age=0))
    office.settled()
    before = office.desk
    office.start()
    office.pod("p", pod("p", age=1))
    office.settled()
    office.pod("old", None)
    office.settled()
    assert usage(office) == {"b": "p"}
    # The first desk heard all of this as a follower, and leads again.
    before.maps, before.pods = office.desk.maps, office.desk.pods
    office.desk = before
    office.desk.begin()
    office.settled()
    assert usage(office) == {"b": "p"}


def test_a_broken_map_is_not_written_to(office: Office) -> None:
    office.put_map(a_map("nodes: [", version=2))
    office.pod("p", pod("p"))
    assert office.desk.due().texts == {}


def test_usage_that_does_not_fit_is_refused_and_named() -> None:
    many = ", ".join(f"n{i}: {{gpu-product: x, gpu-memory: 1, gpus: [{'{}, ' * 8}]}}" for i in range(900))
    office = Office([], [a_map(f"nodes: {{{many}}}")])
    for i in range(900):
        office.pod(f"p{i}", pod(f"p{i}" * 30, [container(gpus=8)], node=f"n{i}"))
    assert "topology-<node>" in office.desk.due().refused["topology"]


POOLS = "nodePools: {p: {gpuProduct: x, gpuMemory: 50, gpuCount: 2}}\nnodePoolLabelKey: pool"


def test_each_node_of_a_pool_gets_a_map_of_its_own() -> None:
    office = Office([cluster_node("n", {"pool": "p"}), cluster_node("other", {"pool": "q"})], [a_map(POOLS)])
    due = office.settle()
    assert list(due.create) == ["topology-n", "last-good-topology"]
    assert due.create["topology-n"]["metadata"]["labels"] == {
        "gpuyard.io/generated": "true",
        "node-topology": "true",
        "node-name": "n",
    }
    office.pod("p", pod("p"))
    office.settled()
    assert "podGpuUsageStatus" in office.maps["topology-n"].text


def test_a_node_whose_gpus_are_only_counted_gets_a_map_of_its_own_beside_the_listed_ones() -> None:
    listed = "l: {gpu-product: x, gpu-memory: 5, gpus: [{id: a}]}"
    text = f"nodes: {{c: {{gpu-count: 2, gpu-product: x, gpu-memory: 50}}, {listed}}}"
    office = Office([cluster_node("c"), cluster_node("l"), cluster_node("other")], [a_map(text)])
    office.pod("p", pod("p", node="c"))
    office.pod("q", pod("q", node="l"))
    maps = office.settled()
    assert set(maps) == {"topology", "topology-c"}
    assert "pod: p" in maps["topology-c"]
    assert '"pod": "q"' in maps["topology"]


def test_a_pools_node_is_marked_in_the_round_that_makes_its_map() -> None:
    office = Office([cluster_node("n", {"pool": "p"})], [a_map(POOLS)])
    due = office.desk.due()
    assert "topology-n" in due.create
    assert due.marks["n"]["metadata"]["labels"] == {"gpuyard.io/mock": "true"}


AUTOFILL = "nodes: {}\nconfig: {node-autofill: {gpu-count: 2, gpu-memory: 11441, gpu-product: Tesla-K80}}"


@pytest.mark.parametrize("before", [{}, {"gpuyard.io/mock": "true"}])
def test_a_node_that_is_filled_in_comes_to_rest_with_its_map_and_its_mark(before: dict[str, str]) -> None:
    asks = {"nvidia.com/gpu.deploy.device-plugin": "true"}
    office = Office([cluster_node("n", before | asks), cluster_node("other", before)], [a_map(AUTOFILL)])
    assert set(office.settled()) == {"topology", "topology-n"}
    assert office.nodes["n"].metadata.labels == asks | {"gpuyard.io/mock": "true"}
    assert office.nodes["other"].metadata.labels == {}


def test_a_changed_pool_changes_its_nodes_maps_and_keeps_the_usage() -> None:
    office = Office([cluster_node("n", {"pool": "p"})], [a_map(POOLS)])
    office.pod("p", pod("p"))
    office.settled()
    office.put_map(a_map(POOLS.replace("gpuCount: 2", "gpuCount: 4"), version=9))
    office.settled()
    gpus = yaml.safe_load(office.maps["topology-n"].text)["gpus"]
    assert [("status" in gpu) for gpu in gpus] == [True, False, False, False]


def test_one_nodes_map_is_no_reason_to_look_at_another(office: Office) -> None:
    office.settled()
    office.put_map(a_map("{gpuProduct: y, gpuMemory: 7, gpus: []}", "topology-m"))
    assert office.desk.touched == {"m"}
    office.settled()
    office.put_map(a_map("{}", "gpuyard-exporter"))
    assert office.desk.touched == set()
    office.put_map(a_map(TOPOLOGY.replace("n:", "k:"), version=7))
    assert office.desk.touched >= {"n", "k"}


def test_many_nodes_with_maps_of_their_own_take_turns() -> None:
    office = Office([cluster_node(f"n{i}", {"pool": "p"}) for i in range(2 * MOST + 1)], [a_map(POOLS)])
    looked_at = []
    while office.desk.touched:
        before = len(office.desk.touched)
        office.desk.due()
        looked_at.append(before - len(office.desk.touched))
    assert looked_at == [MOST, MOST, 1]


def test_a_node_that_is_touched_all_the_time_keeps_no_other_waiting() -> None:
    office = Office([cluster_node(f"n{i}", {"pool": "p"}) for i in range(3 * MOST)], [a_map(POOLS)])
    looked_at: set[str] = set()
    for _ in range(3):
        office.desk.touched |= set(office.nodes)
        before = set(office.desk.touched)
        office.desk.due()
        looked_at |= before - office.desk.touched
    assert looked_at == set(office.nodes)


def test_nodes_that_share_a_map_are_looked_at_together() -> None:
    nodes = ", ".join(f"n{i}: {{gpu-product: x, gpu-memory: 1, gpus: [{{}}]}}" for i in range(2 * MOST))
    office = Office([cluster_node(f"n{i}") for i in range(2 * MOST)], [a_map(f"nodes: {{{nodes}}}")])
    office.desk.due()
    assert office.desk.touched == set()


def test_a_generated_map_that_somebody_changed_is_made_right_again() -> None:
    office = Office([cluster_node("n", {"pool": "p"})], [a_map(POOLS)])
    before = office.settled()
    found = office.maps["topology-n"]
    office.put_map(a_map(found.text.replace("50", "51"), "topology-n", 7, found.metadata.labels))
    assert office.settled() == before


@pytest.mark.parametrize("name", ["other", "n"])
def test_a_generated_map_that_somebody_gave_another_node_or_form_is_no_obstacle(name: str) -> None:
    nodes = [cluster_node("n", {"pool": "p"}), cluster_node("other", {"pool": "p"})]
    office = Office(nodes, [a_map(POOLS)])
    office.settled()
    found = office.maps["topology-n"]
    labels = (found.metadata.labels or {}) | {"node-name": name}
    form = "nodes: {m: {gpu-product: x, gpu-memory: 50, gpus: [{}]}}" if name == "n" else found.text
    office.put_map(a_map(form, "topology-n", 7, labels))
    office.settled()
    assert yaml.safe_load(office.maps["topology-n"].text)["gpuMemory"] == 50


def test_a_node_that_leaves_its_pool_loses_its_map() -> None:
    office = Office([cluster_node("n", {"pool": "p"})], [a_map(POOLS)])
    office.settled()
    office.put_node(cluster_node("n"))
    due = office.settle()
    assert due.delete == {"topology-n": "uid-topology-n"}


def test_a_users_own_map_of_that_name_wins() -> None:
    own = a_map("{gpuProduct: mine, gpuMemory: 5, gpus: [{id: z}]}", "topology-n")
    office = Office([cluster_node("n", {"pool": "p"})], [a_map(POOLS), own])
    due = office.settle()
    assert (set(due.create), due.delete, due.texts) == ({"last-good-topology", "last-good-topology-n"}, {}, {})


# ---- the last good state ------------------------------------------------------------------------------------------

BROKEN = "nodes: ["
COPY = "last-good-topology"


def test_what_a_user_wrote_has_a_copy_that_goes_with_it(office: Office) -> None:
    body = office.settle().create[COPY]
    assert body["data"]["topology.yml"] == TOPOLOGY
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "topology", "uid-topology")


def test_the_copy_follows_the_user_and_not_the_usage(office: Office) -> None:
    office.settled()
    office.pod("p", pod("p"))
    assert set(office.settle().texts) == {"topology"}
    office.put_map(a_map(TOPOLOGY.replace("id: b", "id: c"), version=7))
    office.settled()
    assert "id: c" in office.maps[COPY].text


def test_an_updater_that_starts_while_the_map_is_broken_changes_nothing() -> None:
    office = Office([cluster_node(labels={"pool": "p"})], [a_map(POOLS)])
    office.pod("p", pod("p"))
    before = office.settled()
    office.put_map(a_map(BROKEN, version=9))
    assert office.rebuilt() == before | {"topology": BROKEN}


def test_while_the_map_is_broken_usage_goes_into_the_copy(office: Office) -> None:
    office.settled()
    office.put_map(a_map(BROKEN, version=7))
    office.pod("p", pod("p"))
    assert office.settled() == {"topology": BROKEN}
    assert usage(office, COPY) == {"a": "p"}
    office.start()
    office.pod("p", None)
    office.settled()
    assert usage(office, COPY) == {}


def test_a_mended_map_takes_over_where_the_copy_stands(office: Office) -> None:
    office.pod("old", pod("old", age=0))
    office.pod("p", pod("p", age=1))
    office.settled()
    office.put_map(a_map(BROKEN, version=7))
    office.pod("old", None)
    office.settled()
    office.put_map(a_map(TOPOLOGY, version=8))
    office.settled()
    assert usage(office) == {"b": "p"}


def test_a_copy_that_somebody_spoiled_is_made_anew(office: Office) -> None:
    office.settled()
    office.put_map(a_map("rubbish", COPY, version=7))
    office.settled()
    assert office.maps[COPY].text == TOPOLOGY


def test_the_copy_of_a_nodes_map_speaks_of_the_same_node() -> None:
    own = a_map("{gpuProduct: mine, gpuMemory: 5, gpus: [{id: z}]}", "topology-3f", labels={"node-name": "n"})
    office = Office([cluster_node()], [own])
    office.settled()
    office.put_map(a_map(BROKEN, "topology-3f", 7, labels={"node-name": "n"}))
    office.start()
    assert [gpu.id for gpu in office.desk.maps.nodes()["n"].gpus] == ["z"]
