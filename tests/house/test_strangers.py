"""A stranger has this repository and nothing else: no file leans on the place where it was written."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house import tree

# Put together from parts, so that this file does not contain what it forbids.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("goproxy", "io"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
    )
]
REGISTRY_SETTINGS = [
    rf"{name}\s*[=: ]\s*[\"']?https?:/" for name in ("index" + "-url", "GO" + "PROXY", "PIP_" + "INDEX_URL")
]
REGISTRY = re.compile("|".join([*map(re.escape, REGISTRY_HOSTS), *REGISTRY_SETTINGS]), re.IGNORECASE)
NEIGHBOURS = re.compile("|".join(["/" + "work/", r"\.\./" + "shared"]))


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in tree.texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize(
    "line",
    [
        "https://" + "pypi" + ".org/simple",
        "--index" + "-url https://mirror/simple",
        "GO" + "PROXY=https://mirror,direct",
    ],
)
def test_a_registry_would_be_noticed(line: str) -> None:
    assert REGISTRY.search(line)


def test_no_file_leans_on_what_lies_beside_the_repository() -> None:
    assert lines_with(NEIGHBOURS) == []


@pytest.mark.parametrize("name", ["base.txt", "dev.txt"])
def test_requirements_are_pinned_and_hashed(name: str) -> None:
    text = (tree.ROOT / "requirements" / name).read_text()
    requirements = re.split(r"\n(?=[a-z])", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(requirements) > 10
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement
        assert "://" not in requirement, requirement


def test_no_lock_file_that_records_addresses() -> None:
    assert [tree.named(path) for path in tree.files() if path.name == "uv.lock"] == []


def test_what_the_product_needs_is_in_the_locked_requirements() -> None:
    needed = {re.split(r"[><=~!\[]", name)[0] for name in tree.project()["project"]["dependencies"]}
    locked = set((tree.ROOT / "requirements" / "base.in").read_text().split())
    assert needed == locked


def test_actions_of_others_are_pinned_by_what_they_contain() -> None:
    uses = [
        line.strip()
        for name, text in tree.texts()
        if name.startswith(".github/")
        for line in text.splitlines()
        if "uses:" in line
    ]
    assert len(uses) >= 3
    assert [line for line in uses if not re.fullmatch(r"- uses: [\w/-]+@[0-9a-f]{40}  # v[\d.]+", line)] == []


def test_text_ends_where_it_ends() -> None:
    ragged = re.compile(r"[ \t]$|\r")
    assert lines_with(ragged) == []
    assert [name for name, text in tree.texts() if text and not text.endswith("\n")] == []


WAYS_OUT = {"pytest.skip", "pytest.xfail", "pytest.importorskip"} | {
    f"pytest.mark.{name}" for name in ("skip", "skipif", "xfail")
}


def unexplained(module: ast.Module) -> Iterator[int]:
    """Find skips and expected failures that do not say why."""
    explained = {id(node.func) for node in ast.walk(module) if isinstance(node, ast.Call) and says_why(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WAYS_OUT and id(node) not in explained:
            yield node.lineno


def says_why(call: ast.Call) -> bool:
    reason = next((word.value for word in call.keywords if word.arg == "reason"), None)
    if reason is None and ast.unparse(call.func) in {"pytest.skip", "pytest.xfail"} and call.args:
        reason = call.args[0]
    return reason is not None and ast.unparse(reason) not in {"''", "None"}


def test_a_skip_says_why() -> None:
    assert [f"{name}:{line}" for name, module in tree.python("tests") for line in unexplained(module)] == []


@pytest.mark.parametrize(
    "code",
    [
        "pytest.skip()",
        "@pytest.mark.skip\ndef f(): ...",
        "pytest.mark.skipif(True)",
        "pytest.skip('')",
        "pytest.importorskip('x')",
    ],
)
def test_a_silent_skip_would_be_noticed(code: str) -> None:
    assert list(unexplained(ast.parse(code))) == [1]


def test_a_skip_with_its_reason_is_let_be() -> None:
    code = "pytest.skip('needs root')\npytest.mark.skipif(True, reason='needs root')"
    assert list(unexplained(ast.parse(code))) == []
