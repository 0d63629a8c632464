"""Moments as whole seconds. The engine has no clock: a moment is only ever read from an object."""

import re
from functools import lru_cache

_FORM = re.compile(
    r"(19[7-9]\d|[2-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)"
    r"(?:\.\d{1,9})?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_BEFORE = (0, 306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275)
"""Days before each month in a year that begins in March, so that the leap day is its last."""

_EPOCH = 719_468
"""Days from 1 March of the year 0 to 1970-01-01."""

_DAY, _HOUR, _MINUTE = 86_400, 3600, 60
_MARCH = 3


@lru_cache(maxsize=1 << 15)
def moment(text: str) -> int:
    """Seconds since the epoch of an RFC 3339 time, fractions cut off; raises `ValueError`."""
    found = _FORM.fullmatch(text)
    days = _days(int(found[1]), int(found[2]), int(found[3])) if found else None
    if found is None or days is None:
        raise ValueError(f"{text[:40]!r} is not a time, as 2026-01-31T12:00:00Z")
    east = int(found[8] or 0) * _HOUR + int(found[9] or 0) * _MINUTE
    local = days * _DAY + int(found[4]) * _HOUR + int(found[5]) * _MINUTE + int(found[6])
    return max(0, local + east if found[7] == "-" else local - east)


def written(seconds: int) -> str:
    """The RFC 3339 form of a moment, in UTC."""
    days, rest = divmod(seconds, _DAY)
    year = 1970 + days // 366
    while _first(year + 1) <= days:
        year += 1
    month = max(m for m in range(1, 13) if _month(year, m) <= days)
    day = days - _month(year, month) + 1
    clock = f"{rest // _HOUR:02}:{rest // _MINUTE % _MINUTE:02}:{rest % _MINUTE:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _days(year: int, month: int, day: int) -> int | None:
    """Days since the epoch; None for a day that its month does not have."""
    days = _month(year, month) + day - 1
    following = _month(year, month + 1) if month < len(_BEFORE) - 1 else _first(year + 1)
    return days if days < following else None


def _first(year: int) -> int:
    return _month(year, 1)


def _month(year: int, month: int) -> int:
    """Days since the epoch on the first of a month."""
    since = year - (month < _MARCH)
    return since * 365 + since // 4 - since // 100 + since // 400 + _BEFORE[month] - _EPOCH
