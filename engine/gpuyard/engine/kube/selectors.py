"""Selectors, affinity and tolerations as the engine's requirements, with Kubernetes' rules for empty ones."""

from collections.abc import Iterable

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import explained
from gpuyard.engine.model import NodeTerm, PodTerm, PreferredNodes, Requirement, Toleration
from gpuyard.engine.model.constraints import whole_number

NOTHING = Requirement("", "In")
"""A requirement that nothing meets."""

_ANYWHERE = "*"
_SETS, _BARE, _NUMBERS = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")

_affinity = msgspec.json.Decoder(objects.Affinity | None)
_tolerations = msgspec.json.Decoder(list[objects.Toleration] | None)


class Standing(msgspec.Struct, frozen=True):
    """Where `spec.affinity` lets a pod stand, in the fields of a `Shape`."""

    affinity: tuple[NodeTerm, ...] = ()
    preferred: tuple[PreferredNodes, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()


def standing(raw: bytes, complain: Complain) -> Standing:
    """Read `spec.affinity`."""
    try:
        seen = _affinity.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        complain(*explained(error, "spec.affinity"))
        return Standing()
    if seen is None:
        return Standing()
    nodes = seen.node_affinity or objects.NodeAffinity()
    return Standing(
        _required_nodes(nodes.required, complain),
        tuple(
            PreferredNodes(p.weight, _node_term(p.preference, "preferences", complain)) for p in nodes.preferred or ()
        ),
        _pod_terms(seen.pod_affinity, "podAffinity", complain),
        _pod_terms(seen.pod_anti_affinity, "podAntiAffinity", complain),
    )


def tolerations(raw: bytes, complain: Complain) -> tuple[Toleration, ...]:
    """Read `spec.tolerations`."""
    try:
        seen = _tolerations.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        complain(*explained(error, "spec.tolerations"))
        return ()
    for n, x in enumerate(seen or ()):
        if x.operator not in {None, "", "Equal", "Exists"}:
            complain(f"spec.tolerations[{n}].operator", f"{x.operator!r} is none of Equal, Exists")
    return tuple(Toleration(x.key or "", x.operator or "Equal", x.value or "", x.effect or "") for x in seen or ())


def selector(seen: objects.Selector | None, field: str, complain: Complain) -> tuple[Requirement, ...]:
    """Read a label selector: an empty one matches everything, an absent one nothing."""
    if seen is None:
        return (NOTHING,)
    pairs = tuple(Requirement(key, "In", (value,)) for key, value in sorted((seen.match_labels or {}).items()))
    return pairs + _requirements(seen.match_expressions, f"{field}.matchExpressions", complain)


def _required_nodes(seen: objects.NodeSelector | None, complain: Complain) -> tuple[NodeTerm, ...]:
    if seen is None:
        return ()
    where = "spec.affinity.nodeAffinity.required…"
    if not seen.node_selector_terms:
        complain(where, "has no nodeSelectorTerms, at least one is needed")
    terms = [t for t in seen.node_selector_terms or () if t.match_expressions or t.match_fields]
    return tuple(_node_term(t, where, complain) for t in terms) or (NodeTerm((NOTHING,)),)


def _node_term(seen: objects.NodeSelectorTerm, where: str, complain: Complain) -> NodeTerm:
    for x in seen.match_fields or ():
        if x.key != "metadata.name":
            complain(f"{where}.matchFields", f"{x.key!r} is not metadata.name, the only field that nodes are chosen by")
    return NodeTerm(
        _requirements(seen.match_expressions, f"{where}.matchExpressions", complain),
        _requirements(seen.match_fields, f"{where}.matchFields", complain),
    )


def _pod_terms(seen: objects.PodAffinity | None, where: str, complain: Complain) -> tuple[PodTerm, ...]:
    if seen is None:
        return ()
    weighted = [(0, t) for t in seen.required or ()]
    weighted += [(t.weight, t.pod_affinity_term) for t in seen.preferred or ()]
    return tuple(
        PodTerm(t.topology_key, selector(t.label_selector, f"spec.affinity.{where}", complain), _namespaces(t), weight)
        for weight, t in weighted
    )


def _namespaces(term: objects.PodAffinityTerm) -> tuple[str, ...]:
    # The labels of namespaces are not part of a snapshot: a selector of namespaces counts as all of them.
    if term.namespace_selector is not None:
        return (_ANYWHERE,)
    return tuple(sorted(term.namespaces or ()))


def _requirements(seen: Iterable[objects.Expression] | None, field: str, complain: Complain) -> tuple[Requirement, ...]:
    out = []
    for n, x in enumerate(seen or ()):
        values = tuple(x.values or ())
        if why := _wrong(x.operator, values):
            complain(f"{field}[{n}]", why)
        out.append(Requirement(x.key, x.operator, values))
    return tuple(out)


def _wrong(operator: str, values: tuple[str, ...]) -> str:
    if operator in _SETS:
        return "" if values else f"operator {operator} needs values"
    if operator in _BARE:
        return f"operator {operator} takes no values" if values else ""
    if operator in _NUMBERS:
        good = len(values) == 1 and whole_number(values[0]) is not None
        return "" if good else f"operator {operator} needs one whole number"
    return f"operator {operator!r} is none of {', '.join(_SETS + _BARE + _NUMBERS)}"
