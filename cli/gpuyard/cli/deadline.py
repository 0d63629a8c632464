"""An end to planning that takes too long, looked at whenever the engine says what it does.

Decided in docs/decisions.md: "Whoever plans for longer than ten minutes is told".
"""

from collections.abc import Callable
from time import monotonic

from gpuyard.engine.model.reporter import Silent
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.model.settings import Phase


class TooLong(Exception):  # noqa: N818 - reads as what it says of the plan
    """The time for one snapshot is over; there is no plan."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"not planned within {seconds} s; give it more by --timeout, or ask for fewer --cycles")


class Deadline(Silent):
    """A reporter that raises `TooLong` once so many seconds have passed since it was made."""

    def __init__(self, seconds: int, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def refused(self, workload: str, why: Waiting) -> None:  # noqa: ARG002 - what is told does not matter
        """See `Reporter`."""
        self._look()

    def placed(self, pod: str, node: str, *, now: bool) -> None:  # noqa: ARG002
        """See `Reporter`."""
        self._look()

    def no_room(self, pod: str) -> None:  # noqa: ARG002
        """See `Reporter`."""
        self._look()

    def tried(self, phase: Phase, workload: str, victims: tuple[str, ...], *, success: bool) -> None:  # noqa: ARG002
        """See `Reporter`."""
        self._look()

    def skipped(self, phase: Phase, workload: str, like: str) -> None:  # noqa: ARG002
        """See `Reporter`."""
        self._look()

    def paused(self) -> None:
        """See `Reporter`."""
        self._look()

    def _look(self) -> None:
        if self._clock() > self._end:
            raise TooLong(self._seconds)
