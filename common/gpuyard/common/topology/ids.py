"""Ids that stay: one GPU keeps one id in the topology, in kubelet, in a pod's status and in the metrics.

kubelet remembers allocations by device id across restarts, so an id is either what the user wrote or a pure
function of the node's name and the GPU's index.
"""

from uuid import UUID, uuid5

NIL = UUID(int=0)
REPLICA = "::"
MAX_LENGTH = 63
FIRST_BUS = 0x07
MAX_GPUS = 0x100 - FIRST_BUS


def gpu_id(node: str, index: int) -> str:
    """The id of a GPU that the topology gives none."""
    return f"GPU-{uuid5(NIL, f'{node}-{index}')}"


def mig_id(gpu: str, profile: str, n: int) -> str:
    """The id of the n-th MIG instance of one profile on a GPU."""
    return f"MIG-{uuid5(NIL, f'{gpu}-{profile}-{n}')}"


def replica_id(device: str, n: int) -> str:
    """The id under which kubelet knows one share of a time-sliced device."""
    return f"{device}{REPLICA}{n}"


def physical_id(device: str) -> str:
    """The device behind a kubelet device id, replica or not."""
    return device.partition(REPLICA)[0]


def other_id(resource: str, n: int) -> str:
    """The id of the n-th device of another resource, such as `example.com/x`."""
    return f"{resource.replace('/', '-')}-{n}"


def pci_bus_id(index: int) -> str:
    """The PCI address of GPU `index`."""
    return f"00000000:{FIRST_BUS + index:02X}:00.0"
