"""Our documents taken apart: the blocks that a reader would copy.

A block's first words say what it is: `sh` is typed, `yaml` is written to the file that its first line names, `text`
and `mermaid` are to be looked at. README's indented blocks are typed, too.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PLAYED = tuple(DOCS / f"{name}.md" for name in ("queues", "coming-from", "operations", "troubleshooting", "real-gpus"))
"""The documents that tests/cluster/test_documents.py plays, and beside them README."""

PLAYED_ELSEWHERE = {
    DOCS / "start.md": "tests/cluster/test_mock_start.py",
    DOCS / "mock-recipes.md": "tests/cluster/test_mock_recipes.py",
    DOCS / "security.md": "tests/cluster/test_admission.py",
}
"""Where a document is played that needs a cluster of another kind."""

NOT_PLAYED = {
    DOCS / "install.md": "it offers ways to choose from, of which tests/cluster/test_install.py applies each by itself",
}
"""Why a document with commands is not played from its first to its last."""

LOOKED_AT = frozenset({"text", "mermaid"})
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}\S.*\n)+", re.MULTILINE)
_NAME = re.compile(r"# (\S+\.ya?ml)\n")
_IN_WORDS = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """What stands between fences."""

    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that a YAML block is; empty if it does not say."""
        found = _NAME.match(self.text)
        return found[1] if found else ""


def blocks(document: Path) -> list[Block]:
    """All fenced blocks of a document."""
    return [Block(*found) for found in _BLOCK.findall(document.read_text())]


def indented(document: Path) -> list[str]:
    """The lines of the blocks that are indented, comments taken off."""
    found = _INDENTED.findall(_BLOCK.sub("", document.read_text()))
    return [re.sub(r"\s{2,}#.*", "", line).strip() for block in found for line in block.splitlines()]


def typed(document: Path, program: str) -> list[list[str]]:
    """The words of each command of a program that a document speaks of, in blocks and in sentences."""
    text = document.read_text()
    lines = [line for block in blocks(document) if block.language == "sh" for line in block.text.splitlines()]
    lines += [*indented(document), *_IN_WORDS.findall(_BLOCK.sub("", text))]
    parts = [part.strip(" ()") for line in lines for part in re.split(r"[;|&]|\$\(", re.sub(r"\s+#.*", "", line))]
    return [_words(part) for part in dict.fromkeys(parts) if re.match(rf"{program}( |$)", part)]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that ends on another line
        return text.split()
