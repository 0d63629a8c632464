"""Changes that a person makes to a topology from the command line: one key of one node or GPU, the rest untouched."""

from collections.abc import Mapping

import yaml
from gpuyard.common.topology.document import Element, TopologyError, compose, without_mark
from gpuyard.common.topology.model import Form
from gpuyard.common.topology.reading import form_of, read
from gpuyard.common.topology.writing import edit_of


def change(text: str, node: str, gpu: int | None, changes: Mapping[str, object]) -> str:
    """The document with these keys on a node, or on its GPU of that index; None as a value takes the key away.

    Raises:
        TopologyError: there is no such place, or the result would not be a topology.
    """
    mark, text = without_mark(text)
    for key, value in changes.items():
        edit = edit_of(text, _place(text, node, gpu), key, value)
        text = text[: edit.start] + edit.text + text[edit.end :]
    read(text, node, profiles=None)
    return mark + text


def _place(text: str, node: str, gpu: int | None) -> yaml.MappingNode:
    root = compose(text)
    found = _node(root, node)
    if gpu is not None:
        items = dict(found.entries())["gpus"].items()
        if gpu >= len(items):
            raise TopologyError(found.path, found.line, f"has {len(items)} GPUs; index {gpu} is none of them")
        found = items[gpu]
    if not isinstance(found.node, yaml.MappingNode):
        found.fail("is no mapping")
    return found.node


def _node(root: Element, name: str) -> Element:
    form = form_of(root)
    if form is Form.NODE:
        return root
    if form is Form.POOLS:
        root.fail("describes pools; the map of a single node is what can be changed for one node")
    nodes = dict(dict(root.entries())["nodes"].entries())
    if name not in nodes:
        root.fail(f"names no node {name!r}")
    return nodes[name]
