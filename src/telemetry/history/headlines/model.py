"""Figures ready to show, also in few words for a line: `24.1 req/s`, `p99 134 ms`, `loss 0.312`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from telemetry.common.formatting import NOTHING, quantity, scaled, with_share
from telemetry.wire.snapshot import SeriesStat

Flavour = Literal["llm", "load", "training", "metrics"]
Health = Literal["plain", "good", "warn", "bad"]

DOT: Final = " · "
"""Space between the parts of a note."""
_SHARES: Final = frozenset({"attainment"})
"""Figures that may warn, and are no failures."""
_SPARE: Final = ("TPOT ", "ITL ")


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
    seconds: float | None = None
    """Time range of a rate of the whole run."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures of one kind of request, one axis of steps, or of other metrics. The most important is first."""

    flavour: Flavour
    subject: str
    """Kind of request, axis, or series. Empty for figures that the user chose."""
    figures: tuple[Figure, ...]
    is_total: bool = False
    """True for the requests of all kinds together. The headlines of the kinds follow."""


def per_second(title: str, number: float | None, note: str = "", seconds: float | None = None) -> Figure:
    """Return a rate, with its unit in the title: `requests/s`. `seconds` is its time range, if it is named."""
    text = scaled(number) if number is None or abs(number) < 1000 else f"{number:,.0f}"
    return Figure(title, text, note, value=number, unit=title, seconds=seconds)


def failures_second(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the figures with failures right after the first one: a narrow line has them too."""
    failures = [figure for figure in figures[1:] if is_failure(figure)]
    return (*figures[:1], *failures, *(figure for figure in figures[1:] if figure not in failures))


def makes_room(figure: Figure, among: Sequence[Figure]) -> bool:
    """Return whether a narrow line leaves this figure out first: a median or TPOT, beside failures."""
    return has_failures(among) and (figure.title.startswith(_SPARE) or figure.title.endswith("p50"))


def has_failures(figures: Sequence[Figure]) -> bool:
    return any(is_failure(figure) for figure in figures)


def is_failure(figure: Figure) -> bool:
    """Return whether a figure counts failures, and there are some."""
    return figure.health == "warn" and figure.title not in _SHARES


def whole(title: str, number: float, note: str = "", health: Health = "plain", of: float | None = None) -> Figure:
    """Return a number of things, with their name in the title: `failed`. `of`: the total that it is a part of."""
    return Figure(title, with_share(number, of), note, health, float(number), "requests")


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
    values = percentiles(stat, recent=recent)
    key = "99" if "99" in values else next(iter(reversed(list(values))), "")
    if not key:
        return []
    note = f"p50 {quantity(values['50'], stat.unit)}" if "50" in values and key != "50" else ""
    value = float(values[key])
    return [Figure(f"{name} p{key}", quantity(value, stat.unit), note, value=value, unit=stat.unit)]


_SHORT: Final = {"requests/s": "req/s", "output tokens/s": "tok/s"}
_AFTER: Final = frozenset({"failed", "in flight", "steps/s", "values/s", "goodput/s", *_SHORT})
"""Titles that stand behind their figure: `24.1 req/s`. All others stand before it."""


def compact(figure: Figure, of: Headline, *, median: bool = True) -> str:
    """Return a figure of a headline with its title.

    The share of the expected steps stands behind them: `step 120 of 500 · 24 %`. The median is included if it is
    the note: `TTFT p50 56.1 ms p99 134 ms`, unless `median` is False. Then failures have no share either. What the
    headline is about is left out.
    """
    title, text = figure.title.removeprefix(f"{of.subject} "), figure.text
    if of.flavour == "training" and title == "step" and " of " in text:
        return f"{title} {text}{DOT}{figure.note.partition(DOT)[0]}"
    if not median and is_failure(figure):
        text = text.partition(" (")[0]
    if of.flavour == "load" and of.subject:
        title = title.removeprefix("latency ")
    if title in _AFTER:
        return f"{text} {_SHORT.get(title, title)}"
    middle = figure.note.partition(", ")[0]
    if median and middle.startswith("p50 ") and " " in title:
        name, _, percentile = title.rpartition(" ")
        title = f"{name} {middle} {percentile}"
    return f"{title} {text}"
