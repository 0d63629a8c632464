"""Files of every kind become objects, and what is none is told by file and place."""

from pathlib import Path

import pytest
from gpuyard.cli.files import gather, take
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.decode import Harvest

from tests.cli.shell import run
from tests.engine.kube.written import node


def taken(text: str | bytes) -> Harvest:
    harvest = Harvest()
    take(harvest, "f", text.encode() if isinstance(text, str) else text)
    return harvest


def names(harvest: Harvest) -> list[str]:
    return [one.object.metadata.name or "" for one in harvest.found if one.object.metadata]


@pytest.mark.parametrize(
    "text",
    [
        "kind: Node\nmetadata: {name: a}\n---\n\n---\nkind: Node\nmetadata: {name: b}\n",
        '{"kind": "Node", "metadata": {"name": "a"}}\n{"kind": "Node", "metadata": {"name": "b"}}\n',
        '{"kind": "Node", "metadata": {"name": "a"}}\n---\n{"kind": "Node", "metadata": {"name": "b"}}',
        ' {"kind": "NodeList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}',
        "{kind: Node, metadata: {name: a}}\n---\n{kind: Node, metadata: {name: b}}\n",
        "kind: List\nitems:\n- &x {kind: Node, metadata: {name: a}}\n- {<<: *x, metadata: {name: b}}\n",
    ],
    ids=["yaml", "json-stream", "json-documents", "list", "flow-style", "aliases"],
)
def test_several_documents_in_every_notation(text: str) -> None:
    harvest = taken(text)
    assert not harvest.faults
    assert names(harvest) == ["a", "b"]


def test_numbers_and_times_of_yaml_mean_what_they_do_in_kubernetes() -> None:
    text = """
        kind: Queue
        metadata: {name: q, creationTimestamp: 2026-01-01T00:00:00Z, labels: {build: on, time: 12:30:00}}
        spec: {priority: 100, resources: {gpu: {quota: 0.3, limit: -1}}}
    """
    harvest = taken(text)
    assert not harvest.faults
    (found,) = harvest.found
    assert isinstance(found.object, objects.Queue)
    assert found.object.metadata is not None
    assert found.object.metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert found.object.metadata.labels == {"build": "on", "time": "12:30:00"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: Pod\nkind: Node", "f: line 2, column 1: not YAML: kind stands twice"),
        ("a: [1\nb: 2", "f: line 2, column 2: not YAML: did not find expected ',' or ']'"),
        ('{"kind": "Node"', "f: not JSON: Input data was truncated (byte 15)"),
        ("{]", "f: not JSON: JSON is malformed: object keys must be strings (byte 1)"),
        ("a: !!python/object:os.system {}", "not YAML: could not determine a constructor"),
        ("just words", "f: expected object, got str"),
        ("- kind: Node", "f: expected object, got array"),
        (b"kind: \xff\xfe", "f: 'utf-8' codec can't decode byte 0xff in position 6"),
        (b'{"kind": "Pod", "spec": {"tolerations": [{"key": "\xe5"}]}}', "f: 'utf-8' codec can't decode byte 0xe5"),
        ("kind: Node\nmetadata: {name: n}\nspec: 1e999", "f: line 3: 1e999 is too large a number"),
        ("[" * 100_000, "f: "),
        ("a: " + "[" * 5_000, "f: nested too deeply"),
        ("a: " + "[" * 200_000, "f: nested too deeply"),
        ("- " * 100_000, "f: nested too deeply"),
        ("a: &a [*a]", "f: "),
        ("? [1, 2]\n: 3", "f: "),
        ("a: !!timestamp soon", "a value is not what its tag says"),
        ("a: !!bool soon", "a value is not what its tag says"),
    ],
    ids=[
        "twice",
        "yaml",
        "truncated",
        "malformed",
        "tag",
        "scalar",
        "list",
        "bytes",
        "bytes-in-json",
        "infinite",
        "deep-json",
        "deep-yaml",
        "deeper-yaml",
        "deep-yaml-by-dashes",
        "circle",
        "key",
        "no-date",
        "no-truth",
    ],
)
def test_what_is_no_document_is_told_by_file_and_place(text: str | bytes, line: str) -> None:
    lines = [str(fault) for fault in taken(text).faults]
    assert len(lines) == 1
    assert line in lines[0]


def test_aliases_cannot_fill_the_memory() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert [str(f) for f in taken(bomb).faults] == ["f: aliases expand to more than 1000000 values"]


def test_a_folder_stands_for_its_files_and_not_for_what_is_below(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("{kind: Node, metadata: {name: b}}")
    (tmp_path / "a.json").write_text('{"kind": "Node", "metadata": {"name": "a"}}')
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text("{kind: Node, metadata: {name: c}}")
    assert names(gather([str(tmp_path)])) == ["a", "b"]


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.yaml")
    assert [str(f) for f in gather([path]).faults] == [f"{path}: no such file or directory"]


def test_a_dash_is_standard_input() -> None:
    result = run("plan", "-f", "-", "-o", "json", stdin=str(node()).replace("'", '"'))
    assert (result.code, result.answer["final"]) == (0, {})
