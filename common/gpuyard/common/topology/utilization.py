"""How busy a pod keeps its GPU: a number, a range, or a script of timed steps.

    "80"                                             always 80 %
    "10-30"                                          drawn anew each second, both ends included
    {"steps": [{"time": "1h", "utilization": 80},
               {"time": "1h", "utilization": 0}],
     "repeat": 5}                                    five times; then the last step's value stays

A script may be written without quotes and commas, and with its steps as bare inner objects.
A draw depends on the seed and the second alone, so every reader of a topology sees the same value.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from zlib import crc32

FULL = 100
RULE = "write a whole number 0-100, a range like 10-30, or a script of steps with time and utilization"
MAX_STEPS = 1000
MAX_TEXT = 16 * 1024


class UtilizationError(ValueError):
    """The text is no utilization; the message says what it is and the rule."""

    def __init__(self, text: str, reason: str) -> None:
        shown = text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - what fits a line of an event
        super().__init__(f"utilization {shown!r}: {reason}; {RULE}")


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high` percent, both included; a constant when they are equal."""

    low: int
    high: int

    @property
    def constant(self) -> bool:
        """Whether the value never changes."""
        return self.low == self.high

    def at(self, seed: str, second: int) -> int:
        """The value in this second, the same for everybody who asks."""
        if self.low == self.high:
            return self.low
        return self.low + crc32(f"{seed}/{second}".encode()) % (self.high - self.low + 1)

    def __str__(self) -> str:
        return str(self.low) if self.constant else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Step:
    """A span of utilization for some seconds."""

    seconds: float
    span: Span
    time: str


@dataclass(frozen=True, slots=True)
class Script:
    """Steps played `repeat` times from the container's start."""

    steps: tuple[Step, ...]
    repeat: int

    def step(self, elapsed: float) -> Step:
        """The step that plays `elapsed` seconds after the start; the last one for ever when all is played."""
        total = sum(step.seconds for step in self.steps)
        if elapsed >= total * self.repeat:
            return self.steps[-1]
        rest = max(elapsed, 0.0) % total
        for step in self.steps:
            if rest < step.seconds:
                return step
            rest -= step.seconds
        return self.steps[-1]

    def __str__(self) -> str:
        steps = [{"time": s.time, "utilization": s.span.low if s.span.constant else str(s.span)} for s in self.steps]
        return json.dumps({"steps": steps, "repeat": self.repeat})


Utilization = Span | Script
IDLE = Span(0, 0)
BUSY = Span(FULL, FULL)


def value(utilization: Utilization, *, seed: str, now: float, started: float) -> int:
    """Percent at the time `now` of a container that began at `started`."""
    span = utilization.step(now - started).span if isinstance(utilization, Script) else utilization
    return span.at(seed, int(now))


def parse(text: str) -> Utilization:
    """Read a number, a range or a script.

    Raises:
        UtilizationError: the text is none of them, or a value breaks the rule.
    """
    stripped = text.strip()
    if len(stripped) > MAX_TEXT:
        raise UtilizationError(text, f"is longer than {MAX_TEXT} characters")
    return _script(stripped) if stripped.startswith(("{", "[")) else span(stripped)


def span(text: str) -> Span:
    """Read `N` or `N-M`.

    Raises:
        UtilizationError: not whole numbers, above 100, or the wrong way round.
    """
    match = re.fullmatch(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", text, re.ASCII)
    if match is None:
        raise UtilizationError(text, "is neither a whole number nor a range")
    low = int(match[1])
    high = int(match[2] or low)
    if high < low:
        raise UtilizationError(text, f"the range begins above its end ({low} > {high})")
    if high > FULL:
        raise UtilizationError(text, f"{high} is above 100")
    return Span(low, high)


_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h` or `1h30m`.

    Raises:
        ValueError: the text is no such duration.
    """
    parts = re.findall(r"(\d{1,9}(?:\.\d{1,3})?)([dhms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write one like 90s, 1h or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


_WORD = re.compile(r'\s*(?:([{}\[\]:,])|"([^"\\\n]*)"|([\w.%-]+))', re.ASCII)


def _words(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise UtilizationError(text, f"cannot read {text[position : position + 10]!r}")
        yield match[1] or match[2] or match[3] or ""
        position = match.end()


def _objects(text: str) -> Iterator[Mapping[str, str]]:
    """The objects of the text, innermost first, each with its own keys; commas and quotes may be missing."""
    open_objects: list[dict[str, str]] = []
    key = ""
    words = list(_words(text))
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if word == "{":
            open_objects.append({})
            key = ""
        elif word == "}":
            if not open_objects:
                raise UtilizationError(text, "has a closing brace too many")
            yield open_objects.pop()
        elif word in "[],:":
            continue
        elif following == ":":
            key = word
        else:
            _put(text, open_objects, key, word)
            key = ""
    if open_objects:
        raise UtilizationError(text, "has a brace that is never closed")


def _put(text: str, open_objects: list[dict[str, str]], key: str, word: str) -> None:
    if not key or not open_objects:
        raise UtilizationError(text, f"{word!r} stands there without a key")
    if key in open_objects[-1]:
        raise UtilizationError(text, f"{key} is written twice")
    open_objects[-1][key] = word


def _script(text: str) -> Script:
    steps: list[Step] = []
    repeat = 1
    for found in _objects(text):
        if unknown := found.keys() - {"time", "utilization", "repeat"}:
            raise UtilizationError(text, f"does not know {min(unknown)!r}")
        if "time" in found or "utilization" in found:
            steps.append(_step(text, found))
        if "repeat" in found:
            repeat = _repeat(text, found["repeat"])
    if not 0 < len(steps) <= MAX_STEPS:
        raise UtilizationError(text, f"has {len(steps)} steps; 1-{MAX_STEPS} are possible")
    return Script(tuple(steps), repeat)


def _step(text: str, found: Mapping[str, str]) -> Step:
    if found.keys() != {"time", "utilization"}:
        raise UtilizationError(text, "a step has exactly time and utilization")
    try:
        length = seconds(found["time"])
    except ValueError as error:
        raise UtilizationError(text, str(error)) from None
    if length <= 0:
        raise UtilizationError(text, "a step's time is above zero")
    return Step(length, span(found["utilization"]), found["time"])


def _repeat(text: str, written: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", written):
        raise UtilizationError(text, f"repeat is a whole number from 1, not {written!r}")
    return int(written)
