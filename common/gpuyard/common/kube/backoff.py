"""How long to wait before trying again: longer each time, never the same for two of us."""

from collections.abc import Callable


class Backoff:
    """Doubling delays between `first` and `longest`, each shortened by up to half by chance.

    `longest` bounds how late we notice that the API server is back, so it is short: a refused connection costs nobody
    anything, a stale cache costs decisions.
    """

    def __init__(self, chance: Callable[[], float], first: float = 0.1, longest: float = 3.0) -> None:
        self._chance = chance
        self._first = first
        self._longest = longest
        self._next = first

    def delay(self, at_least: float = 0) -> float:
        """Seconds to wait now; `at_least` is what the server itself asked for."""
        base, self._next = self._next, min(self._next * 2, self._longest)
        return max(base * (1 - self._chance() / 2), at_least)

    def reset(self) -> None:
        """All is well again: the next delay is the first one."""
        self._next = self._first
