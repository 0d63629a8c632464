"""How much of the machine others use: limits of time are for an idle one."""

import os

AT_MOST = 6.0
"""On a machine that is busier than that, a test that waits for what never comes should end all the same."""


def others_share() -> float:
    """How much longer than on an idle machine work may take now: as many processes as share each processor."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), AT_MOST)
