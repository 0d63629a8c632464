"""Our documents taken apart: the blocks that a reader would copy.

A block's first words say what it is: `sh` is typed, `yaml` is written to the file that its first line names, `text`
and `mermaid` are to be looked at. README's indented blocks are typed, too.

Decided in docs/decisions.md: "Documents are played, and part of them is made from the code".
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
START, RECIPES, TOPOLOGY = DOCS / "start.md", DOCS / "mock-recipes.md", DOCS / "mock.md"
PLAYED = tuple(DOCS / f"{name}.md" for name in ("queues", "coming-from", "operations", "troubleshooting", "real-gpus"))
"""The documents that tests/cluster/test_documents.py plays from the first block to the last, and beside them README."""

PLAYED_IN_PARTS = {
    START: ("test_mock_start.py", "test_sandbox_kind.py"),
    DOCS / "install.md": (
        "test_install.py",
        "test_sandbox_kind.py",
        "test_upgrade.py",
        "test_wiring.py",
        "test_wiring_kind.py",
    ),
    RECIPES: ("test_mock_recipes.py",),
    DOCS / "security.md": ("test_admission.py", "test_install.py", "test_wiring_kind.py"),
}
"""Documents whose sections need clusters of their own: the modules of tests/cluster, which name what they play."""

MADE = {
    "make demo": "gpuyard demo --ground processes",
    "make demo GROUND=kind": "gpuyard demo --ground kind",
    "make demo-down": "gpuyard demo --down",
    "make demo-down GROUND=kind": "gpuyard demo --ground kind --down",
    "make image": "python -m gpuyard.sandbox.kind.product",
    "make test": "python -m tests.run",
    "make venv": "make: Nothing to be done for 'venv'.",
}
"""What each `make` of our documents does in the end; test_demo.py, test_demo_kind.py, test_sandbox_kind.py play it."""

LOOKED_AT = frozenset({"text", "mermaid"})
_SECTION = re.compile(r"^##+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}\S.*\n)+", re.MULTILINE)
_NAME = re.compile(r"# (\S+\.ya?ml)\n")
_IN_WORDS = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """What stands between fences."""

    language: str
    text: str
    section: str

    @property
    def file(self) -> str:
        """The file that a YAML block is; empty if it does not say."""
        found = _NAME.match(self.text)
        return found[1] if found else ""

    @property
    def lines(self) -> list[str]:
        """Its lines, comments taken off."""
        return [_bare(line) for line in self.text.splitlines()]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects of a YAML block that is applied; none of a bare topology."""
        return [each for each in yaml.safe_load_all(self.text) if "kind" in each]


def blocks(document: Path) -> list[Block]:
    """All fenced blocks of a document, with the heading that they are under."""
    parts = ["", *_SECTION.split(document.read_text())]
    sections = zip(parts[::2], parts[1::2], strict=True)
    return [Block(language, text, name) for name, part in sections for language, text in _BLOCK.findall(part)]


def typed_in(document: Path, section: str) -> list[str]:
    """The lines that are typed in a section, comments taken off."""
    found = [block for block in blocks(document) if (block.language, block.section) == ("sh", section)]
    assert found, f"{document.name} has no block to be typed under {section!r}"
    return [line for block in found for line in block.lines]


def indented(document: Path) -> list[str]:
    """The lines of the blocks that are indented, comments taken off."""
    found = _INDENTED.findall(_BLOCK.sub("", document.read_text()))
    return [_bare(line).strip() for block in found for line in block.splitlines()]


def _bare(line: str) -> str:
    return re.sub(r"\s{2,}#.*", "", line)


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
