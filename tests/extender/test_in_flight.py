"""Where those may land who were let through: on a node of their own, or on one of several."""

import pytest
from gpuyard.engine.model import Pod, Shape
from gpuyard.extender.ledger.in_flight import InFlight


def pod(name: str, gpus: int = 1, fraction: int = 0) -> Pod:
    return Pod(key=name, shape=Shape(gpus=gpus, fraction=fraction))


def landing(of: InFlight, node: str) -> list[str]:
    return [one.key for one in of.landing_on(node)]


def test_a_pod_in_flight_may_land_on_each_of_its_nodes_until_it_has_landed() -> None:
    of = InFlight()
    of.start(pod("a", 2), ("n1", "n2"))
    assert [landing(of, node) for node in ("n1", "n2", "n3")] == [["a"], ["a"], []]
    assert (of.gpus, of.gpus_to(["n2", "n3"]), of.gpus_to(["n3"])) == (2, 2, 0)
    of.end("a")
    assert (landing(of, "n1"), of.gpus, list(of.all)) == ([], 0, [])


def test_what_is_in_flight_to_some_nodes_may_be_asked_for_without_one_pod() -> None:
    of = InFlight()
    of.start(pod("a", 2), ("n1",))
    of.start(pod("b", 3), ("n2",))
    assert of.gpus_to(["n1", "n2"], but="a") == 3
    assert of.gpus_to(["n2"], but="a") == 3
    assert of.gpus_to(["n1"], but="stranger") == 2
    assert [of.gpus_to(None, but=name) for name in ("a", "b", "stranger")] == [3, 2, 5]


def test_a_kept_node_is_kept_from_all_but_its_own_pod() -> None:
    of = InFlight()
    of.keep(pod("a"), "n1")
    assert (of.keeps("n1", ""), of.keeps("n1", "a"), of.keeps("n2", "")) == (True, False, False)
    of.keep(pod("b"), "n1")
    assert of.keeps("n1", "a")
    of.end("b")
    of.end("a")
    assert not of.keeps("n1", "")


def test_who_wants_parts_of_gpus_is_counted() -> None:
    of = InFlight()
    of.start(pod("a", 0, 500), ("n1",))
    assert of.sharing == 1
    of.end("a")
    assert of.sharing == 0


@pytest.mark.row("B-32")
def test_the_names_of_nodes_that_come_and_go_are_forgotten() -> None:
    of = InFlight()
    for number in range(1000):
        of.start(pod("a"), (f"spot-{number}", f"spot-{number + 1}"))
        of.keep(pod("b"), f"spot-{number}")
        assert of.names == 3
        of.end("a")
        of.end("b")
    assert of.names == 0


def test_a_pod_that_is_in_flight_to_one_node_twice_lands_once() -> None:
    of = InFlight()
    of.start(pod("a"), ("n1", "n1"))
    of.end("a")
    assert landing(of, "n1") == []
