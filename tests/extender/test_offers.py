"""What kube-scheduler last offered each waiting pod: equal lists are kept once, and there is a bound on all of them."""

import gc
import tracemalloc

import pytest
from gpuyard.engine.model import Node, Pod, Shape
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.ledger.offers import Offers, among

NODES = 5000
EVER = float("-inf")


def pod(name: str, uid: str = "") -> Pod:
    return Pod(key=f"ns/{name}", uid=uid or name, shape=Shape(gpus=1))


def named(count: int, kind: str = "node") -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


def test_an_offer_is_that_of_one_pod_and_of_a_time() -> None:
    offers = Offers()
    offers.put(pod("a"), ["n1"], 5)
    assert (offers.since(pod("a"), 5), offers.since(pod("a"), 5.1)) == (frozenset({"n1"}), None)
    assert (offers.since(pod("a", uid="later"), EVER), offers.since(pod("b"), EVER)) == (None, None)
    assert (offers.last(pod("a")), offers.last(pod("a", uid="later")), offers.last(pod("b"))) == (5, None, None)


@pytest.mark.row("B-31", case="shared")
def test_two_kinds_of_pods_in_turn_share_two_lists() -> None:
    offers = Offers()
    for number in range(100):
        offers.put(pod(f"p{number}"), named(50, kind=f"kind-{number % 2}"), number)
    assert offers.names == 100
    assert offers.since(pod("p98"), 0) is offers.since(pod("p0"), 0)


@pytest.mark.row("B-31", case="memory")
def test_two_kinds_of_pods_in_turn_on_5000_nodes_cost_the_ledger_less_than_a_kibibyte_a_pod() -> None:
    ledger = Ledger()
    ledger.put_nodes(Node(name=name) for kind in range(2) for name in named(NODES, kind=f"kind-{kind}"))
    assert ledger.snapshot.fleet.nodes
    for number in range(2):  # a list of each kind is there
        ledger.offer(pod(f"first-{number}"), named(NODES, kind=f"kind-{number}"), 0)
    gc.collect()
    tracemalloc.start()
    for number in range(100):
        ledger.offer(pod(f"p{number}"), named(NODES, kind=f"kind-{number % 2}"), number)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100 < 1024


@pytest.mark.row("B-31", case="shared")
def test_a_list_goes_with_the_last_pod_that_was_offered_it() -> None:
    offers = Offers()
    for name in ("a", "b"):
        offers.put(pod(name), ["n1", "n2"], 0)
    offers.drop("ns/a")
    assert offers.names == 2
    offers.put(pod("b"), ["n3"], 1)
    assert offers.names == 1
    offers.drop("ns/b")
    offers.drop("ns/b")
    assert (offers.names, offers.last(pod("b"))) == (0, None)


def test_the_same_offer_once_more_keeps_its_list() -> None:
    offers = Offers()
    offers.put(pod("a"), ["n1"], 0)
    offers.put(pod("a"), ["n1"], 9)
    assert (offers.names, offers.since(pod("a"), 9)) == (1, frozenset({"n1"}))


@pytest.mark.row("B-31", case="bound")
def test_ever_different_lists_are_forgotten_from_the_one_offered_longest_ago() -> None:
    offers = Offers(most=30)
    for number, name in enumerate("abc"):
        offers.put(pod(name), named(10, kind=name), number)
    offers.put(pod("a"), named(10, kind="a"), 3)
    offers.put(pod("d"), named(10, kind="d"), 4)
    assert offers.names == 30
    assert [len(offers.since(pod(name), 0) or ()) for name in "abcd"] == [10, 0, 10, 10]


@pytest.mark.row("B-31", case="bound")
def test_a_pod_whose_list_is_forgotten_counts_as_offered_long_ago() -> None:
    offers = Offers(most=10)
    offers.put(pod("a"), named(10, kind="a"), 1)
    offers.put(pod("b"), named(10, kind="b"), 2)
    assert (offers.since(pod("a"), 0), offers.since(pod("a"), EVER)) == (None, frozenset())
    assert offers.last(pod("a")) == 1
    offers.drop("ns/a")
    assert (offers.names, offers.last(pod("a"))) == (10, None)


def test_a_single_list_above_the_bound_is_kept() -> None:
    offers = Offers(most=10)
    offers.put(pod("a"), named(20), 0)
    assert len(offers.since(pod("a"), 0) or ()) == 20


def test_an_offer_of_all_nodes_is_kept_as_the_set_that_there_is_of_them() -> None:
    known = frozenset(named(3))
    assert among(known, named(3)) is known
    ledger = Ledger()
    ledger.put_nodes(Node(name=name) for name in named(3))
    ledger.offer(pod("a"), named(3), 0)
    assert ledger.offered(pod("a"), 0) is ledger.snapshot.fleet.names


@pytest.mark.parametrize("offered", [named(2), ["invented", *named(2)], [*named(3), "invented"]])
def test_of_an_offer_of_other_nodes_the_known_ones_are_kept(offered: list[str]) -> None:
    known = frozenset(named(3))
    assert among(known, offered) == known.intersection(offered)
