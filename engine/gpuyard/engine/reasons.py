"""Why each pod waits at the end of a cycle: one reason of the closed list, with its facts."""

from gpuyard.engine.plan import Cycle
from gpuyard.engine.result import Reason, Waiting


def waiting_reasons(cycle: Cycle) -> dict[str, Waiting]:
    """The reason of every pod that waits, by pod."""
    return {}


_ = Reason
