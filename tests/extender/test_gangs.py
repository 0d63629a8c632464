"""Gangs start whole: nobody before all who are needed have been offered nodes, and then each on a node of its own."""

import pytest
from gpuyard.common.extender_config import ExtenderConfig, Verdict
from gpuyard.engine.model.settings import Placement
from gpuyard.extender.http.wire import WireError

from tests.extender.builders import Bench, Json, broken_call, group, node, pod, queue, topology

SENTENCE = "the gang needs room for 3 pods at once"


def member(name: str, gpus: int = 4, **more: object) -> Json:
    return pod(name, "", gpus, annotations={"pod-group-name": "g"}, **more)  # type: ignore[arg-type]


A, B, C, D = (member(name) for name in "abcd")


def bench(*more: Json, minimum: int = 3, members: tuple[Json, ...] = (A, B, C)) -> Bench:
    """Two nodes with room for four members."""
    return Bench(node("n1"), node("n2"), queue("team"), group("g", minimum, "team"), *members, *more)


@pytest.mark.row("B-80", case="gang")
@pytest.mark.parametrize(("placement", "nodes"), [("pack", {"n1"}), ("spread", {"n1", "n2"})])
def test_the_members_are_placed_by_the_strategy(placement: Placement, nodes: set[str]) -> None:
    things = (node("n1"), node("n2"), queue("team"), group("g", 2, "team"), A, B)
    of = Bench(*things, config=ExtenderConfig(placement=placement))
    assert [of.passes(one) for one in (A, B)] == [False, True]
    assert set(places(of).values()) == nodes


def places(of: Bench) -> dict[str, str]:
    return dict(of.ledger.kept)


def test_members_wait_for_each_other_with_one_sentence() -> None:
    of = bench()
    reasons = [of.filter(one).failed_and_unresolvable_nodes for one in (A, B)]
    assert reasons == [{"n1": SENTENCE, "n2": SENTENCE}] * 2
    assert of.used("team") == 0


def test_the_last_offer_starts_all_of_them_each_on_its_own_node() -> None:
    of = bench()
    assert not of.passes(A)
    assert not of.passes(B)
    assert of.passes(C)
    assert of.used("team") == 12
    assert set(places(of)) == {"ns/a", "ns/b", "ns/c"}
    assert sorted(places(of).values()) in (["n1", "n1", "n2"], ["n1", "n2", "n2"])
    assert of.ledger.take_called() == {"ns/a", "ns/b"}


def test_each_member_is_then_offered_the_node_that_is_kept_for_it_alone() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    kept = places(of)
    assert [of.filter(one).node_names for one in (A, B)] == [[kept["ns/a"]], [kept["ns/b"]]]
    assert of.used("team") == 12


def test_a_gang_without_room_for_all_starts_nobody() -> None:
    of = bench(pod("x", on="n1", gpus=8))
    assert [of.passes(one) for one in (A, B, C)] == [False, False, False]
    assert not places(of)


def test_a_node_that_a_member_was_not_offered_is_not_its_place() -> None:
    of = bench()
    of.filter(A, "n1")
    of.filter(B, "n1")
    assert of.filter(C, "n1", "n2").node_names == ["n2"]


def test_whoever_has_the_least_choice_is_placed_first() -> None:
    of = bench(members=(member("a", 8), member("b", 8)), minimum=2)
    assert not of.passes(member("a", 8))
    assert of.filter(member("b", 8), "n1").node_names == ["n1"]
    assert places(of)["ns/a"] == "n2"


def test_members_that_waited_for_one_that_did_not_exist_are_news_when_it_does() -> None:
    of = bench(members=(A, B))
    assert not of.passes(A)
    of.ledger.take_news()
    of.put(C)
    assert of.ledger.take_news()


def test_a_member_that_is_offered_no_node_keeps_the_others_waiting() -> None:
    of = bench()
    for _ in range(3):
        assert not of.passes(A)
        assert not of.passes(B)


def test_a_spare_member_may_take_the_place_of_one_that_is_offered_nothing() -> None:
    of = bench(members=(A, B, C, D))
    assert not of.passes(A)
    assert not of.passes(B)
    assert of.passes(D)


def test_beyond_the_minimum_members_go_one_by_one() -> None:
    of = bench(members=(A, B, C, D))
    for one in (A, B, C):
        of.filter(one)
    assert of.passes(D)


def test_what_is_kept_for_a_gang_is_nobody_elses() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    free = ({"n1", "n2"} - {node for node in places(of).values() if list(places(of).values()).count(node) == 2}).pop()
    assert of.filter(pod("other", "team", 4)).node_names == [free]
    answer = of.filter(pod("large", "team", 8))
    assert set(answer.failed_and_unresolvable_nodes.values()) == {"the room is promised to others"}


def test_a_member_whose_place_is_no_longer_offered_gives_up_all_that_wait_for_their_owners() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    other = ({"n1", "n2"} - {places(of)["ns/a"]}).pop()
    of.put(pod("x", on=other, gpus=5))
    assert not of.passes(A, other)
    assert set(places(of)) == {"ns/c"}, "which kube-scheduler may be binding at this moment"
    assert of.used("team") == 4


def test_a_call_that_cannot_be_read_to_its_end_gives_nothing_up() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    before = places(of)
    with pytest.raises(WireError):
        of.verbs.filter(broken_call(A))
    assert places(of) == before
    assert of.used("team") == 12


def test_nobody_starts_alone_where_only_the_others_places_were_given_up() -> None:
    of = bench()
    of.filter(A)
    of.filter(B)
    assert of.passes(C)
    of.put(member("c", verdict="its port is taken"))
    of.now = Verdict().ttl + 1
    other = ({"n1", "n2"} - {places(of)["ns/a"]}).pop()
    assert not of.passes(A, other), "there is room for it, but the other two have not been offered any lately"
    assert not places(of)
    assert of.used("team") == 0


def test_places_that_nobody_takes_are_given_up_in_time() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    of.now = 60
    of.ledger.expire(of.now)
    assert not places(of)


def test_a_refusal_that_comes_late_does_not_take_a_kept_place_away() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    of.put(member("a", verdict=f"0/2 nodes are available: 2 {SENTENCE}."))
    of.now = 5
    of.ledger.expire(of.now)
    assert "ns/a" in places(of)


def test_offers_grow_old_and_their_owners_are_woken_to_be_offered_anew() -> None:
    of = bench()
    of.filter(A)
    of.filter(B)
    of.now = Verdict().ttl + 1
    assert not of.passes(C)
    assert of.ledger.take_called() == {"ns/a", "ns/b"}
    of.filter(A)
    assert of.passes(B)


def test_the_place_of_a_deleted_member_is_free() -> None:
    of = bench()
    for one in (A, B, C):
        of.filter(one)
    of.drop(A)
    assert set(places(of)) == {"ns/b", "ns/c"}


def test_nobody_is_evicted_for_a_part_of_a_gang() -> None:
    of = bench(pod("x", "team", 8, on="n1", labels={"priorityClassName": "train"}))
    claimant = member("a", labels={"priorityClassName": "build"})
    victims = {"n1": {"Pods": [{"UID": "uid-x"}], "NumPDBViolations": 0}}
    assert not of.preempt(claimant, victims).node_name_to_meta_victims


@pytest.mark.parametrize("order", [(A, B, C), (C, A, B), (B, C, A)])
def test_whoever_is_asked_last_the_gang_starts(order: tuple[Json, Json, Json]) -> None:
    of = bench()
    assert [of.passes(one) for one in order] == [False, False, True]


# --- sub-groups and topologies, as in `gpuyard plan` ------------------------------------------------------------------

SUB_GROUP = "kai.scheduler/subgroup-name"


def parted(*parts: tuple[str, int]) -> Json:
    """A PodGroup with these sub-groups, each with its minimum."""
    made = group("g", 1, "team")
    made["spec"] = {"queue": "team", "subGroups": [{"name": name, "minMember": least} for name, least in parts]}
    return made


@pytest.mark.row("B-01", case="starts")
def test_a_governed_pod_with_a_sub_group_and_no_pod_group_starts_alone() -> None:
    of = Bench(node("n1"), queue("team"))
    assert of.passes(pod("p", "team", labels={SUB_GROUP: "workers"}))


@pytest.mark.row("B-01", case="runs")
def test_a_running_pod_with_a_sub_group_and_no_pod_group_is_no_torn_gang() -> None:
    of = Bench(node("n1"), queue("team"), pod("p", "team", on="n1", labels={SUB_GROUP: "workers"}))
    assert not of.ledger.snapshot.torn


@pytest.mark.row("B-01", case="pod-group-deleted")
def test_a_running_gang_with_sub_groups_stands_when_its_pod_group_is_deleted() -> None:
    members = [member(name, on="n1", gpus=1, labels={SUB_GROUP: part}) for name, part in (("a", "x"), ("b", "y"))]
    of = Bench(node("n1"), queue("team"), whole := parted(("x", 1), ("y", 1)), *members)
    of.drop(whole)
    assert not of.ledger.snapshot.torn


@pytest.mark.row("B-01", case="default-part")
def test_pods_that_name_no_sub_group_belong_to_the_one_called_default() -> None:
    of = Bench(node("n1"), queue("team"), parted(("default", 2)))
    of.put(first := member("a", 1), second := member("b", 1))
    assert [of.passes(first), of.passes(second)] == [False, True]


def test_a_sub_group_that_the_gang_does_not_have_is_said() -> None:
    of = Bench(node("n1"), queue("team"), parted(("x", 1)))
    answer = of.filter(member("a", labels={SUB_GROUP: "z"}))
    assert "'z' is no sub-group of ns/g; choose one of x" in next(iter(answer.failed_and_unresolvable_nodes.values()))


def in_one_rack(minimum: int) -> Json:
    made = group("g", minimum, "team")
    made["spec"]["topologyConstraint"] = {"topology": "site", "requiredTopologyLevel": "rack"}
    return made


RACKS = [node(f"n{number}", 4, rack=f"r{number // 2}") for number in range(4)]


@pytest.mark.row("B-02")
def test_a_gang_with_a_topology_starts_in_one_of_its_domains() -> None:
    full = pod("x", on="n0", gpus=4)
    of = Bench(*RACKS, full, queue("team"), topology("site", "rack"), in_one_rack(2), A, B)
    assert [of.passes(one) for one in (A, B)] == [False, True]
    assert set(places(of).values()) == {"n2", "n3"}


@pytest.mark.row("B-02")
def test_a_gang_whose_topology_comes_later_starts_then() -> None:
    of = Bench(*RACKS, queue("team"), in_one_rack(2), A, B)
    assert [of.passes(one) for one in (A, B)] == [False, False]
    of.put(topology("site", "rack"))
    assert of.ledger.take_news()
    assert [of.passes(one) for one in (A, B)] == [True, True]


def test_a_topology_that_cannot_be_read_does_not_replace_the_last_good_one() -> None:
    of = Bench(topology("site", "rack"))
    of.put(topology("site"))
    assert of.ledger.snapshot.topologies["site"].levels == ("rack",)
    assert "topology site" in of.reports[0]
    of.drop(topology("site", "rack"))
    assert not of.ledger.snapshot.topologies


def at_its_minimum(*more: Json) -> Bench:
    """A gang that must stay in one rack, with its minimum of two pods on n0 and n1, and one more that waits."""
    running = (member("a", on="n0"), member("b", on="n1"))
    return Bench(*RACKS, queue("team"), topology("site", "rack"), in_one_rack(2), *running, *more)


def test_beyond_the_minimum_a_member_stays_in_the_domain_of_the_others() -> None:
    small = member("c", 2)
    of = Bench(*RACKS, queue("team"), topology("site", "rack"), in_one_rack(1), member("a", 2, on="n0"), small)
    assert of.filter(small).node_names == ["n0"]


def test_beyond_the_minimum_room_outside_the_domain_does_not_help() -> None:
    of = at_its_minimum(C)
    assert set(of.filter(C).failed_and_unresolvable_nodes.values()) == {"no node fits"}


def test_nobody_is_evicted_outside_the_domain_for_one_more_member() -> None:
    lower = pod("x", "team", 4, on="n2", labels={"priorityClassName": "train"})
    one_more = member("c", labels={"priorityClassName": "build-preemptible"})
    raised = in_one_rack(2)
    raised["spec"]["priorityClassName"] = "build-preemptible"
    of = at_its_minimum(lower, raised, one_more)
    victims = {"n2": {"Pods": [{"UID": "uid-x"}], "NumPDBViolations": 0}}
    assert not of.preempt(one_more, victims).node_name_to_meta_victims


def test_one_more_member_that_must_stay_in_its_domain_holds_nobody_back() -> None:
    first = in_one_rack(2)
    first["spec"]["priorityClassName"] = "build-preemptible"
    other, large = pod("other", "team", 4), pod("large", "team", 8)
    of = at_its_minimum(first, pod("x", on="n2", gpus=4), C, other, large)
    assert not of.passes(C)
    assert of.passes(other)
