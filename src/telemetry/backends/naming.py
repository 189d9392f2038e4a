"""Flat names: how instruments look to trackers that know numbers by name, and names in fewer characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from telemetry.backends.items import Reading

FINAL: Final = "final/"
"""In front of names of the result."""
_IN_NAME: Final = re.compile(r"[\\{}]")
_IN_LABEL: Final = re.compile(r"[\\{},=]")
_BYTE: Final = re.compile(r"[0-9A-F]{2}")
_REMEMBERED: Final = 1 << 15  # names of a run with all its percentiles; more are worked out again


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """`name{key=value,…}` by key. Different instruments have different ones: signs with a meaning here have a
    backslash before them where they are part of a name or a label."""
    name = _IN_NAME.sub(r"\\\g<0>", name)
    if not labels:
        return name
    inside = ",".join(f"{_label(key)}={_label(value)}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def flat(reading: Reading) -> dict[str, float]:
    """The numbers of a reading by name, in its order.

    Of a series `name/p50` and the like, `/mean`, `/min`, `/max`, `/count`, `/rate`; of a counter `name`, its value,
    and `name/rate`; of a gauge `name`. What a series without values lacks is left out. Names of a final reading
    begin with `final/`. A name that is taken already, because an instrument is called as a number of another is,
    gets its kind behind it: `latency/p50 (gauge)`.
    """
    head = FINAL if reading.final else ""
    found: dict[str, float] = {}
    for series in reading.series:
        name = head + labelled(series.name, series.labels)
        for key, value in series.percentiles.items():
            _put(found, f"{name}/p{key}", value, "series")
        for part, number in (("mean", series.mean), ("min", series.min), ("max", series.max)):
            if number is not None:
                _put(found, f"{name}/{part}", number, "series")
        _put(found, f"{name}/count", series.count, "series")
        _put(found, f"{name}/rate", series.rate, "series")
    for counter in reading.counters:
        name = head + labelled(counter.name, counter.labels)
        _put(found, name, counter.value, "counter")
        _put(found, f"{name}/rate", counter.rate, "counter")
    for gauge in reading.gauges:
        _put(found, head + labelled(gauge.name, gauge.labels), gauge.value, "gauge")
    return found


@lru_cache(_REMEMBERED)
def escape(name: str, allowed: str, mark: str = "%") -> str:
    """`name` with no characters but those of `allowed`, hexadecimal digits `0-9A-F` and `mark`: all others, and
    `mark` itself, are written as `mark` and two digits for each byte of their UTF-8. Different names stay
    different, and `unescape` has them back. `mark` is one character; half of a surrogate pair counts as a byte
    sequence of its own."""
    if all(char in allowed and char != mark for char in name):
        return name
    return "".join(char if char in allowed and char != mark else _bytes(char, mark) for char in name)


def unescape(text: str, mark: str = "%") -> str:
    """What was given to `escape`. Marks that stand before no two digits are left as they are."""
    first, *parts = text.split(mark)
    data = _encoded(first)
    for part in parts:
        if _BYTE.match(part):
            data += bytes.fromhex(part[:2]) + _encoded(part[2:])
        else:
            data += _encoded(mark + part)
    return data.decode("utf-8", "surrogatepass")


def _put(found: dict[str, float], name: str, value: float, kind: str) -> None:
    while name in found:
        name = f"{name} ({kind})"
    found[name] = value


def _label(text: str) -> str:
    return _IN_LABEL.sub(r"\\\g<0>", text)


def _bytes(char: str, mark: str) -> str:
    return "".join(f"{mark}{byte:02X}" for byte in _encoded(char))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
