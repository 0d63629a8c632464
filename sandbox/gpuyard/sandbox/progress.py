"""Says on stderr what is being done and since when, one line a step."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable


class Progress:
    """Call it with a sentence: it prints the seconds since it was made, and the sentence."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._begin = clock()

    def elapsed(self) -> float:
        """Seconds since this progress was made."""
        return self._clock() - self._begin

    def __call__(self, text: str) -> None:
        """Print one line at once."""
        print(f"[{self.elapsed():6.1f} s] {text}", file=self._stream or sys.stderr, flush=True)
