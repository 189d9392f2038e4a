"""Figures that the user chose by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from telemetry.formatting import NOTHING, printable, quantity
from telemetry.headline_choice import Choice
from telemetry.headlines.loads import Load
from telemetry.headlines.metrics import counter_rate, gauge, series_rate
from telemetry.headlines.model import Figure, percentile, whole, with_median
from telemetry.headlines.training import Training
from telemetry.request_model import without_requests
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


def chosen_figures(
    choices: Sequence[Choice],
    snapshot: MetricsSnapshot,
    trained: Sequence[Training],
    loads: Sequence[Load],
    *,
    recent: bool,
) -> tuple[Figure, ...]:
    """Return the chosen figures in the order of the choice, with a dash for one that is not known yet."""
    return tuple(
        _of_steps(one, trained)
        or _of_requests(one, loads)
        or _of_series(one, snapshot, loads, recent=recent)
        or _of_counter(one, snapshot, recent=recent)
        or _of_gauge(one, snapshot)
        or Figure(printable(one.text), NOTHING)
        for one in choices
    )


def _of_steps(choice: Choice, trained: Sequence[Training]) -> Figure | None:
    if choice.labels or choice.function not in ("", "last", "first", "min", "max", "best", "rate"):
        return None
    for one in trained:
        if choice.name in ("step", "steps", one.axis.name) and choice.name not in one.axis.values:
            return one.steps_per_s() if choice.function == "rate" else one.step()
        name = _one_of(choice.name, one.axis.values)
        if name and choice.function != "rate":
            return one.value(name, choice.function)
    return None


def _of_requests(choice: Choice, loads: Sequence[Load]) -> Figure | None:
    load = next((one for one in loads if one.kind.kind == choice.name and _fits(choice, one.kind.labels)), None)
    if load is None:
        return None
    figures: dict[str, Callable[[], Figure | None]] = {
        "": load.requests_per_s,
        "rate": load.requests_per_s,
        "failed": load.failed,
        "goodput": load.goodput,
        "attainment": load.attainment,
        "count": lambda: whole("completed", load.kind.completed),
    }
    return figures[choice.function]() if choice.function in figures else None


def _of_series(choice: Choice, snapshot: MetricsSnapshot, loads: Sequence[Load], *, recent: bool) -> Figure | None:
    stat = _found(choice, _series(snapshot, loads))
    if stat is None:
        return None
    title = printable(choice.text)
    if choice.percentile:
        return percentile(title, stat, choice.percentile, recent=recent)
    match choice.function:
        case "mean" | "min" | "max" | "count" | "total":
            value = getattr(stat, choice.function)
            unit = "" if choice.function == "count" else stat.unit
            return Figure(title, quantity(value, unit), value=None if value is None else float(value), unit=unit)
        case "rate":
            return series_rate(stat, snapshot, f"{title}/s" if title == choice.name else title, recent=recent)
        case "":
            return next(iter(with_median(title, stat, recent=recent)), None)
        case _:
            return None


def _series(snapshot: MetricsSnapshot, loads: Sequence[Load]) -> Iterator[SeriesStat]:
    """Yield all series. Those of requests are without their tracking windows."""
    for load in loads:
        yield from load.kind.series.values()
    yield from without_requests(snapshot.series, snapshot)


def _of_counter(choice: Choice, snapshot: MetricsSnapshot, *, recent: bool) -> Figure | None:
    stat = _found(choice, snapshot.counters)
    if stat is None or choice.function not in ("", "rate", "total", "count"):
        return None
    title, of_rate = printable(choice.text), counter_rate(stat, snapshot, recent=recent)
    if choice.function == "rate":
        return Figure(title, of_rate.text, of_rate.note, value=of_rate.value, unit=of_rate.unit)
    text = quantity(stat.value, stat.unit)
    return Figure(title, text, "" if choice.function else of_rate.text, value=float(stat.value), unit=stat.unit)


def _of_gauge(choice: Choice, snapshot: MetricsSnapshot) -> Figure | None:
    stat = _found(choice, snapshot.gauges)
    if stat is None or choice.function not in ("", "last", "min", "max"):
        return None
    if choice.function in ("", "last"):
        return gauge(stat)
    value = stat.min if choice.function == "min" else stat.max
    number = None if value is None else float(value)
    return Figure(printable(choice.text), quantity(value, stat.unit), value=number, unit=stat.unit)


def _found(choice: Choice, stats: Iterable[_Stat]) -> _Stat | None:
    """Return the metric of the chosen name, or else the first one whose name ends in it, such as `chat.latency`."""
    fitting = [stat for stat in stats if _fits(choice, stat.labels)]
    name = _one_of(choice.name, [stat.name for stat in fitting])
    return next((stat for stat in fitting if stat.name == name), None) if name else None


def _one_of(wanted: str, names: Iterable[str]) -> str:
    """Return the name that is wanted, or the first one that ends in it after `.` or `/`; empty if there is none."""
    known = list(names)
    if wanted in known:
        return wanted
    return next((name for name in known if name.endswith((f".{wanted}", f"/{wanted}"))), "")


def _fits(choice: Choice, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in choice.labels.items())
