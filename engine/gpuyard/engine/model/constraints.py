"""Where a pod may stand by labels alone: node selectors, node affinity, taints."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from gpuyard.engine.model import Labels, Node, NodeTerm, Requirement, Shape, Taint, Toleration
from gpuyard.engine.model.fleet import Fleet

_PAUSE = 64
"""Nodes that are looked at between two pauses."""

_Test = Callable[[str | None, tuple[str, ...]], bool]


_WHOLE = re.compile(r"[-+]?[0-9]{1,63}")
_MOST = 1 << 63


def whole_number(text: str | None) -> int | None:
    """The number that a label means to Kubernetes: of 64 bits, in plain digits; None for every other text."""
    if text is None or not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -_MOST <= number < _MOST else None


def _compares(found: str | None, values: tuple[str, ...], sign: int) -> bool:
    left, right = whole_number(found), whole_number(values[0]) if values else None
    return left is not None and right is not None and (left - right) * sign > 0


_OPERATORS: Mapping[str, _Test] = {
    "In": lambda found, values: found in values,
    "NotIn": lambda found, values: found not in values,
    "Exists": lambda found, _: found is not None,
    "DoesNotExist": lambda found, _: found is None,
    "Gt": lambda found, values: _compares(found, values, 1),
    "Lt": lambda found, values: _compares(found, values, -1),
}


def matches(requirements: Iterable[Requirement], labels: Labels) -> bool:
    """Whether labels meet all the requirements."""
    return all(_OPERATORS[r.operator](labels.get(r.key), r.values) for r in requirements)


Hook = tuple[str, str] | None
"""A label that all objects have which a selector means; None: no such label is known."""


def hooks(requirements: Iterable[Requirement]) -> Iterable[Hook]:
    """Labels of which each object has one that meets all the requirements; no labels where nothing meets them."""
    for key, operator, values in requirements:
        if operator == "In":
            return [(key, value) for value in values]
    return (None,)


def term_holds(term: NodeTerm, node: Node) -> bool:
    """Whether a node meets one term of a node affinity."""
    return matches(term.labels, node.labels) and matches(term.names, {"metadata.name": node.name})


def selects(shape: Shape, node: Node) -> bool:
    """Whether the pod's selector and required node affinity admit the node."""
    return all(node.labels.get(key) == value for key, value in shape.selector) and (
        not shape.affinity or any(term_holds(term, node) for term in shape.affinity)
    )


def tolerates(shape: Shape, node: Node) -> bool:
    """Whether the pod tolerates all taints of the node."""
    return _tolerated(shape, node.taints)


def _tolerated(shape: Shape, taints: Iterable[Taint]) -> bool:
    return all(any(_covers(t, taint) for t in shape.tolerations) for taint in taints)


def avoided(fleet: Fleet, shape: Shape) -> frozenset[str]:
    """The nodes that would rather not have the pod, by a taint that it does not tolerate. Remembered per fleet."""
    if not fleet.soft_tainted:
        return frozenset()
    found = fleet.avoided.get(shape.tolerations)
    if found is None:
        names = (name for name in fleet.soft_tainted if not _tolerated(shape, fleet.nodes[name].soft_taints))
        found = fleet.avoided[shape.tolerations] = frozenset(names)
    return found


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def suited(fleet: Fleet, shape: Shape) -> frozenset[str] | None:
    """The open nodes whose labels and taints suit the shape; None: all of them. Remembered per fleet."""
    if not (shape.selector or shape.affinity or fleet.tainted):
        return None
    found = fleet.memo.get(shape)
    if found is None:
        for _ in look_for_suited(fleet, shape):
            pass
        found = fleet.memo[shape]
    return found


def look_for_suited(fleet: Fleet, shape: Shape) -> Iterator[None]:
    """Find out what `suited` says of a shape, a little at a time."""
    if shape in fleet.memo or not (shape.selector or shape.affinity or fleet.tainted):
        return
    demands = (shape.selector, shape.affinity, shape.tolerations)
    found = fleet.kinds.get(demands)
    if found is None:
        names: list[str] = []
        for n, node in enumerate((yield from _labelled(fleet, shape.selector))):
            if node.open and selects(shape, node) and tolerates(shape, node):
                names.append(node.name)
            if n % _PAUSE == _PAUSE - 1:
                yield
        found = fleet.kinds[demands] = frozenset(names)
    fleet.memo[shape] = found


def _labelled(fleet: Fleet, selector: Sequence[tuple[str, str]]) -> Generator[None, None, Iterable[Node]]:
    """The nodes with the first label of a selector; all of them where there is none."""
    if not selector:
        return fleet.nodes.values()
    key, value = selector[0]
    known = fleet.by_label.get(key)
    if known is None:
        known = {}
        for n, node in enumerate(fleet.nodes.values()):
            if key in node.labels:
                known.setdefault(node.labels[key], []).append(node)
            if n % _PAUSE == _PAUSE - 1:
                yield
        fleet.by_label[key] = known
    return known.get(value, ())


def preference(shape: Shape, node: Node) -> int:
    """The sum of the weights of the preferred node terms that the node meets."""
    return sum(p.weight for p in shape.preferred if term_holds(p.term, node))
