"""The 25 families that NVIDIA's exporter serves by default: names, texts, and each one's value of a reading.

The texts are the wire format: dashboards, alerts and `promtool` compare them literally.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpuyard.dcgm_exporter.readings import Device, Reading

INTEGER = "%d"
FLOAT = "%f"


def always(_: Device) -> bool:
    """Every device has it."""
    return True


def whole(device: Device) -> bool:
    """Only a card that is not cut into slices has it."""
    return device.gpu.mig is None


def has_memory(device: Device) -> bool:
    """A card with MIG on and no slice has no memory to show."""
    return device.gpu.mig is None or device.instance is not None


def has_memory_thermometer(device: Device) -> bool:
    """Only stacked memory measures its temperature."""
    return device.profile.hbm


def remaps_rows(device: Device) -> bool:
    """Ampere and later, not per slice."""
    return device.profile.row_remapping and whole(device)


def has_profiling(device: Device) -> bool:
    """Volta and later."""
    return device.profile.profiling


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its header, which devices have it, and its value."""

    name: str
    kind: str
    help: str
    form: str
    value: Callable[[Reading], float]
    when: Callable[[Device], bool] = always

    @property
    def header(self) -> str:
        """HELP and TYPE."""
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


def _zero(_: Reading) -> float:
    return 0


XID = "DCGM_FI_DEV_XID_ERRORS"
_PCIE = (
    "The rate of data {} over the PCIe bus - including both protocol headers and data payloads - in bytes per second."
)

FAMILIES = (
    Family("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", INTEGER, lambda r: r.sm_clock),
    Family("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", INTEGER, lambda r: r.memory_clock),
    Family(
        "DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", INTEGER,
        lambda r: r.temperature + 2, has_memory_thermometer,
    ),
    Family("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", INTEGER, lambda r: r.temperature),
    Family("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", FLOAT, lambda r: r.power),
    Family(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).", INTEGER,
        lambda r: r.energy,
    ),
    Family("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", INTEGER, _zero, whole),
    Family("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", INTEGER, lambda r: r.utilization, whole),
    Family(
        "DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", INTEGER,
        lambda r: r.utilization * 0.6, whole,
    ),
    Family("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", INTEGER, _zero, whole),
    Family("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", INTEGER, _zero, whole),
    Family(XID, "gauge", "Value of the last XID error encountered.", INTEGER, lambda r: r.xid),
    Family(
        "DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", INTEGER, lambda r: r.fb_free, has_memory
    ),
    Family(
        "DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", INTEGER, lambda r: r.fb_used, has_memory
    ),
    Family(
        "DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", INTEGER,
        lambda r: r.fb_reserved, has_memory,
    ),
    Family(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors",
        INTEGER, _zero, remaps_rows,
    ),
    Family(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors",
        INTEGER, _zero, remaps_rows,
    ),
    Family(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", INTEGER, _zero, remaps_rows
    ),
    Family(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "Total number of NVLink bandwidth counters for all lanes.",
        INTEGER, lambda r: r.nvlink,
    ),
    Family("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", INTEGER, _zero),
    Family(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", FLOAT,
        lambda r: r.engine, has_profiling,
    ),
    Family(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active.", FLOAT,
        lambda r: r.engine * 0.45, has_profiling,
    ),
    Family(
        "DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.", FLOAT,
        lambda r: r.engine * 0.6, has_profiling,
    ),
    Family(
        "DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", _PCIE.format("transmitted"), INTEGER,
        lambda r: r.utilization * 11_000_000, has_profiling,
    ),
    Family(
        "DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", _PCIE.format("received"), INTEGER,
        lambda r: r.utilization * 18_000_000, has_profiling,
    ),
)  # fmt: skip
