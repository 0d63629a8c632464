"""The yardstick: a fixed piece of work, so that figures are multiples of it and mean the same on any machine."""

import time

ROUNDS = 3_000_000
KEYS = 5_000


def loop() -> float:
    """Run the calibration loop once; the seconds it took."""
    counts: dict[int, int] = {}
    start = time.perf_counter()
    for i in range(ROUNDS):
        counts[i % KEYS] = counts.get(i % KEYS, 0) + i
    return time.perf_counter() - start
