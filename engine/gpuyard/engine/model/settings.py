"""The engine's settings with their defaults, and how one is read from text (`--set KEY=VALUE`, configuration)."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import msgspec
from gpuyard.engine.model import SCALE

Phase = Literal["allocate", "consolidate", "reclaim", "preempt", "evict-stale"]
PHASES: tuple[Phase, ...] = ("allocate", "consolidate", "reclaim", "preempt", "evict-stale")

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smh]))+")
_DURATIONS = re.compile(r"([0-9]+)(?:\.([0-9]{1,3})[0-9]*)?(ms|[smh])")
_LONGEST = 64
_MOST_MILLIS = (1 << 63) // 1_000_000
"""Kubernetes counts a duration in nanoseconds, with 64 bits."""


Placement = Literal["pack", "spread"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


class SettingError(ValueError):
    """A setting that does not exist or cannot be read; the text says which and what would do."""


class Removed(msgspec.Struct, frozen=True):
    """A setting that there is no more. For one minor version it is accepted without effect."""

    instead: str
    """What to do instead of setting it."""
    until: str
    """The version from which on it is refused as any unknown one, as `0.3`."""

    def __str__(self) -> str:
        return f"removed, without effect; {self.instead}; refused from version {self.until} on"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine decides. Durations in whole seconds, ratios in `SCALE`; the names outside are those of `KEYS`."""

    phases: tuple[Phase, ...] = PHASES
    cycles: int = 20
    placement: Placement = "pack"
    """Which of the nodes and GPUs with room comes first; what the names mean is in `placing/strategies`."""
    default_queue: str = ""
    pods_without_queue: Literal["pass", "refuse"] = "pass"
    namespace_match: Literal["off", "name", "label"] = "off"
    max_moved: int = 16
    """Workloads that one consolidation may move; -1: no limit."""
    keep_nodes_empty: bool = False
    move_bare_pods: bool = False
    """Whether pods without an owner are moved: the extender has to create them again."""
    staleness_grace: int = 60
    honor_disruption_budgets: bool = True
    fairshare_k: int = SCALE
    saturation_multiplier: int = SCALE

    def with_text(self, key: str, text: str) -> "Settings":
        """These settings with one given as text under its outside name; raises `SettingError`."""
        if key in REMOVED:
            return self
        if key not in KEYS and key not in LIVE_KEYS:
            raise SettingError(f"{key}: no such setting; known are {', '.join([*KEYS, *LIVE_KEYS])}")
        field, read = KEYS.get(key) or ("", LIVE_KEYS[key])
        try:
            value = read(text)
        except ValueError as why:
            raise SettingError(f"{key}: {why}") from None
        return msgspec.structs.replace(self, **{field: value}) if field else self


def duration(text: str) -> int:
    """Read `90s`, `1m30s`, `-1s` as seconds, rounded up to a whole one; raises `ValueError`."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text)
    if body == "0":
        return 0
    if len(text) > _LONGEST or not _DURATION.fullmatch(body):
        raise ValueError(f"{text[:_LONGEST]!r} is not a duration, as 60s or 1m30s")
    millis = sum(
        (int(whole) * 1000 + int(part.ljust(3, "0") or 0)) * _UNITS[unit] // 1000
        for whole, part, unit in _DURATIONS.findall(body)
    )
    if millis > _MOST_MILLIS:
        raise ValueError(f"{text!r} is longer than Kubernetes can say, 292 years")
    return sign * -(-millis // 1000)


def scaled(text: str) -> int:
    """Read a decimal number of at most six places as a multiple of `SCALE`; raises `ValueError`."""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        raise ValueError(f"{text!r} is not a number with at most six decimal places")
    whole, _, part = text.partition(".")
    return int(whole) * SCALE + int(part.ljust(6, "0"))


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _at_most(text: str) -> int:
    number = _integer(text)
    if number < -1:
        raise ValueError(f"{text} is negative; -1 is no limit")
    return number


def _choice(*options: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"{text!r} is none of {', '.join(options)}")
        return text

    return read


def _switch(text: str) -> bool:
    return _choice("true", "false")(text) == "true"


KEYS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "defaultQueue": ("default_queue", str),
    "podsWithoutQueue": ("pods_without_queue", _choice("pass", "refuse")),
    "namespaceMatch": ("namespace_match", _choice("off", "name", "label")),
    "placement": ("placement", _choice(*PLACEMENTS)),
    "consolidation.maxMoved": ("max_moved", _at_most),
    "consolidation.keepNodesEmpty": ("keep_nodes_empty", _switch),
    "moveBarePods": ("move_bare_pods", _switch),
    "staleness.gracePeriod": ("staleness_grace", duration),
    "honorDisruptionBudgets": ("honor_disruption_budgets", _switch),
    "fairshare.k": ("fairshare_k", scaled),
    "reclaim.saturationMultiplier": ("saturation_multiplier", scaled),
}
"""Outside name of each setting: its field and how its text is read."""

LIVE_KEYS: Mapping[str, Callable[[str], object]] = {
    "filter.maxNodes": _integer,
    "reservation.ttl": duration,
    "outrank.grace": duration,
    "promise.ttl": duration,
    "capacity.grace": duration,
    "planner.interval": duration,
    "verdict.ttl": duration,
}
"""Settings of the running extender that change no plan: they are read, so that one list serves both, and dropped."""

REMOVED: Mapping[str, Removed] = {}
"""Settings that earlier versions had, under their outside names. Each leaves this table with the version it names."""

NO_HISTORY = "fairshare.k has no effect: there is no history of use (QueueUsage) that it could weigh"
"""What is told once where past use is to count and none is known."""
