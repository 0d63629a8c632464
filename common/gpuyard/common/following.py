"""What is read from files that may change while we run. What cannot be used never replaces what could.

They are read every few seconds: that also sees a mounted ConfigMap or Secret, whose files change by a swapped link.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from gpuyard.common.settings import SettingsError, Strict, ignore, load

T = TypeVar("T")
K = TypeVar("K", bound=Strict)


class Following(ABC, Generic[T]):
    """Follows files. `changed` is told of what is new, `refused` of each new problem, once."""

    what = "settings"
    interval = 2.0
    """Seconds between two looks."""

    def __init__(
        self,
        current: T,
        *,
        changed: Callable[[T], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.current = current
        """What was read last and could be used."""
        self.problem = ""
        """Why the files cannot be used at this moment."""
        self._changed = changed
        self._refused = refused

    @abstractmethod
    def read(self) -> T:
        """What the files say; raises `SettingsError`."""

    async def run(self) -> NoReturn:
        """Follow the files until cancelled."""
        while True:
            await asyncio.sleep(self.interval)
            self.poll()

    def poll(self) -> None:
        """Look once."""
        try:
            found = self.read()
        except SettingsError as error:
            if str(error) != self.problem:
                self._refused(f"{error}; the last good {self.what} stay in force" if self.current else str(error))
            self.problem = str(error)
            return
        self.problem = ""
        if found != self.current:
            before, self.current = self.current, found
            if before:
                self._changed(found)


class FollowedSettings(Following[K]):
    """The settings in a file. The first time it has to be good: nothing is in force yet."""

    def __init__(
        self,
        path: Path,
        kind: type[K],
        *,
        changed: Callable[[K], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
        warned: Callable[[str], None] = ignore,
    ) -> None:
        """Read the file for the first time; raises `SettingsError`. `warned` is told of each new warning, once."""
        self._path = path
        self._kind = kind
        self._warned = warned
        self._warnings: frozenset[str] = frozenset()
        super().__init__(self.read(), changed=changed, refused=refused)

    def read(self) -> K:
        """The settings as they are now."""
        warnings: list[str] = []
        found = load(self._path, self._kind, warnings.append)
        for warning in warnings:
            if warning not in self._warnings:
                self._warned(warning)
        self._warnings = frozenset(warnings)
        return found
