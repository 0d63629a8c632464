"""Selectors and affinity mean what Kubernetes says they mean, also when they are empty."""

import msgspec
import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.selectors import NOTHING, Standing, selector, standing, tolerations
from gpuyard.engine.model import NodeTerm, Requirement, Toleration

from tests.engine.kube.written import Heard, Json

IN_ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def read(affinity: object, heard: Heard | None = None) -> Standing:
    complain = heard if heard is not None else Heard()
    made = standing(msgspec.json.encode(affinity), complain)
    assert heard is not None or not complain
    return made


def label_selector(of: Json | None, heard: Heard | None = None) -> tuple[Requirement, ...]:
    return selector(
        msgspec.convert(of, objects.Selector | None), "spec.selector", heard if heard is not None else Heard()
    )


def test_labels_and_expressions_of_a_selector_hold_together() -> None:
    made = label_selector({"matchLabels": {"app": "x"}, "matchExpressions": [IN_ZONE]})
    assert made == (Requirement("app", "In", ("x",)), Requirement("zone", "In", ("a", "b")))


def test_an_empty_selector_is_everything_and_an_absent_one_nothing() -> None:
    assert label_selector({}) == ()
    assert label_selector(None) == (NOTHING,)


def test_required_node_terms_are_alternatives() -> None:
    by_name = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    terms = [{"matchExpressions": [IN_ZONE]}, {"matchFields": [by_name]}]
    made = read({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert made.affinity == (
        NodeTerm(labels=(Requirement("zone", "In", ("a", "b")),)),
        NodeTerm(names=(Requirement("metadata.name", "In", ("node-1",)),)),
    )


def test_an_empty_node_term_matches_no_node() -> None:
    assert read({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}).affinity == (NodeTerm((NOTHING,)),)


def test_wishes_keep_their_weights() -> None:
    wish = {"weight": 7, "preference": {"matchExpressions": [IN_ZONE]}}
    (made,) = read({"nodeAffinity": {PREFERRED: [wish]}}).preferred
    assert (made.weight, made.term.labels) == (7, (Requirement("zone", "In", ("a", "b")),))


def test_pod_affinity_names_its_domain_its_pods_and_their_namespaces() -> None:
    near = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaces": ["b", "a"]}
    far = {"topologyKey": "host", "labelSelector": {}, "namespaceSelector": {}}
    made = read(
        {
            "podAffinity": {REQUIRED: [near], PREFERRED: [{"weight": 3, "podAffinityTerm": near}]},
            "podAntiAffinity": {REQUIRED: [far]},
        }
    )
    assert [(t.topology_key, t.namespaces, t.weight) for t in made.pod_affinity] == [
        ("rack", ("a", "b"), 0),
        ("rack", ("a", "b"), 3),
    ]
    assert made.pod_anti_affinity[0].namespaces == ("*",)


def test_null_is_no_affinity() -> None:
    assert read(None) == Standing()


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ({"key": "a", "operator": "In"}, "needs values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "takes no values"),
        ({"key": "a", "operator": "Gt", "values": ["many"]}, "needs one whole number"),
        ({"key": "a", "operator": "Gt", "values": ["²"]}, "needs one whole number"),
        ({"key": "a", "operator": "Near", "values": ["x"]}, "is none of"),
    ],
)
def test_expressions_that_mean_nothing_are_named(expression: Json, why: str) -> None:
    heard = Heard()
    label_selector({"matchExpressions": [expression]}, heard)
    assert [(field, why in told) for field, told in heard] == [("spec.selector.matchExpressions[0]", True)]


@pytest.mark.parametrize(
    ("affinity", "field"),
    [
        ({"nodeAffinity": {REQUIRED: {}}}, "spec.affinity.nodeAffinity.required…"),
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [IN_ZONE]}]}}},
            "spec.affinity.nodeAffinity.required….matchFields",
        ),
        ({"podAffinity": {REQUIRED: [{}]}}, f"spec.affinity.podAffinity.{REQUIRED}[0]"),
        ({"podAffinity": 3}, "spec.affinity.podAffinity"),
    ],
)
def test_a_broken_affinity_is_named_by_its_field(affinity: Json, field: str) -> None:
    heard = Heard()
    read(affinity, heard)
    assert [where for where, _ in heard] == [field]


def test_tolerations_are_read_with_their_defaults() -> None:
    heard = Heard()
    raw = msgspec.json.encode([{"key": "a", "value": "x"}, {"operator": "Exists"}])
    assert tolerations(raw, heard) == (Toleration("a", "Equal", "x"), Toleration("", "Exists"))
    assert not heard


@pytest.mark.parametrize("broken", [[{"operator": "Like"}], {"key": "a"}])
def test_broken_tolerations_are_named(broken: object) -> None:
    heard = Heard()
    tolerations(msgspec.json.encode(broken), heard)
    assert len(heard) == 1
    assert heard[0][0].startswith("spec.tolerations")
