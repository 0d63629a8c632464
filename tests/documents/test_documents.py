"""What the documents tell people to type, to write and to look at is there, as far as that shows without a cluster."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import click
import pytest
import yaml
from gpuyard.cli.main import gpuyard
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.engine.model.results import Reason

from tests.documents import manual
from tests.documents.blocks import (
    DOCS,
    LOOKED_AT,
    MADE,
    PLAYED,
    PLAYED_IN_PARTS,
    README,
    ROOT,
    blocks,
    indented,
    typed,
    typed_in,
)

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = [README, *sorted(DOCS.glob("*.md"))]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


TOLD = (DOCS / "troubleshooting.md").read_text()


@pytest.mark.parametrize("page", manual.PAGES)
def test_the_reference_is_that_of_the_code(page: str) -> None:
    assert (DOCS / page).read_text() == manual.PAGES[page](), "run `.venv/bin/python -m tests.documents.manual`"


def test_the_reference_has_every_setting() -> None:
    def names(given: type, above: str = "") -> set[str]:
        found: set[str] = set()
        for field in given.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(given(), field)
            name = above + given.__struct_encode_fields__[given.__struct_fields__.index(field)]  # type: ignore[attr-defined]
            inner = hasattr(value, "__struct_fields__")
            found |= names(type(value), f"{name}.") if inner else {name}
        return found

    assert {key for key, _, told in manual.known() if told} == names(ExtenderConfig)


OTHERS = ("Unreadable", "NotSeenYet", "SchedulerError")
"""The reasons that are not a queue's."""


@pytest.mark.parametrize("reason", [*map(str, Reason), *OTHERS])
def test_each_reason_has_a_section_that_says_what_helps(reason: str) -> None:
    assert f"### `{reason}`\n" in TOLD
    section = TOLD.partition(f"### `{reason}`\n")[2].partition("\n#")[0]
    assert "**Helps:**" in section


def test_no_section_is_about_a_reason_that_there_is_not() -> None:
    told = set(re.findall(r"^### `(\w+)`$", TOLD, re.MULTILINE))
    assert told == {*map(str, Reason), *OTHERS}


def anchors(document: Path) -> set[str]:
    """What a link may name after a `#`: each heading, in the letters that the web makes of it."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_what_a_document_points_to_is_there(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert "://" in link or target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", sorted(DOCS.glob("*.md")), ids=named)
def test_each_document_is_in_the_list_of_documents(document: Path) -> None:
    assert document.name == "README.md" or f"]({document.name})" in (DOCS / "README.md").read_text()


def has_commands(document: Path) -> bool:
    return bool(indented(document)) or any(block.language == "sh" for block in blocks(document))


def test_each_document_with_commands_is_played() -> None:
    known = [README, *PLAYED, *PLAYED_IN_PARTS]
    assert sorted(document for document in DOCUMENTS if has_commands(document)) == sorted(known)


SECTIONS = sorted(
    {(document, block.section) for document in PLAYED_IN_PARTS for block in blocks(document) if block.language == "sh"}
)


@pytest.mark.parametrize(("document", "section"), SECTIONS, ids=str)
def test_each_section_with_commands_is_named_by_the_test_that_plays_it(document: Path, section: str) -> None:
    texts = [(ROOT / "tests" / "cluster" / name).read_text() for name in PLAYED_IN_PARTS[document]]
    made = all(line in MADE for line in typed_in(document, section))
    assert made or any(f'"{section}"' in text for text in texts)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_nothing_is_typed_in_a_block_that_no_test_would_look_at(document: Path) -> None:
    assert {block.language for block in blocks(document)} <= {"sh", "yaml"} | LOOKED_AT
    assert document == README or indented(document) == []


def makes() -> list[str]:
    """Each call of make that a document for users tells."""
    words = [each for document in (README, *PLAYED, *PLAYED_IN_PARTS) for each in typed(document, "make")]
    return sorted({" ".join(each) for each in words})


@pytest.mark.parametrize("told", makes())
def test_what_a_document_has_made_is_what_other_tests_run(told: str) -> None:
    # The environment is there: that is what runs this, maybe under another make with settings of its own.
    own = {"PATH": os.environ["PATH"]}
    command = ["make", "-n", "BIN=bin", *told.split()[1:], "-o", "venv"]
    shown = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=30, check=True).stdout
    assert " ".join(shown.split()).removeprefix("bin/") == MADE[told]


def command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words call, and the words after it."""
    found: click.Command = gpuyard
    rest = words[1:]
    while rest and isinstance(found, click.Group):
        inner = found.get_command(click.Context(found), rest[0])
        if inner is None:
            break
        found, rest = inner, rest[1:]
    return found, rest


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_each_command_of_ours_is_there_with_its_options(document: Path) -> None:
    for words in typed(document, "gpuyard"):
        found, rest = command(words)
        callable_alone = not isinstance(found, click.Group) or not rest or rest[0].startswith("-") or rest[0].isupper()
        assert callable_alone, f"{' '.join(words)}: there is no such command"
        known = {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        used = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known, " ".join(words)


@pytest.mark.parametrize("document", PLAYED, ids=named)
def test_each_file_of_a_document_that_is_played_has_a_name(document: Path) -> None:
    assert all(block.file for block in blocks(document) if block.language == "yaml")


@pytest.mark.parametrize("document", PLAYED, ids=named)
def test_what_is_applied_is_there_or_was_written_before(document: Path) -> None:
    written: set[str] = set()
    for block in blocks(document):
        written.add(block.file)
        for path in re.findall(r" -[fk] ([^\s-]\S*)", block.text if block.language == "sh" else ""):
            assert path in written or (ROOT / path).exists() or f"snapshot save {path}" in document.read_text(), path


def test_registry_and_address_of_ones_own_are_put_wherever_they_stand() -> None:
    [line] = [each for each in typed_in(DOCS / "real-gpus.md", "2. Install the extender") if each.startswith("sed")]
    own = {"PATH": os.environ["PATH"], "REGISTRY": "registry.example/team", "ADDRESS": "172.20.0.77"}
    typing = ["/bin/sh", "-c", line.partition(" | ")[0]]
    shown = subprocess.run(typing, cwd=ROOT, env=own, capture_output=True, text=True, timeout=30, check=True).stdout
    images = set(re.findall(r"image: (\S+)", shown))
    assert {image.partition(":")[0] for image in images} == {"registry.example/team/gpuyard"}
    assert ("10.96." in shown, shown.count("172.20.0.77")) == (False, 1)


@pytest.mark.parametrize("document", PLAYED, ids=named)
def test_each_file_that_is_written_is_yaml_of_kubernetes(document: Path) -> None:
    for block in blocks(document):
        if block.language == "yaml":
            assert all({"apiVersion", "kind"} <= each.keys() for each in yaml.safe_load_all(block.text))
