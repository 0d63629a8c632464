"""Usage written into the document that the user wrote, in the form it came in.

Only the lines of the usage part change: everything else, comments and order and spelling, stays byte for byte.
The places come from the same node graph that was read, so a large map costs one parse by libyaml.

Decided in docs/decisions.md: "Usage is written into the topology as text, not by a YAML writer".
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import yaml
from gpuyard.common.topology.document import Element, check_size, compose, without_mark
from gpuyard.common.topology.hardware import plain_extras
from gpuyard.common.topology.model import FREE, Form, Gpu, Node, Pool, Topology, Usage
from gpuyard.common.topology.pools import node_of
from gpuyard.common.topology.reading import form_of, is_counted, read_root
from gpuyard.common.topology.spelling import NODE, OF_FORM
from gpuyard.common.topology.usage import Plain, plain_usage

Usages = Mapping[str, Mapping[str, Usage]]
"""Usage by node and device id; a device that is not named is free."""


class Edit(NamedTuple):
    """Characters `start` to `end` give way to `text`."""

    start: int
    end: int
    text: str


def with_usage(node: Node, usage: Mapping[str, Usage]) -> Node:
    """The node with this usage and no other."""
    return replace(node, gpus=tuple(_used(gpu, usage) for gpu in node.gpus))


def _used(gpu: Gpu, usage: Mapping[str, Usage]) -> Gpu:
    slices = gpu.mig and tuple(replace(each, usage=usage.get(each.id, FREE)) for each in gpu.mig)
    return replace(gpu, usage=usage.get(gpu.id, FREE), mig=slices)


def write(text: str, usages: Usages, node: str = "") -> str:
    """The document with this usage; the very same text when the document says so already.

    Raises:
        TopologyError: the document cannot be read, or would grow beyond what a ConfigMap holds.
    """
    mark, text = without_mark(text)
    root = compose(text)
    topology = read_root(root, node, profiles=None)
    wanted = {name: with_usage(found, usages.get(name, {})) for name, found in topology.nodes.items()}
    parts: list[str] = []
    done = 0
    for edit in sorted(_edits(text, root, topology, wanted)):
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    written = "".join([mark, *parts, text[done:]])
    check_size(written)
    return written


def differs(topology: Topology, usages: Usages) -> bool:
    """Whether a document that says `topology` would have to be written anew to say this usage."""
    spelling = OF_FORM[topology.form]
    return any(
        plain_usage(gpu, spelling) != plain_usage(_used(gpu, usages.get(name, {})), spelling)
        for name, node in topology.nodes.items()
        for gpu in node.gpus
    )


def per_node_document(pool: Pool, name: str) -> str:
    """The document that one node of a pool gets."""
    node = node_of(pool, name)
    hardware = node.hardware
    plain: Plain = {NODE.memory: hardware.memory, NODE.product: hardware.product}
    plain["gpus"] = [{"id": gpu.id} for gpu in node.gpus]
    plain[NODE.mig_strategy] = hardware.mig_strategy.value
    return _dump(plain | plain_extras(hardware))


def _edits(text: str, root: Element, topology: Topology, wanted: Mapping[str, Node]) -> Iterator[Edit]:
    spelling = OF_FORM[topology.form]
    for name, gpus in _gpu_nodes(root):
        # The per-node form does not name its node: it has just the one.
        node = wanted[name] if name else next(iter(wanted.values()))
        before = topology.nodes[node.name]
        for yaml_node, gpu, old in zip(gpus, node.gpus, before.gpus, strict=True):
            # Compared as written: one form knows less of a usage than another, and what it cannot say never differs.
            if (plain := plain_usage(gpu, spelling)) != plain_usage(old, spelling):
                yield edit_of(text, yaml_node, spelling.usage, plain or None)


def _gpu_nodes(root: Element) -> Iterator[tuple[str, Sequence[yaml.MappingNode]]]:
    keys = dict(root.entries())
    form = form_of(root)
    if form is Form.NODE:
        yield "", _mappings(keys["gpus"])
    # Pools have no place for usage: each of their nodes has a map of its own.
    if form in {Form.NODE, Form.POOLS}:
        return
    for name, body in keys["nodes"].entries():
        if is_counted(body):
            continue
        yield name, _mappings(dict(body.entries())["gpus"])


def _mappings(gpus: Element) -> list[yaml.MappingNode]:
    items = [] if gpus.empty else gpus.items()
    return [item.node for item in items if isinstance(item.node, yaml.MappingNode)]


def edit_of(text: str, gpu: yaml.MappingNode, key: str, value: object) -> Edit:
    """What to replace so that the mapping has this value under the key; None: it has not the key at all."""
    position = next((i for i, (name, _) in enumerate(gpu.value) if name.value == key), None)
    change = _flow_edit if gpu.flow_style else _block_edit
    return change(text, gpu, position, {} if value is None else {key: value})


def _flow_edit(text: str, gpu: yaml.MappingNode, position: int | None, plain: Plain) -> Edit:
    written = _flow(text, gpu, plain)
    pairs = gpu.value
    if position is None:
        if not written:
            return Edit(0, 0, "")
        if not pairs:
            start = gpu.start_mark.index + 1
            return Edit(start, start, written)
        end = _end(text, pairs[-1])
        return Edit(end, end, f", {written}")
    start, end = _begin(text, pairs[position]), _end(text, pairs[position])
    if written:
        return Edit(start, end, written)
    if position:
        return Edit(_end(text, pairs[position - 1]), end, "")
    return Edit(start, _begin(text, pairs[1]) if len(pairs) > 1 else end, "")


def _flow(text: str, gpu: yaml.MappingNode, plain: Plain) -> str:
    """`metrics: {…}`; in a document that is JSON, the key has quotes as well."""
    if not plain:
        return ""
    [(key, value)] = plain.items()
    quoted = gpu.value[0][0].style == '"' if gpu.value else text.lstrip().startswith("{")
    return f"{json.dumps(key) if quoted else key}: {json.dumps(value)}"


def _block_edit(text: str, gpu: yaml.MappingNode, position: int | None, plain: Plain) -> Edit:
    first = gpu.value[0][0].start_mark
    column = first.column - (first.index - _begin(text, gpu.value[0]))
    written = _indented(_dump(plain), column) if plain else ""
    if position is None and not written:
        return Edit(0, 0, "")
    if position is None:
        return _appended(text, _line_end(text, _end(text, gpu.value[-1])), column, written)
    start = _begin(text, gpu.value[position])
    end = _line_end(text, _end(text, gpu.value[position]))
    if written:
        return Edit(start, end, written)
    if text[start - column : start].isspace():
        return Edit(start - column, min(end + 1, len(text)), "")
    if len(gpu.value) == 1:
        return Edit(start, end, "{}")
    # The first key stands behind the dash: what follows moves up to it, be it the comment on the next key.
    follows = _begin(text, gpu.value[1])
    return Edit(start, follows, text[end:follows].lstrip())


def _appended(text: str, end: int, column: int, written: str) -> Edit:
    """A new key goes below the comments that belong to its mapping: one of them announces it, as a rule."""
    while end < len(text):
        line = text[end + 1 : _line_end(text, end + 1)]
        if not line.startswith(" " * column + "#"):
            break
        end += 1 + len(line)
    return Edit(end, end, f"\n{' ' * column}{written}")


def _begin(text: str, pair: tuple[yaml.Node, yaml.Node]) -> int:
    """Where a pair begins: at its key, or at the question mark that may announce one on its line."""
    start = at = int(pair[0].start_mark.index)
    while at and text[at - 1] == " ":
        at -= 1
    return at - 1 if at < start and text[at - 1 : at] == "?" else start


def _end(text: str, pair: tuple[yaml.Node, yaml.Node]) -> int:
    """Where a key's value ends. A block's own end mark lies behind the blank lines and comments that follow it."""
    key, value = pair
    while not getattr(value, "flow_style", True) and value.value:
        last = value.value[-1]
        value = last[1] if isinstance(last, tuple) else last
    end = int(value.end_mark.index)
    # An alias carries the marks of its anchor, and an empty value those of what comes next.
    if end <= key.end_mark.index or value.start_mark.index == end:
        end = _line_end(text, key.end_mark.index)
    return len(text[:end].rstrip())


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


def _dump(plain: Plain) -> str:
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10**9)


def _indented(block: str, column: int) -> str:
    return block.rstrip("\n").replace("\n", "\n" + " " * column)
