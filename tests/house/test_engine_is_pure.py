"""The engine decides: whole numbers in, whole numbers out, no clock, no chance, no world outside."""

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.house import tree

WORLD = {
    "asyncio", "calendar", "concurrent", "datetime", "http", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "secrets", "selectors", "shutil", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading",
    "time", "urllib", "uuid", "zoneinfo",
}  # fmt: skip
ALLOWED = (set(sys.stdlib_module_names) - WORLD) | {"msgspec", "__future__"}
BY_HASH = "engine/gpuyard/engine/model/persistent.py calls hash"
"""Its entries lie by their hash; that nothing follows from it is shown in tests/engine/test_persistent.py."""

OUTSIDE = {"open", "input", "print", "id", "hash", "float", "round"}


def impurities(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if what := impurity(node):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def impurity(node: ast.AST) -> str:
    match node:
        case ast.Import(names=names):
            return next((f"imports {name.name}" for name in names if not is_allowed(name.name)), "")
        case ast.ImportFrom(module=str(name)) if not is_allowed(name):
            return f"imports {name}"
        case ast.Constant(value=float()):
            return "a number that is not whole"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "a division that leaves whole numbers"
        case ast.Call(func=ast.Name(id=name)) if name in OUTSIDE:
            return f"calls {name}"
    return ""


def is_allowed(module: str) -> bool:
    return module.partition(".")[0] in ALLOWED or module == "gpuyard.engine" or module.startswith("gpuyard.engine.")


def test_the_engine_is_pure() -> None:
    found = [(name, what) for name, module in tree.python("engine") for what in impurities(module)]
    assert [f"{name} {what}" for name, what in found if f"{name} {what.partition(': ')[2]}" != BY_HASH] == []


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "import os.path",
        "from random import choice",
        "from datetime import datetime",
        "import yaml",
        "from gpuyard.common import version",
        "share = 0.5",
        "a = b / c",
        "a /= c",
        "float(x)",
        "open('f')",
    ],
)
def test_an_impurity_would_be_noticed(code: str) -> None:
    assert len(list(impurities(ast.parse(code)))) == 1


def test_whole_numbers_and_the_engines_own_modules_are_let_be() -> None:
    code = "import itertools\nimport msgspec\nfrom gpuyard.engine.model import Queue\na = b // c\nd //= 2"
    assert list(impurities(ast.parse(code))) == []
