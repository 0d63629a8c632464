"""How much of the machine others use: limits of time are for an idle one."""

import os


def others_share() -> float:
    """How much longer than on an idle machine work may take now: as many processes as share each processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
