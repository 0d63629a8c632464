"""The labels of a series, in the order and spelling of NVIDIA's exporter, and the switches for older spellings."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuyard.common.topology.ids import pci_bus_id
from gpuyard.common.topology.model import Owner
from gpuyard.dcgm_exporter.readings import Device


class HostnameLabel(StrEnum):
    """How the node's label is spelled."""

    UPPER = "Hostname"
    LOWER = "hostname"
    BOTH = "both"


class IdleLabels(StrEnum):
    """Whether an idle GPU has pod labels."""

    ABSENT = "absent"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Switches:
    """How the exporter spells; the defaults are NVIDIA's today."""

    hostname_label: HostnameLabel = HostnameLabel.UPPER
    idle_labels: IdleLabels = IdleLabels.ABSENT
    old_names: bool = False
    hashed_hostname: bool = False


class SwitchError(ValueError):
    """A switch has a value that it does not know."""


_FLAGS = {"true": True, "false": False}
_KNOWN = ("hostnameLabel", "idleLabels", "oldNames", "hashedHostname")


def read_switches(data: Mapping[str, str]) -> Switches:
    """The switches from a ConfigMap's data.

    Raises:
        SwitchError: an unknown key or value, with what is known.
    """
    if unknown := data.keys() - set(_KNOWN):
        raise SwitchError(f"{min(unknown)}: unknown key; known here: {', '.join(_KNOWN)}")
    return Switches(
        HostnameLabel(_choice(data, "hostnameLabel", [each.value for each in HostnameLabel])),
        IdleLabels(_choice(data, "idleLabels", [each.value for each in IdleLabels])),
        old_names=_FLAGS[_choice(data, "oldNames", ["false", "true"])],
        hashed_hostname=_FLAGS[_choice(data, "hashedHostname", ["false", "true"])],
    )


def _choice(data: Mapping[str, str], key: str, allowed: list[str]) -> str:
    written = data.get(key, allowed[0]).strip()
    if written not in allowed:
        raise SwitchError(f"{key}: is {written!r}; write one of {', '.join(allowed)}")
    return written


XID_TEXTS = {
    0: "No Error",
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    32: "Invalid or corrupted push buffer stream",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors",
    48: "Double Bit ECC Error",
    61: "Internal micro-controller breakpoint/warning",
    62: "Internal micro-controller halt",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    79: "GPU has fallen off the bus",
    92: "High single-bit ECC error rate",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC Timeout",
}


def labels_of(device: Device, switches: Switches, *, with_xid: bool) -> str:
    """Everything between the braces."""
    fixed = _identity(device, switches) | _hostname(device.node.name, switches)
    fixed["DCGM_FI_DRIVER_VERSION"] = device.node.hardware.driver
    attributes = _attributes(device.usage.owner, switches)
    if with_xid:
        xid = device.gpu.xid
        attributes |= {"err_code": str(xid), "err_msg": XID_TEXTS.get(xid, "Unknown Error")}
    pairs = [*fixed.items(), *sorted(attributes.items())]
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _identity(device: Device, switches: Switches) -> dict[str, str]:
    gpu = device.gpu
    found = {
        "gpu": str(gpu.index),
        "uuid" if switches.old_names else "UUID": gpu.id,
        "pci_bus_id": pci_bus_id(gpu.index),
        "device": f"nvidia{gpu.index}",
        "modelName": device.node.hardware.product,
    }
    if device.instance is not None:
        found |= {"GPU_I_PROFILE": device.instance.profile.name, "GPU_I_ID": str(device.instance.gi)}
    return found


def _hostname(node: str, switches: Switches) -> dict[str, str]:
    name = node
    if switches.hashed_hostname:
        name = f"nvidia-dcgm-exporter-{hashlib.sha1(node.encode(), usedforsecurity=False).hexdigest()[:6]}"
    if switches.hostname_label is HostnameLabel.BOTH:
        return {"Hostname": name, "hostname": name}
    return {switches.hostname_label.value: name}


def _attributes(owner: Owner | None, switches: Switches) -> dict[str, str]:
    if owner is None:
        if switches.idle_labels is IdleLabels.ABSENT:
            return {}
        owner = Owner("", "", "")
    if switches.old_names:
        return {"container_name": owner.container, "pod_namespace": owner.namespace, "pod_name": owner.pod}
    return {"container": owner.container, "namespace": owner.namespace, "pod": owner.pod}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
