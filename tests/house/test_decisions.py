"""Each rationale is named where it is needed: by the module, or the file, that it explains."""

import re

from tests.house import tree

NAMED = re.compile(r'Decided in (?:docs/decisions\.md|\[docs/decisions\.md\]\([^)]*\)): ((?:"[^"]+"(?:; )?)+)\.')


def flowing(text: str) -> str:
    """A text without its line breaks, and the marks of comments."""
    return " ".join(line.strip().removeprefix("# ") for line in text.splitlines())


def test_each_decision_is_named_by_the_module_that_it_explains_and_no_other_is() -> None:
    titles = set(re.findall(r"^## (.*)$", (tree.ROOT / "docs/decisions.md").read_text(), re.MULTILINE))
    named = {
        title
        for name, text in tree.texts()
        if "Decided in" in text and not name.startswith("tests/house")
        for found in NAMED.findall(flowing(text))
        for title in re.findall(r'"([^"]+)"', found)
    }
    assert named == titles
