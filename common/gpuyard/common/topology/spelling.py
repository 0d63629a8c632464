"""How each form spells the words of the model."""

from dataclasses import dataclass

from gpuyard.common.topology.model import Form


@dataclass(frozen=True, slots=True)
class Spelling:
    """The keys of one form. `usage` is the key of a GPU that the status updater owns."""

    product: str
    memory: str
    mig_strategy: str
    usage: str
    owner: str
    shares: str
    fb_used: str
    knative: str


METRICS = Spelling("gpu-product", "gpu-memory", "mig-strategy", "metrics", "metadata", "shares", "fb-used", "")
STATUS = Spelling(
    "gpu-product",
    "gpu-memory",
    "mig-strategy",
    "status",
    "allocated-by",
    "pod-gpu-usage-status",
    "fb-used",
    "use-knative-utilization",
)
NODE = Spelling(
    "gpuProduct",
    "gpuMemory",
    "migStrategy",
    "status",
    "allocatedBy",
    "podGpuUsageStatus",
    "fbUsed",
    "useKnativeUtilization",
)
OF_FORM = {Form.CLUSTER: METRICS, Form.CLUSTER_STATUS: STATUS, Form.NODE: NODE, Form.POOLS: NODE}

EXTRAS = frozenset(
    {
        "driverVersion",
        "cudaVersion",
        "fbReserved",
        "utilization",
        "sharing",
        "faults",
        "numa",
        "otherDevices",
        "profile",
    }
)
"""Keys of our own that a node or a pool may carry in every form."""
