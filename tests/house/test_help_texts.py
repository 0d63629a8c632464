"""Help texts say what a command or an option does; docs/commands.md holds all of them, as another test shows."""

import re

import pytest

from tests.house import tree

RIDDLES = ("What", "Who", "Whether", "It", "Where")


def help_texts() -> list[str]:
    """The first sentence of each command, and the text of each option."""
    page = (tree.ROOT / "docs/commands.md").read_text()
    commands = re.findall(r"^###? `[^\n]+`\n\n([^\n|]+)$", page, re.MULTILINE)
    return commands + re.findall(r"^\| `-[^|]*(?:\\\|[^|]*)*\| ([^|]+) \|$", page, re.MULTILINE)


def riddles(texts: list[str]) -> list[str]:
    return [text for text in texts if text.split(" ", 1)[0].capitalize().rstrip(",") in RIDDLES]


@pytest.mark.row("P-05")
def test_no_help_text_begins_with_a_word_that_stands_for_a_thing() -> None:
    assert len(help_texts()) > 100
    assert riddles(help_texts()) == []


@pytest.mark.row("P-05")
def test_such_a_help_text_would_be_found() -> None:
    assert riddles(["What it is made of.", "Show it.", "where it is"]) == ["What it is made of.", "where it is"]
