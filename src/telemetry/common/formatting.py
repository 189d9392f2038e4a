"""Numbers as people read them: three significant digits and a unit of suitable size.

The functions only round and scale. They never compute new values.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json import dumps
from typing import Final

from telemetry.wire.units import BYTES, TIME_NS

NOTHING: Final = "–"
MORE: Final = "…"
"""Text for a missing value."""

_TIME_STEPS: Final = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_SIZE_STEPS: Final = tuple(
    (float(1 << 10 * power), unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
)
_PLAIN_STEPS: Final = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
_SPEEDS: Final = {f"{unit}/s": factor for unit, factor in {**BYTES, "B": 1, "bytes": 1}.items()}
"""Bytes per second in one of each unit of data rates."""
_UNUSUAL: Final = re.compile(r"[^\n\r\t -~]")
_FULL_BELOW: Final = 10_000
"""Whole numbers below this are written in full."""
_RATE_FROM: Final = 1_000
"""Rates from here on are scaled; they are seldom whole."""
_FULL_FROM: Final = 10.0
"""Signed percentages are written out from ten times on."""
_ALIKE: Final = 0.6
"""Similarity from which a word was probably meant by another one: 1 is equal."""
_ROUNDING: Final = 1e-9
"""Largest relative difference of figures that differ by rounding, such as means of equal values."""
_LONG_S: Final = 120
"""Durations from here on are minutes and seconds: below, 90 s is easier to compare than 1 min 30 s."""


def count(value: int | float | None) -> str:
    """Format a count in full: `1,234,567`."""
    if value is None or not _is_finite(value):
        return NOTHING
    if isinstance(value, float) and not value.is_integer():
        return scaled(value)
    return f"{int(value):,}"


def number_of(number: float, singular: str, more: str = "") -> str:
    """Format a number with its noun: `1 event`, `2,000 events`. `more` is a plural that is not formed with `s`."""
    return f"{count(number)} {singular if number == 1 else more or f'{singular}s'}"


def scaled(value: int | float | None) -> str:
    """Format a number with three significant digits: `4.50 k`, `12.3 M`, `0.00123`, `5`."""
    if value is None or not _is_finite(value):
        return NOTHING
    if value == 0:
        return "0"
    if abs(value) < _FULL_BELOW and float(value).is_integer():
        return f"{int(value):,}"
    if not 1e-3 <= abs(value) < 1e15:
        return f"{value:.2e}"
    return _stepped(value, _PLAIN_STEPS)


def duration_ns(value: int | float | None) -> str:
    """Format nanoseconds as `950 ns`, `1.23 ms`, `95.0 s`, `2 min 5 s`, `3 h 12 min`."""
    if value is None or not _is_finite(value):
        return NOTHING
    if abs(value) < _LONG_S * 1e9:
        return _stepped(value, _TIME_STEPS) if value else "0 s"
    minutes, seconds = divmod(round(abs(value) / 1e9), 60)
    sign = "-" if value < 0 else ""
    if minutes < _LONG_S:
        return f"{sign}{minutes} min {seconds} s"
    return f"{sign}{minutes // 60:,} h {minutes % 60} min"


def duration_s(value: float | None) -> str:
    """Format seconds as `duration_ns` does."""
    return NOTHING if value is None or not _is_finite(value) else duration_ns(value * 1e9)


def size(value: int | float | None) -> str:
    """Format bytes as `12.3 MiB`."""
    if value is None or not _is_finite(value):
        return NOTHING
    return f"{int(value)} B" if abs(value) < 1 << 10 and float(value).is_integer() else _stepped(value, _SIZE_STEPS)


def quantity(value: int | float | None, unit: str) -> str:
    """Format a value in `unit`: times and sizes change to a suitable unit, all others stay plain numbers."""
    if value is None or not _is_finite(value):
        return NOTHING
    if unit in TIME_NS:
        return duration_ns(value * TIME_NS[unit])
    if unit in BYTES:
        return size(value * BYTES[unit])
    if unit in _SPEEDS:
        return f"{size(value * _SPEEDS[unit])}/s"
    return size(value) if unit in ("B", "bytes") else scaled(value)


def with_decimals(value: float, unit: str, decimals: int) -> str:
    """Format as `quantity` does, with more digits: `23.561 ms`. Long times stay in seconds."""
    if not carries_unit(unit):
        return f"{value:,.{decimals}f}"
    value *= TIME_NS.get(unit) or _SPEEDS.get(unit) or BYTES.get(unit, 1)
    factor, name = _step(value, _TIME_STEPS if unit in TIME_NS else _SIZE_STEPS)
    return f"{value / factor:,.{decimals}f} {name}{'/s' if unit in _SPEEDS else ''}"


def carries_unit(unit: str) -> bool:
    """Return whether `quantity` writes a unit beside the number."""
    return unit in TIME_NS or unit in BYTES or unit in _SPEEDS or unit in ("B", "bytes")


def rate(per_second: float | None, unit: str = "") -> str:
    """Format a rate as `4.50 k/s`; sizes as `12.3 MiB/s`. Whole rates are scaled like the others."""
    if per_second is None:
        return NOTHING
    if not carries_unit(unit) and _RATE_FROM <= abs(per_second) < _FULL_BELOW:
        return f"{_stepped(per_second, _PLAIN_STEPS)}/s"
    return f"{quantity(per_second, unit)}/s"


def percent(fraction: float) -> str:
    """Format a fraction as `0.1 %`."""
    return f"{fraction * 100:.3g} %"


def signed_percent(fraction: float | None) -> str:
    """Format a difference as `+10.8 %`, `-2 %`, `0 %`."""
    if fraction is None:
        return NOTHING
    text = f"{abs(fraction) * 100:,.0f} %" if abs(fraction) >= _FULL_FROM else percent(abs(fraction))
    return text if text == "0 %" else f"{'+' if fraction > 0 else '-'}{text}"


def with_share(number: float, total: float | None) -> str:
    """Format a part with its share of a total: `388 (0.19 %)`. A part that is 0, or exceeds the total, has none."""
    share = number / total if number and total and number <= total else None
    return count(number) if share is None else f"{count(number)} ({percent(share)})"


def timestamp(wall_ns: int) -> str:
    """Format wall-clock nanoseconds as `2026-03-01 12:00:00 UTC`."""
    moment = _moment(wall_ns // 1_000_000_000)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else NOTHING


def clock_time(wall_ns: int) -> str:
    """Format wall-clock nanoseconds as `12:00:00.123`, UTC."""
    whole, rest = divmod(wall_ns, 1_000_000_000)
    moment = _moment(whole)
    return f"{moment:%H:%M:%S}.{rest // 1_000_000:03d}" if moment else NOTHING


def printable(text: str) -> str:
    """Make external text safe to show: control and direction characters become visible escapes."""
    if text.isprintable():
        return text
    return "".join(
        ch if ch.isprintable() else ch.encode("unicode_escape", "surrogatepass").decode("ascii") for ch in text
    )


def printable_json(document: str) -> str:
    """Return the same JSON, safe to show: control and direction characters in its texts become JSON escapes."""
    return _UNUSUAL.sub(lambda match: match[0] if match[0].isprintable() else dumps(match[0])[1:-1], document)


def columns(text: str) -> int:
    """Return the terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(ch) for ch in text)


def without_middle(text: str, width: int, measure: Callable[[str], int] = columns) -> str:
    """Return the text with at most `width` columns.

    A long text loses its middle: texts often differ at the end only.
    """
    if measure(text) <= width:
        return text
    if width < 1:
        return ""
    start = max(0, len(text) - (width - 1) // 2)
    while measure(text[start:]) > (width - 1) // 2:
        start += 1
    end = room = width - 1 - measure(text[start:])
    while measure(text[:end]) > room:
        end -= 1
    return f"{text[:end]}{MORE}{text[start:]}"


def _is_finite(value: int | float) -> bool:
    """Return whether a value is finite; False also for integers beyond the range of floats."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _moment(wall_s: int) -> datetime | None:
    """Return the moment as a datetime; None if no calendar has it."""
    try:
        return datetime.fromtimestamp(wall_s, UTC)
    except (OverflowError, ValueError, OSError):
        return None


@lru_cache(maxsize=1_024)
def _char_columns(ch: str) -> int:
    if unicodedata.combining(ch):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


def _stepped(value: int | float, steps: tuple[tuple[float, str], ...]) -> str:
    """Format with three significant digits and the unit that fits."""
    factor, unit = _step(value, steps)
    text = _three_digits(value / factor)
    return f"{text} {unit}" if unit else text


def _step(value: int | float, steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest step that leaves at least 1."""
    factor, unit = steps[0]
    for step, name in steps:
        part = abs(value) / step
        # Round first, so that 999.9 µs becomes 1.00 ms and never 1000 µs.
        if part < 0.99 or (part < 1 and float(f"{part:.3g}") < 1):
            break
        factor, unit = step, name
    return factor, unit


def _three_digits(value: float) -> str:
    magnitude = float(f"{abs(value):.3g}")
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 1 else f"{value:.3g}"


def differ(low: float, high: float) -> bool:
    """Return whether `high` is above `low` by more than rounding, so that a picture shows it."""
    return high / 2 - low / 2 > _ROUNDING * max(abs(low), abs(high))  # halves: the difference may overflow


def process(name: str, pid: int, host: str = "") -> str:
    """Format a process for people: `worker-a (pid 12)`, with a host `worker-a (pid 12 on node-2)`."""
    where = " on ".join(filter(None, (f"pid {pid}" if pid else "", host)))
    return printable(f"{name} ({where})" if where else name)


def listed(names: Sequence[str], shown: int) -> str:
    """Return the first `shown` names, and the number of the others: `a, b, 3 more`."""
    more = [f"{len(names) - shown:,} more"] if len(names) > shown else []
    return ", ".join([*names[:shown], *more])


def did_you_mean(word: str, choices: Iterable[str], most: int = 1, *, form: str = "{}") -> str:
    """Return a question with the words that were probably meant; empty without similar ones.

    A word that begins with `word` is similar too. `form` is written around each, such as `` `telemetry {}` ``.
    """
    from difflib import get_close_matches

    candidates = list(dict.fromkeys(choices))
    begins = [candidate for candidate in candidates if word.strip("-") and candidate.startswith(word)]
    near = get_close_matches(word, candidates, n=most, cutoff=_ALIKE) or begins[:most]
    return f"did you mean {', '.join(form.format(printable(candidate)) for candidate in near)}?" if near else ""
