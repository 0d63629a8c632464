"""What the documents tell people to type, to write and to look at is there, as far as that shows without a cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest
import yaml
from gpuyard.cli.main import gpuyard
from gpuyard.engine.result import Reason
from gpuyard.extender.config import ExtenderConfig

from tests.documents import manual
from tests.documents.blocks import (
    DOCS,
    LOOKED_AT,
    NOT_PLAYED,
    PLAYED,
    PLAYED_ELSEWHERE,
    README,
    ROOT,
    blocks,
    indented,
    typed,
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


@pytest.mark.parametrize("reason", [*map(str, Reason), "Unreadable", "SchedulerError"])
def test_each_reason_has_a_section_that_says_what_helps(reason: str) -> None:
    assert f"### `{reason}`\n" in TOLD
    section = TOLD.partition(f"### `{reason}`\n")[2].partition("\n#")[0]
    assert "**Helps:**" in section


def test_no_section_is_about_a_reason_that_there_is_not() -> None:
    told = set(re.findall(r"^### `(\w+)`$", TOLD, re.MULTILINE))
    assert told == {*map(str, Reason), "Unreadable", "SchedulerError"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_what_a_document_points_to_is_there(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", sorted(DOCS.glob("*.md")), ids=named)
def test_each_document_is_in_the_list_of_documents(document: Path) -> None:
    assert document.name == "README.md" or f"]({document.name})" in (DOCS / "README.md").read_text()


def has_commands(document: Path) -> bool:
    return bool(indented(document)) or any(block.language == "sh" for block in blocks(document))


def test_each_document_with_commands_is_played_or_it_is_said_why_not() -> None:
    known = [README, *PLAYED, *PLAYED_ELSEWHERE, *NOT_PLAYED]
    assert sorted(document for document in DOCUMENTS if has_commands(document)) == sorted(known)


@pytest.mark.parametrize("document", PLAYED_ELSEWHERE, ids=named)
def test_what_is_played_elsewhere_is_taken_apart_there(document: Path) -> None:
    names = {"start.md": "blocks(START)", "mock-recipes.md": "blocks(RECIPES)"}
    player = (ROOT / PLAYED_ELSEWHERE[document]).read_text()
    assert names.get(document.name, f'blocks(DOCS / "{document.name}")') in player


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
def test_each_block_of_a_document_that_is_played_is_typed_or_written_or_only_looked_at(document: Path) -> None:
    found = blocks(document)
    assert {block.language for block in found} <= {"sh", "yaml"} | LOOKED_AT
    assert all(block.file for block in found if block.language == "yaml")
    # Nothing is typed that this would overlook.
    assert indented(document) == []


@pytest.mark.parametrize("document", PLAYED, ids=named)
def test_what_is_applied_is_there_or_was_written_before(document: Path) -> None:
    written: set[str] = set()
    for block in blocks(document):
        written.add(block.file)
        for path in re.findall(r" -[fk] (\S+)", block.text if block.language == "sh" else ""):
            assert path in written or (ROOT / path).exists() or f"snapshot save {path}" in document.read_text(), path


@pytest.mark.parametrize("document", PLAYED, ids=named)
def test_each_file_that_is_written_is_yaml_of_kubernetes(document: Path) -> None:
    for block in blocks(document):
        if block.language == "yaml":
            assert all({"apiVersion", "kind"} <= each.keys() for each in yaml.safe_load_all(block.text))
