"""The documents of the mock, taken apart: sections, and the blocks in them that a reader would copy."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DOCS = Path(__file__).parents[2] / "docs"
START, TOPOLOGY, RECIPES = DOCS / "start.md", DOCS / "mock.md", DOCS / "mock-recipes.md"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# (\S+\.ya?ml)\n")


class Block(NamedTuple):
    """What stands between fences: `sh` or `yaml`; YAML begins with the name of its file."""

    section: str
    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that a YAML block is."""
        found = _NAME.match(self.text)
        assert found, f"{self.section}: a YAML block without a name in its first line"
        return found[1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects of a YAML block that is applied; none of a bare topology."""
        return [each for each in yaml.safe_load_all(self.text) if "kind" in each]


def blocks(document: Path) -> list[Block]:
    """All blocks of a document."""
    _, *parts = _SECTION.split(document.read_text())
    sections = zip(parts[::2], parts[1::2], strict=True)
    return [Block(name, *found) for name, text in sections for found in _BLOCK.findall(text)]


def commands(block: Block) -> list[str]:
    """The lines of a shell block, without what a comment says."""
    return [re.sub(r"\s+#.*", "", line) for line in block.text.splitlines()]
