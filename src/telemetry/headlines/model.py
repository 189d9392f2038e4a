"""Figures ready to show, and the texts that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from telemetry.formatting import NOTHING, count, quantity, scaled
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

Flavour = Literal["llm", "load", "training", "metrics"]
Health = Literal["plain", "good", "warn", "bad"]

_FIRST_S: Final = 2.0
"""Age of a run from which it has rates of its last seconds."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: `title` stands over or beside `text`, and `note` in small type below."""

    title: str
    text: str
    note: str = ""
    health: Health = "plain"
    value: float | None = None
    """The number behind the text; None if there is none."""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures of one kind of request, one axis of steps, or of other metrics. The most important is first."""

    flavour: Flavour
    subject: str
    """Kind of request, axis, or series. Empty for figures that the user chose."""
    figures: tuple[Figure, ...]


def per_second(title: str, number: float | None, note: str = "") -> Figure:
    """Return a rate, with its unit in the title: `requests/s`."""
    text = scaled(number) if number is None or abs(number) < 1000 else f"{number:,.0f}"
    return Figure(title, text, note, value=number, unit=title)


def recent_rate(rate: float, number: float, snapshot: MetricsSnapshot) -> float:
    """Return the rate of the last seconds, or since the start of a run that is too young to have one."""
    if rate or not 0.0 < snapshot.elapsed_s < _FIRST_S:
        return rate
    return number / snapshot.elapsed_s


def whole(title: str, number: float, note: str = "", health: Health = "plain") -> Figure:
    """Return a number of things, with their name in the title: `failed`."""
    return Figure(title, count(number), note, health, float(number), "requests")


def percentile(title: str, stat: SeriesStat | None, key: str, *, recent: bool) -> Figure:
    """Return a percentile of a series; a dash if it is unknown."""
    value = percentiles(stat, recent=recent).get(key) if stat is not None else None
    if stat is None or value is None:
        return Figure(title, NOTHING)
    return Figure(title, quantity(value, stat.unit), value=float(value), unit=stat.unit)


def percentiles(stat: SeriesStat, *, recent: bool) -> Mapping[str, int | float]:
    """Return percentiles of the last seconds, or of all values if there are no newer ones."""
    return (stat.window.percentiles if recent else {}) or stat.percentiles


def largest(title: str, stat: SeriesStat | None) -> Figure:
    """Return the largest value of a series; a dash without values."""
    if stat is None or stat.max is None:
        return Figure(title, NOTHING)
    return Figure(title, quantity(stat.max, stat.unit), value=float(stat.max), unit=stat.unit)


def with_median(name: str, stat: SeriesStat | None, *, recent: bool) -> list[Figure]:
    """Return the p99 of a series, or its highest percentile, with the median as the note; empty without values."""
    if stat is None or not stat.count:
        return []
    known = percentiles(stat, recent=recent)
    key = "99" if "99" in known else next(iter(reversed(list(known))), "")
    if not key:
        return []
    note = f"p50 {quantity(known['50'], stat.unit)}" if "50" in known and key != "50" else ""
    value = float(known[key])
    return [Figure(f"{name} p{key}", quantity(value, stat.unit), note, value=value, unit=stat.unit)]
