"""What GPUs a `gpu:` block describes. Profiles of users and overrides are written in one form, that of nvml-mock.

    system: {driver_version: 550.163.01, cuda_version: "12.4"}
    device_defaults: {name: …, memory: {total_bytes: …}, compute_capability: {major: 9, minor: 0}}   # or architecture
    device_count: 4, or a list devices

The rest of it is what only nvidia-smi would show.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuyard.common.topology.document import Element, TopologyError, compose
from gpuyard.common.topology.hardware import read_product, read_version
from gpuyard.common.topology.ids import MAX_GPUS
from gpuyard.common.topology.profiles import GENERIC, PROFILES, Profile, of_compute, of_product
from gpuyard.common.topology.usage import MAX_MEMORY

PREFIX = "gpu-profile-"
KEY = "profile.yaml"
_MIB = 1024 * 1024
_GENERATIONS = {
    "kepler": (3, 7),
    "turing": (7, 5),
    "ampere": (8, 0),
    "ada_lovelace": (8, 9),
    "hopper": (9, 0),
    "blackwell": (10, 0),
}
_KEYS = frozenset({"version", "system", "device_defaults", "devices", "device_count", "nvlink", "pcie_topology"})


@dataclass(frozen=True, slots=True)
class Spec:
    """GPUs as far as they are described: what is empty, 0 or None is left open."""

    product: str = ""
    memory: int = 0
    device_count: int | None = None
    listed: int | None = None
    compute: tuple[int, int] | None = None
    driver: str = ""
    cuda: str = ""

    @property
    def count(self) -> int:
        """`device_count` before the length of `devices`; 0 is left open, too."""
        return self.device_count or self.listed or 0

    def with_overrides(self, over: "Spec") -> "Spec":
        """What the overrides say, and this where they say nothing."""
        return Spec(
            over.product or self.product,
            over.memory or self.memory,
            self.device_count if over.device_count is None else over.device_count,
            self.listed if over.listed is None else over.listed,
            over.compute or self.compute,
            over.driver or self.driver,
            over.cuda or self.cuda,
        )


def read_spec(element: Element, *, whole: bool = False) -> Spec:
    """A whole profile's document, or overrides. A profile is made for nvml-mock, and may say whatever that knows."""
    found = dict(element.entries()) if whole else element.mapping(_KEYS)
    defaults, system = _inside(found, "device_defaults"), _inside(found, "system")
    memory = _inside(defaults, "memory")
    return Spec(
        product=read_product(defaults["name"]) if "name" in defaults else "",
        memory=memory["total_bytes"].number(0, MAX_MEMORY * _MIB) // _MIB if "total_bytes" in memory else 0,
        device_count=found["device_count"].number(0, MAX_GPUS) if "device_count" in found else None,
        listed=_length(found["devices"]) if "devices" in found else None,
        compute=_compute(defaults),
        driver=read_version(system.get("driver_version")),
        cuda=read_version(system.get("cuda_version")),
    )


def _inside(found: Mapping[str, Element], key: str) -> Mapping[str, Element]:
    return dict(found[key].entries()) if key in found and not found[key].empty else {}


def _compute(defaults: Mapping[str, Element]) -> tuple[int, int] | None:
    """The compute capability, as written or as the architecture has it."""
    found = _inside(defaults, "compute_capability")
    if "major" in found and "minor" in found:
        return found["major"].number(1, 99), found["minor"].number(0, 99)
    return _GENERATIONS.get(defaults["architecture"].text()) if "architecture" in defaults else None


def _length(element: Element) -> int:
    count = len(element.items())
    return count if count <= MAX_GPUS else element.fail(f"has {count} GPUs; a node has at most {MAX_GPUS}")


def named(element: Element, written: Mapping[str, str]) -> tuple[Spec, Profile]:
    """A profile by its name: what it describes, and whose constants its GPUs have. Users' documents are `written`.

    A user's profile has the constants of the built-in one of its name, its product or its compute capability.
    """
    name = element.text()
    if name not in written:
        profile = PROFILES.get(name) or element.fail(
            f"is {name!r}; write one of {', '.join(sorted({*PROFILES, *written}))}, or make a ConfigMap {PREFIX}{name}"
        )
        return Spec(profile.product, profile.memory, listed=profile.count), profile
    try:
        spec = read_spec(compose(written[name]), whole=True)
    except TopologyError as error:
        element.fail(f"is {name!r}, but ConfigMap {PREFIX}{name} cannot be read: {KEY}: {error}")
    return spec, PROFILES.get(name) or _like(spec)


def _like(spec: Spec) -> Profile:
    by_name = of_product(spec.product)
    return of_compute(spec.compute) if by_name is GENERIC and spec.compute else by_name
