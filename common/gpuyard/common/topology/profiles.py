"""What a GPU model is made of: the constants behind labels and metrics, one row per model.

Sizes are those a topology's `profile:` stands for; a node that states its own memory keeps that.

Decided in docs/decisions.md: "A profile of a user's own has the constants of its generation".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A slice that a card can be cut into."""

    name: str
    slices: int
    memory: int
    multiprocessors: int
    gi_ids: tuple[int, ...]
    """Instance ids in the order in which a driver gives them out."""
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Swing:
    """A reading at rest and at full load."""

    idle: float
    busy: float

    def at(self, load: float) -> float:
        """The reading at a load of 0-1."""
        return self.idle + (self.busy - self.idle) * load


@dataclass(frozen=True, slots=True)
class Profile:
    """The constants of one GPU model."""

    name: str
    product: str
    memory: int
    count: int
    compute: tuple[int, int]
    driver: str
    cuda: str
    sm_clock: Swing
    memory_clock: Swing
    power: Swing
    temperature: Swing
    hbm: bool = True
    """Whether the memory has a thermometer of its own."""
    nvlink: int = 0
    """MB/s over all links at full load."""
    fb_reserved: int = 0
    mig: Mapping[str, MigProfile] = field(default_factory=dict)

    @property
    def profiling(self) -> bool:
        """Whether it has the profiling counters: Volta and later."""
        return self.compute >= (7, 0)

    @property
    def row_remapping(self) -> bool:
        """Whether faulty memory rows are remapped: Ampere and later."""
        return self.compute >= (8, 0)


GI_IDS = {1: tuple(range(7, 14)), 2: (5, 3, 4, 6), 3: (2, 1), 4: (1, 2), 7: (0,)}
MIG_SLICES = 7


def _mig(*rows: tuple[str, int, int, int, int]) -> Mapping[str, MigProfile]:
    return MappingProxyType(
        {name: MigProfile(name, slices, memory, sms, GI_IDS[slices], held) for name, slices, memory, sms, held in rows}
    )


_A100 = _mig(
    ("1g.5gb", 1, 4864, 14, 98),
    ("1g.5gb+me", 1, 4864, 14, 98),
    ("1g.10gb", 1, 9856, 14, 98),
    ("2g.10gb", 2, 9856, 28, 98),
    ("3g.20gb", 3, 19968, 42, 98),
    ("4g.20gb", 4, 19968, 56, 98),
    ("7g.40gb", 7, 40192, 98, 98),
)
_A100_80 = _mig(
    ("1g.10gb", 1, 9728, 14, 0),
    ("1g.10gb+me", 1, 9728, 14, 0),
    ("1g.20gb", 1, 19968, 14, 0),
    ("2g.20gb", 2, 19968, 28, 0),
    ("3g.40gb", 3, 40192, 42, 0),
    ("4g.40gb", 4, 40192, 56, 0),
    ("7g.80gb", 7, 80896, 98, 0),
)
_H100 = _mig(
    ("1g.10gb", 1, 9984, 16, 0),
    ("1g.10gb+me", 1, 9984, 16, 0),
    ("1g.20gb", 1, 20096, 26, 0),
    ("2g.20gb", 2, 20096, 32, 0),
    ("3g.40gb", 3, 40448, 60, 0),
    ("4g.40gb", 4, 40448, 64, 0),
    ("7g.80gb", 7, 81152, 132, 0),
)
_B200 = _mig(
    ("1g.23gb", 1, 23552, 18, 0),
    ("1g.45gb", 1, 46080, 18, 0),
    ("2g.45gb", 2, 46080, 36, 0),
    ("3g.90gb", 3, 92160, 70, 0),
    ("4g.90gb", 4, 92160, 72, 0),
    ("7g.180gb", 7, 184320, 144, 0),
)

_TABLE = (
    Profile(
        "k80", "Tesla-K80", 11441, 2, (3, 7), "470.57.02", "11.4",
        Swing(324, 875), Swing(324, 2505), Swing(26, 149), Swing(32, 72), hbm=False,
    ),
    Profile(
        "t4", "Tesla-T4", 16384, 4, (7, 5), "525.60.13", "12.0",
        Swing(300, 1590), Swing(405, 5000), Swing(9.5, 70), Swing(33, 74), hbm=False, fb_reserved=447,
    ),
    Profile(
        "a100", "NVIDIA-A100-SXM4-40GB", 40960, 8, (8, 0), "550.163.01", "12.4",
        Swing(210, 1410), Swing(1215, 1215), Swing(45.999, 400), Swing(30, 70), nvlink=600_000, mig=_A100,
    ),
    Profile(
        "a100-80gb", "NVIDIA-A100-SXM4-80GB", 81920, 8, (8, 0), "550.163.01", "12.4",
        Swing(210, 1410), Swing(1593, 1593), Swing(62, 400), Swing(31, 71), nvlink=600_000, mig=_A100_80,
    ),
    Profile(
        "h100", "NVIDIA-H100-80GB-HBM3", 81920, 8, (9, 0), "550.163.01", "12.4",
        Swing(345, 1980), Swing(2619, 2619), Swing(70, 700), Swing(29, 68), nvlink=900_000, mig=_H100,
    ),
    Profile(
        "l40s", "NVIDIA-L40S", 49152, 8, (8, 9), "550.163.01", "12.4",
        Swing(210, 2520), Swing(405, 9001), Swing(34, 350), Swing(31, 76), hbm=False,
    ),
    Profile(
        "b200", "NVIDIA-B200", 196608, 8, (10, 0), "560.35.03", "12.6",
        Swing(345, 1965), Swing(3996, 3996), Swing(138, 1000), Swing(30, 70), nvlink=1_800_000, mig=_B200,
    ),
    Profile(
        "gb200", "NVIDIA-GB200", 196608, 8, (10, 0), "560.35.03", "12.6",
        Swing(345, 2062), Swing(3996, 3996), Swing(150, 1200), Swing(30, 70), nvlink=1_800_000, mig=_B200,
    ),
    Profile(
        "gb300", "NVIDIA-GB300", 294912, 8, (10, 3), "570.124.06", "12.8",
        Swing(345, 2032), Swing(3996, 3996), Swing(160, 1400), Swing(30, 72), nvlink=1_800_000,
    ),
)  # fmt: skip

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _TABLE})

GENERIC = Profile(
    "generic", "", 0, 0, (8, 0), "550.163.01", "12.4",
    Swing(210, 1410), Swing(1215, 1215), Swing(40, 300), Swing(30, 70),
)  # fmt: skip
"""For a product that no profile knows."""


def product_label(name: str) -> str:
    """A product's name as NVIDIA's labels spell it: letters, digits, `-_.`, blanks joined with `-`."""
    return "-".join(re.sub(r"[^A-Za-z0-9\-_. ]", "", name).split())


def of_product(product: str) -> Profile:
    """The profile whose product has this name, or generic values."""
    label = product_label(product)
    return next((profile for profile in _TABLE if profile.product == label), GENERIC)


def of_compute(compute: tuple[int, int]) -> Profile:
    """The first profile of this compute capability, or generic values."""
    return next((profile for profile in _TABLE if profile.compute == compute), GENERIC)
