"""Numbers in the units of the view: scaled for reading, or in the unit of the series for copying."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING
from telemetry.tui.model.grid import Tone
from telemetry.tui.model.scene import Units
from telemetry.wire.units import BYTES, TIME_NS

SAME_WITHIN: Final = 0.05
"""Relative difference from the baseline below which a change is ignored: two equal runs differ as much."""
_MULTIPLES_FROM: Final = 9.0
"""Relative difference, ten times the baseline, from which a factor reads better than percent."""
_WRITTEN_OUT_BELOW: Final = 1e15
_LONG_S: Final = 120


@lru_cache(maxsize=1 << 15)  # windows move once a second and are drawn four times: 2,000 series of 16 figures
def value(number: float | None, unit: str, units: Units) -> str:
    """Return a value such as `1.88 ms`; raw, the number in the series' own unit: `1.87597`."""
    if units == "raw":
        return plain(number)
    text = formatting.quantity(number, unit)
    return f"{text} %" if is_percent(unit) and text != NOTHING else text


def rate(per_second: float | None, unit: str, units: Units) -> str:
    """Return a rate such as `4.22 k/s`; raw `4,221.92/s`."""
    return (
        formatting.rate(per_second, unit) if units == "readable" or per_second is None else f"{plain(per_second)}/s"
    )


def per_s(amount: float, seconds: float) -> float:
    """Return the rate; 0 if no time passed, infinity if the rate exceeds a float."""
    try:
        return amount / seconds if seconds > 0 else 0.0
    except OverflowError:
        return math.inf


def counted(number: float | None, units: Units) -> str:
    """Return a count such as `225 k`; raw `225,123`."""
    return formatting.scaled(number) if units == "readable" else plain(number)


def instrument(name: str, labels: Mapping[str, str], unit: str, units: Units) -> str:
    """Return the name as `wording.instrument` does. Raw numbers carry no unit, so the name does.

    The name has no unit of percentages: their numbers carry it.
    """
    return _instrument(name, tuple(labels.items()), unit, units)


@lru_cache(maxsize=1 << 13)  # all that a run may have, in both kinds of units
def _instrument(name: str, labels: tuple[tuple[str, str], ...], unit: str, units: Units) -> str:
    if units == "readable" or unit in ("", "1"):
        return wording.instrument(name, dict(labels), "" if is_percent(unit) else unit)
    return f"{wording.instrument(name, dict(labels))} [{formatting.printable(unit)}]"


def plain(number: float | None) -> str:
    """Return whole numbers in full, others with six significant digits."""
    if number is None or not -_WRITTEN_OUT_BELOW < number < _WRITTEN_OUT_BELOW:
        return formatting.scaled(number)
    if float(number).is_integer():
        return f"{int(number):,}"
    return f"{number:,.1f}" if abs(number) >= 1e5 else f"{number:,.6g}"


def seconds(duration_s: float) -> str:
    """Return a duration that grows on the screen: in whole seconds, so that its digits do not flicker."""
    return f"{max(0.0, duration_s):.0f} s" if duration_s < _LONG_S else formatting.duration_s(duration_s)


def seen(last_seen_ns: int, now_ns: int, *, over: bool) -> str:
    """Return how long ago something was last seen, in whole seconds; the time of day if it is over."""
    if not last_seen_ns:
        return "never"
    if over:
        return formatting.clock_time(last_seen_ns)[:8]
    silent_s = max(0, now_ns - last_seen_ns) / 1e9
    return "now" if silent_s < 1 else seconds(silent_s)


def change(now: float | None, before: float | None) -> float | None:
    """Return the relative difference; None if a value is missing or the earlier one is 0."""
    return None if now is None or not before else now / before - 1


def change_words(difference: float | None) -> str:
    """Return a difference such as `+4.1 %`, `-38 %`, `×12`."""
    if difference is None:
        return NOTHING
    if difference >= _MULTIPLES_FROM:
        return f"×{formatting.scaled(float(f'{difference + 1:.3g}'))}"
    percent = difference * 100
    if abs(percent) < 0.05:
        return "0 %"
    return f"{percent:+.1f} %" if abs(percent) < 9.95 else f"{percent:+.0f} %"


def change_tone(difference: float | None, unit: str) -> Tone:
    """Return the tone of a change. Longer times are bad and shorter ones good.

    For other units the better direction is unknown, so a change is only highlighted. Changes within SAME_WITHIN are
    dim.
    """
    if difference is None or abs(difference) <= SAME_WITHIN:
        return "dim"
    if unit not in TIME_NS:
        return "accent"
    return "bad" if difference > 0 else "good"


def is_percent(unit: str) -> bool:
    """Return whether values of this unit are percentages."""
    return unit in ("%", "percent")


def base_units(unit: str) -> float:
    """Return the factor that makes values of related units comparable: to nanoseconds, to bytes, or 1."""
    return TIME_NS.get(unit) or BYTES.get(unit) or 1.0
