"""What a node or a pool is made of: product, memory and our own optional keys, the same in every form."""

import re
from collections.abc import Mapping
from dataclasses import asdict

from gpuyard.common.topology.document import Element
from gpuyard.common.topology.model import Faults, Hardware, MigStrategy, OtherDevice, Sharing
from gpuyard.common.topology.profiles import PROFILES, Profile, of_product
from gpuyard.common.topology.resources import MIG, is_gpu
from gpuyard.common.topology.usage import MAX_MEMORY, read_utilization
from gpuyard.common.topology.utilization import seconds

Found = Mapping[str, Element]

MAX_COUNT = 1000
_NUMA = frozenset(
    {"zones", "gpusPerZone", "topologyManagerPolicy", "topologyManagerScope", "cpuPerZone", "memPerZone", "distances"}
)
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_QUALIFIED = re.compile(rf"(?=.{{1,253}}/){_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_SLOW = "slow-allocate="
_FAULTS = ("allocate-error", "crash", "drop-stream", "refuse-register", "slow-allocate=3s")


def read_strategy(element: Element | None) -> MigStrategy:
    """`none` when nothing is written."""
    if element is None or element.empty or element.blank:
        return MigStrategy.NONE
    return MigStrategy(element.choice([s.value for s in MigStrategy]))


def read_memory(element: Element) -> int:
    """MiB."""
    return element.number(0, MAX_MEMORY)


def read_product(element: Element, *, needed: bool = True) -> str:
    """A product's name, which must not be empty where there are GPUs."""
    if element.blank and not needed:
        return ""
    return element.text().strip() or element.fail("is empty; write a product such as Tesla-K80")


def read_profile(element: Element) -> Profile:
    """A profile by its name."""
    return PROFILES[element.choice(PROFILES)]


def read_hardware(found: Found, product: str, memory: int, strategy: MigStrategy, profile: Profile | None) -> Hardware:
    """The parts of a node, with the optional keys that stand in `found`."""
    if "profile" in found:
        profile = read_profile(found["profile"])
    profile = profile or of_product(product)
    return Hardware(
        product=product,
        memory=memory,
        profile=profile,
        mig_strategy=strategy,
        driver_version=read_version(found.get("driverVersion")),
        cuda_version=read_version(found.get("cudaVersion")),
        fb_reserved=_reserved(found.get("fbReserved"), memory, profile),
        utilization=read_utilization(found["utilization"]) if "utilization" in found else None,
        sharing=_sharing(found.get("sharing")),
        other_devices=_other_devices(found.get("otherDevices")),
        faults=_faults(found.get("faults")),
    )


def read_version(element: Element | None) -> str:
    """Numbers and dots; empty when nothing is written."""
    if element is None:
        return ""
    written = element.text()
    if not _VERSION.fullmatch(written):
        element.fail(f"is {written!r}; write numbers and dots, like 550.163.01")
    return written


def _reserved(element: Element | None, memory: int, profile: Profile) -> int:
    return _held_back(memory, profile) if element is None else element.number(0, memory)


def _held_back(memory: int, profile: Profile) -> int:
    return min(profile.fb_reserved, memory)


def _sharing(element: Element | None) -> Sharing | None:
    if element is None or element.empty:
        return None
    found = element.mapping({"strategy", "replicas", "rename"})
    if missing := {"strategy", "replicas"} - found.keys():
        element.fail(f"misses {min(missing)}; write strategy: time-slicing and replicas: 4")
    return Sharing(
        found["strategy"].choice({"time-slicing", "mps"}),
        found["replicas"].number(1, MAX_COUNT),
        rename="rename" in found and found["rename"].flag(),
    )


def read_numa(element: Element | None, count: int) -> tuple[int, ...]:
    """How many of a node's GPUs each of its NUMA zones has: as written, else as even as it goes."""
    if element is None or element.empty:
        return ()
    found = element.mapping(_NUMA)
    zones = found["zones"].number(0, MAX_COUNT) if "zones" in found else element.fail("misses zones; write zones: 2")
    if "gpusPerZone" not in found:
        return tuple((count + zones - 1 - zone) // zones for zone in range(zones))
    written = tuple(item.number(0, MAX_COUNT) for item in found["gpusPerZone"].items())
    if len(written) != zones or sum(written) != count:
        found["gpusPerZone"].fail(f"is {list(written)}; write {zones} numbers with the sum {count}, or leave it out")
    return written


def _other_devices(element: Element | None) -> tuple[OtherDevice, ...]:
    if element is None or element.empty:
        return ()
    return tuple(_other_device(item) for item in element.items())


def _other_device(element: Element) -> OtherDevice:
    found = element.mapping({"name", "count"})
    if missing := {"name", "count"} - found.keys():
        element.fail(f"misses {min(missing)}; write name: example.com/x and count: 3")
    return OtherDevice(read_resource(found["name"]), found["count"].number(0, MAX_COUNT))


def read_resource(element: Element) -> str:
    """A resource's name with its domain."""
    return resource(element, element.text())


def resource(element: Element, name: str) -> str:
    """The name itself, refused at `element` when kubelet would not take it, or when it is that of whole GPUs.

    Slices by their mere number are what users of fake-gpu-operator have instead of MIG.
    """
    if not _QUALIFIED.fullmatch(name):
        element.fail(f"is {name!r}; write a resource with its domain, like example.com/x")
    if is_gpu(name) and not name.startswith(MIG):
        element.fail(f"is {name!r}; GPUs are counted without it, leave it out")
    return name


def _faults(element: Element | None) -> Faults:
    if element is None or element.empty:
        return Faults()
    written = {item.text(): item for item in element.items()}
    for fault, item in written.items():
        if fault not in _FAULTS and not fault.startswith(_SLOW):
            item.fail(f"is {fault!r}; write one of {', '.join(_FAULTS)}")
    slow = next(((fault, item) for fault, item in written.items() if fault.startswith(_SLOW)), None)
    return Faults(
        allocate_error="allocate-error" in written,
        refuse_register="refuse-register" in written,
        drop_stream="drop-stream" in written,
        slow_allocate=_delay(*slow) if slow else 0.0,
        crash="crash" in written,
    )


def _delay(fault: str, element: Element) -> float:
    try:
        return seconds(fault.removeprefix(_SLOW))
    except ValueError as error:
        element.fail(str(error))


def plain_extras(hardware: Hardware) -> dict[str, object]:
    """The optional keys as plain data, as far as they say more than the product does."""
    said = hardware.fb_reserved != _held_back(hardware.memory, hardware.profile)
    known = {
        "profile": hardware.profile.name if hardware.profile != of_product(hardware.product) else "",
        "driverVersion": hardware.driver_version,
        "cudaVersion": hardware.cuda_version,
        "fbReserved": hardware.fb_reserved if said else None,
        "utilization": "" if hardware.utilization is None else str(hardware.utilization),
        "sharing": {} if hardware.sharing is None else asdict(hardware.sharing),
        "faults": _plain_faults(hardware.faults),
        "numa": {"zones": len(hardware.numa), "gpusPerZone": list(hardware.numa)} if hardware.numa else {},
        "otherDevices": [asdict(device) for device in hardware.other_devices],
    }
    return {key: value for key, value in known.items() if value or value == 0}


def _plain_faults(faults: Faults) -> list[str]:
    on = {
        "allocate-error": faults.allocate_error,
        "refuse-register": faults.refuse_register,
        "drop-stream": faults.drop_stream,
        "crash": faults.crash,
        f"{_SLOW}{faults.slow_allocate:g}s": faults.slow_allocate > 0,
    }
    return [name for name, active in on.items() if active]
