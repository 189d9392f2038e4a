"""Flat names of instruments for trackers: escaping, and which axis owns a name."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from telemetry.backends.items import Reading
from telemetry.common.wording import labelled
from telemetry.store.atomic import write_atomic
from telemetry.wire.codec import BAD_INPUT

FINAL: Final = "final/"
"""Prefix for names of the result."""
_BYTE: Final = re.compile(r"[0-9A-F]{2}")
_REMEMBERED: Final = 1 << 15  # enough for a run with all its percentiles; further names are computed again


def flat(reading: Reading) -> dict[str, float]:
    """Return the numbers of a reading by name, in its order.

    A series has `name/p50` and other percentiles, `/mean`, `/min`, `/max`, `/count`, `/rate`. A counter has `name`
    and `name/rate`, a gauge has `name`. Missing figures of a series are left out. Names of a final reading begin
    with `final/`. If a name is already used by a figure of another instrument, it gets its kind as a suffix:
    `latency/p50 (gauge)`.
    """
    head = FINAL if reading.final else ""
    numbers: dict[str, float] = {}
    for series in reading.series:
        name = head + labelled(series.name, series.labels)
        for key, value in series.percentiles.items():
            _put(numbers, f"{name}/p{key}", value, "series")
        for part, number in (("mean", series.mean), ("min", series.min), ("max", series.max)):
            if number is not None:
                _put(numbers, f"{name}/{part}", number, "series")
        _put(numbers, f"{name}/count", series.count, "series")
        _put(numbers, f"{name}/rate", series.rate, "series")
    for counter in reading.counters:
        name = head + labelled(counter.name, counter.labels)
        _put(numbers, name, counter.value, "counter")
        _put(numbers, f"{name}/rate", counter.rate, "counter")
    for gauge in reading.gauges:
        _put(numbers, head + labelled(gauge.name, gauge.labels), gauge.value, "gauge")
    return numbers


@lru_cache(_REMEMBERED)
def escape(name: str, allowed: str, mark: str = "%") -> str:
    """Replace characters outside `allowed`, and `mark` itself, by `mark` and two digits per byte.

    The bytes are UTF-8, the digits are hexadecimal (`0-9A-F`). Different names stay different, and `unescape`
    restores them. `mark` is one character. Half of a surrogate pair is encoded as its own byte sequence.
    """
    if all(char in allowed and char != mark for char in name):
        return name
    return "".join(char if char in allowed and char != mark else _bytes(char, mark) for char in name)


def unescape(text: str, mark: str = "%") -> str:
    """Restore the argument of `escape`. A mark without two hexadecimal digits stays as it is."""
    first, *parts = text.split(mark)
    data = _encoded(first)
    for part in parts:
        if _BYTE.match(part):
            data += bytes.fromhex(part[:2]) + _encoded(part[2:])
        else:
            data += _encoded(mark + part)
    return data.decode("utf-8", "surrogatepass")


def _put(numbers: dict[str, float], name: str, value: float, kind: str) -> None:
    while name in numbers:
        name = f"{name} ({kind})"
    numbers[name] = value


def _bytes(char: str, mark: str) -> str:
    return "".join(f"{mark}{byte:02X}" for byte in _encoded(char))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class AxisOwners(dict[str, str]):
    """A map of name → axis. Call `keep` before a checkpoint to hand it to the next process."""

    def __init__(self, path: Path) -> None:
        """Read the file. A missing or damaged file counts as empty. Raises OSError for other errors."""
        super().__init__()
        self._path = path
        with suppress(FileNotFoundError, *BAD_INPUT):
            self.update(msgspec.json.decode(path.read_bytes(), type=dict[str, str]))
        self._kept = len(self)

    def has(self, name: str, axis: str) -> bool:
        """Check whether this axis owns the name. A name without an owner goes to this axis."""
        return self.setdefault(name, axis) == axis

    def keep(self) -> None:
        """Write new names to the file. Raises OSError."""
        if len(self) > self._kept:
            write_atomic(self._path, msgspec.json.encode(dict(self)), durable=False)
            self._kept = len(self)
