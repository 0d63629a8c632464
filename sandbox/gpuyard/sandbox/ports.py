"""Chooses TCP ports on this machine's loopback address.

Decided in docs/decisions.md: "A sandbox's ports lie below those of outgoing connections".
"""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Below the range from which the kernel takes the ports of outgoing connections: while a component is down for a
# moment, no client's own connection can sit on its port (a client that retries may even connect to itself).
FIRST, LAST = 20_000, 29_999


def candidates(chance: random.Random | None = None) -> Iterator[int]:
    """Ports in the order in which to try them; random, so that sandboxes beside each other seldom collide."""
    chance = chance or random.Random()  # noqa: S311 - no secret
    while True:
        yield chance.randint(FIRST, LAST)


def free(ports: Iterable[int]) -> int:
    """The first of the ports on which nobody listens."""
    return next(port for port in ports if not taken(port))


def taken(port: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as probe:
        # As servers do: what is left of closed connections does not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
