"""Which nodes a pod may stand on by labels and taints."""

import pytest
from gpuyard.engine.model import Node, NodeTerm, PreferredNodes, Requirement, Shape, Taint, Toleration
from gpuyard.engine.model.constraints import avoided, look_for_suited, matches, selects, suited, tolerates
from gpuyard.engine.model.fleet import Fleet

from tests.engine.builders import yard


@pytest.mark.parametrize(
    ("operator", "values", "admits"),
    [
        ("In", ("5", "6"), True),
        ("In", ("6",), False),
        ("NotIn", ("6",), True),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("4",), True),
        ("Gt", ("5",), False),
        ("Lt", ("6",), True),
        ("Lt", ("many",), False),
    ],
)
def test_each_operator_over_labels(operator: str, values: tuple[str, ...], admits: bool) -> None:
    assert matches([Requirement("slots", operator, values)], {"slots": "5"}) is admits


@pytest.mark.parametrize(
    ("label", "admits"),
    [
        ("5", True),
        ("+5", True),
        ("-5", False),
        ("²", False),
        ("\u0665", False),
        ("--5", False),
        ("5.5", False),
        ("", False),
        ("9" * 19, False),
        ("9" * 5000, False),
    ],
)
def test_a_label_is_compared_only_if_kubernetes_takes_it_for_a_number(label: str, admits: bool) -> None:
    assert matches([Requirement("slots", "Gt", ("4",))], {"slots": label}) is admits


def test_the_nodes_that_suit_a_pod_are_found_a_little_at_a_time_and_remembered() -> None:
    some = yard()
    for n in range(200):
        some.node(f"node-{n}", labels={"zone": f"z{n % 2}"})
    fleet = some.snapshot().fleet
    shape = Shape(gpus=1, selector=(("zone", "z1"),))
    assert sum(1 for _ in look_for_suited(fleet, shape)) >= 200 // 64
    assert suited(fleet, shape) == frozenset(f"node-{n}" for n in range(1, 200, 2))
    assert not list(look_for_suited(fleet, shape))
    assert suited(fleet, Shape(gpus=2, selector=shape.selector)) is suited(fleet, shape)
    assert suited(fleet, Shape(selector=(("zone", "z7"),))) == frozenset()


def test_the_nodes_of_a_selector_are_found_at_once_as_well() -> None:
    fleet = yard().node("n1", labels={"zone": "a"}).nodes(100).snapshot().fleet
    assert suited(fleet, Shape(selector=(("zone", "a"),))) == frozenset({"n1"})


def test_a_node_affinity_speaks_of_labels_and_of_names() -> None:
    term = NodeTerm(labels=(Requirement("zone", "In", ("a",)),), names=(Requirement("metadata.name", "In", ("n1",)),))
    shape = Shape(affinity=(term,))
    assert selects(shape, Node(name="n1", labels={"zone": "a"}))
    assert not selects(shape, Node(name="n2", labels={"zone": "a"}))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("gpu", "Equal", "only"), True),
        (Toleration("gpu", "Equal", "other"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("gpu", "Exists", "", "NoSchedule"), True),
    ],
)
def test_each_way_to_tolerate_a_taint(toleration: Toleration, tolerated: bool) -> None:
    node = Node(name="n", taints=(Taint("gpu", "only"),))
    assert tolerates(Shape(tolerations=(toleration,)), node) is tolerated


def test_a_tainted_node_is_for_those_who_tolerate_it() -> None:
    some = yard().node("tainted", taints=(Taint("gpu", "only"),)).node("open").queue("a", quota=8)
    some.pending("a").pending("a", shape=Shape(gpus=8, tolerations=(Toleration("gpu", "Exists"),)))
    assert some.plan().started == {"a-1": "open", "a-2": "tainted"}


def test_a_selector_holds_a_pod_back_from_other_nodes() -> None:
    some = yard().node("plain").node("fast", labels={"speed": "high"}).queue("a", quota=8)
    some.pending("a", shape=Shape(gpus=1, selector=(("speed", "high"),)))
    assert some.plan().started == {"a-1": "fast"}


def test_a_preference_counts_more_than_packing() -> None:
    wish = PreferredNodes(10, NodeTerm(labels=(Requirement("speed", "In", ("high",)),)))
    some = yard().node("fast", labels={"speed": "high"}).node("fuller", gpus=2).queue("a", quota=8)
    some.pending("a", shape=Shape(gpus=1, preferred=(wish,)))
    assert some.plan().started == {"a-1": "fast"}


def test_a_node_would_rather_not_have_pods_that_do_not_tolerate_its_soft_taint() -> None:
    nodes = [Node(name="plain"), Node(name="old", soft_taints=(Taint("old", "", "PreferNoSchedule"),))]
    fleet = Fleet.of({one.name: one for one in nodes})
    assert [avoided(fleet, Shape()) for _ in range(2)] == [{"old"}] * 2
    assert avoided(fleet, Shape(tolerations=(Toleration("old", "Exists"),))) == frozenset()
    assert avoided(Fleet.of({"plain": nodes[0]}), Shape()) == frozenset()
