"""Kubernetes quantities as integers, exactly: `500m`, `1.5Gi`, `0.3`, `1e3`. No float is ever computed with."""

import re
from functools import lru_cache

Number = str | int | float
"""A number as JSON may write it. A float is read by its shortest decimal form, which is what the file said."""

LARGEST = 2**63 - 1
_LONGEST = 64
_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)
_TENS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def cpu(value: Number) -> int:
    """Millicores, rounded up; raises `ValueError`."""
    return _whole(value, 3)


def size(value: Number) -> int:
    """Bytes, rounded up; raises `ValueError`."""
    return _whole(value, 0)


def count(value: Number) -> int:
    """A number of whole things; raises `ValueError`."""
    amount = _whole(value, 3)
    if amount % 1000:
        raise ValueError(f"{_shown(value)} is not a whole number")
    return amount // 1000


def scaled(value: Number, digits: int) -> int:
    """A number that is not negative times 10^`digits`, rounded to the nearest; raises `ValueError`."""
    up = _whole(value, digits + 1)
    return (up + 5) // 10


@lru_cache(maxsize=1 << 14)
def _whole(value: Number, tens: int) -> int:
    found = _FORM.fullmatch(str(value)) if len(str(value)) <= _LONGEST else None
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"{_shown(value)} is not a quantity, as 2, 500m or 1.5Gi")
    sign, whole, part, exponent, unit = found.groups(default="")
    digits = int((whole + part) or 0)
    power = tens - len(part) + int(exponent or 0) + _TENS.get(unit, 0)
    amount: int = digits << _TWOS.get(unit, 0)
    tenfold: int = 10 ** abs(power)
    amount = amount * tenfold if power >= 0 else -(-amount // tenfold)
    if sign == "-" and amount:
        raise ValueError(f"{_shown(value)} is negative")
    if amount > LARGEST:
        raise ValueError(f"{_shown(value)} is too large")
    return amount


def _shown(value: Number) -> str:
    text = str(value)
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
