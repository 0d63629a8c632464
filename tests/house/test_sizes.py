"""Nothing is too long to be read in one sitting."""

import ast
from collections.abc import Iterator

from tests.house import tree

LONGEST_FUNCTION = 70
LONGEST_MODULE = 600


def functions(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Give each function with its lines, the docstring not counted."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, length(node)


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return lines - docstring_lines(node)


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def test_a_module_is_read_in_one_sitting() -> None:
    lines = {name: len(text.splitlines()) for name, text in tree.texts() if name.endswith(".py") and "_pb2" not in name}
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}


def test_a_function_fits_on_a_screen() -> None:
    assert {
        f"{name}: {function}": lines
        for name, module in tree.python()
        for function, lines in functions(module)
        if lines > LONGEST_FUNCTION
    } == {}


def test_a_function_is_measured_without_its_docstring() -> None:
    module = ast.parse(
        'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n\nclass C:\n    async def g(self): ...\n'
    )
    assert dict(functions(module)) == {"f": 2, "g": 1}
