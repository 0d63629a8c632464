"""The work of stepwise functions, counted instead of timed: the count is the same on any machine."""

import sys
from collections.abc import Callable, Iterator


def most_calls(steps: Iterator[object]) -> int:
    """The calls of functions in the step that makes the most: each look at a pod, a node or a label is one at least."""
    most = calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in steps:
            most, calls = max(most, calls), 0
    finally:
        sys.setprofile(before)
    return max(most, calls)
