"""The headlines of a run: those that the user chose, or a guess by what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from telemetry.common.formatting import NOTHING, printable, quantity
from telemetry.common.headline_choice import HeadlineChoice, chosen
from telemetry.history.headlines.loads import AllKinds, Load
from telemetry.history.headlines.metrics import counter_rate, gauge, metrics_headline, series_rate
from telemetry.history.headlines.model import Figure, Flavour, Headline, percentile, whole, with_median
from telemetry.history.headlines.training import Training
from telemetry.history.rates import Paces
from telemetry.history.request_model import request_counts, without_requests
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import RequestFigures
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


def all_kinds(snapshot: MetricsSnapshot, *, seconds: float | None = None) -> Headline | None:
    """Return the headline of all requests of a run, or of a time range of `seconds`.

    None for fewer than two kinds.
    """
    if seconds is not None:
        snapshot = replace(snapshot, elapsed_s=seconds)
    loads = _loads(snapshot, recent=False, requests=(), seconds=seconds)
    return AllKinds(loads, snapshot, recent=False, seconds=seconds).headline() if len(loads) > 1 else None


def headline(
    snapshot: MetricsSnapshot,
    *,
    recent: bool,
    curves: Sequence[StepCurve] = (),
    speeds: Mapping[str, float] = MappingProxyType({}),
    requests: Sequence[RequestFigures] = (),
    seconds: float | None = None,
) -> list[Headline]:
    """Return the headlines of a run, the most important first; empty if nothing was recorded.

    Several kinds of requests have a headline of all of them before their own.

    `recent`: figures of the last seconds, for a run that goes on. Otherwise those of the whole run. `curves` add
    first and best values of steps; `speeds` has the recent steps per second by axis; `requests` add figures that a
    snapshot lacks. `seconds` is the length of the time range of its figures, if they do not cover the whole run. A
    choice of the user is the only headline.
    """
    if seconds is not None:
        snapshot = replace(snapshot, elapsed_s=seconds)
    axes = [axis for axis in snapshot.axes if axis.closed]
    if not recent:
        paces = Paces(snapshot)
        speeds = {axis.name: speed for axis in axes if (speed := paces.steps_per_s(axis.name)) is not None}
    trained = [
        Training(axis, speeds.get(axis.name), recent=recent, curves=curves, progress=snapshot.progress)
        for axis in axes
    ]
    loads = _loads(snapshot, recent=recent, requests=requests, seconds=seconds)
    # Steps with values are a training run, even if it sends requests; steps without values only count a loop.
    trained.sort(key=lambda run: not run.axis.values)
    training = [run.headline() for run in trained if run.axis.values]
    loops = [run.headline() for run in trained if not run.axis.values]
    of_requests = [load.headline() for load in loads]
    if len(loads) > 1:
        of_requests.insert(0, AllKinds(loads, snapshot, recent=recent, seconds=seconds).headline())
    guess = [*training, *of_requests, *loops] or metrics_headline(snapshot, recent=recent)
    choices = chosen(snapshot.params)
    if not choices:
        return guess
    flavour: Flavour = guess[0].flavour if guess else "metrics"
    return [Headline(flavour, "", chosen_figures(choices, snapshot, trained, loads, recent=recent))]


def _loads(
    snapshot: MetricsSnapshot, *, recent: bool, requests: Sequence[RequestFigures], seconds: float | None
) -> list[Load]:
    """Return the kinds of requests, the busiest first."""
    kinds = sorted((kind for kind in request_counts(snapshot) if kind.issued), key=lambda kind: -kind.issued)
    return [Load(kind, snapshot, recent=recent, figures=requests, seconds=seconds) for kind in kinds]


def chosen_figures(
    choices: Sequence[HeadlineChoice],
    snapshot: MetricsSnapshot,
    trained: Sequence[Training],
    loads: Sequence[Load],
    *,
    recent: bool,
) -> tuple[Figure, ...]:
    """Return the chosen figures in the order of the choice, with a dash for one that is not known yet."""
    return tuple(
        _of_steps(choice, trained)
        or _of_requests(choice, loads)
        or _of_series(choice, snapshot, loads, recent=recent)
        or _of_counter(choice, snapshot, recent=recent)
        or _of_gauge(choice, snapshot)
        or Figure(printable(choice.text), NOTHING)
        for choice in choices
    )


def _of_steps(choice: HeadlineChoice, trained: Sequence[Training]) -> Figure | None:
    if choice.labels or choice.function not in ("", "last", "first", "min", "max", "best", "rate"):
        return None
    for training in trained:
        if choice.name in ("step", "steps", training.axis.name) and choice.name not in training.axis.values:
            return training.steps_per_s() if choice.function == "rate" else training.step()
        name = _one_of(choice.name, training.axis.values)
        if name and choice.function != "rate":
            return training.value(name, choice.function)
    return None


def _of_requests(choice: HeadlineChoice, loads: Sequence[Load]) -> Figure | None:
    load = next((load for load in loads if load.kind.kind == choice.name and _fits(choice, load.kind.labels)), None)
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


def _of_series(
    choice: HeadlineChoice, snapshot: MetricsSnapshot, loads: Sequence[Load], *, recent: bool
) -> Figure | None:
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


def _of_counter(choice: HeadlineChoice, snapshot: MetricsSnapshot, *, recent: bool) -> Figure | None:
    stat = _found(choice, snapshot.counters)
    if stat is None or choice.function not in ("", "rate", "total", "count"):
        return None
    title, of_rate = printable(choice.text), counter_rate(stat, snapshot, recent=recent)
    if choice.function == "rate":
        return Figure(title, of_rate.text, of_rate.note, value=of_rate.value, unit=of_rate.unit)
    text = quantity(stat.value, stat.unit)
    return Figure(title, text, "" if choice.function else of_rate.text, value=float(stat.value), unit=stat.unit)


def _of_gauge(choice: HeadlineChoice, snapshot: MetricsSnapshot) -> Figure | None:
    stat = _found(choice, snapshot.gauges)
    if stat is None or choice.function not in ("", "last", "min", "max"):
        return None
    if choice.function in ("", "last"):
        return gauge(stat)
    value = stat.min if choice.function == "min" else stat.max
    number = None if value is None else float(value)
    return Figure(printable(choice.text), quantity(value, stat.unit), value=number, unit=stat.unit)


def _found(choice: HeadlineChoice, stats: Iterable[_Stat]) -> _Stat | None:
    """Return the metric of the chosen name, or else the first one whose name ends in it, such as `chat.latency`."""
    fitting = [stat for stat in stats if _fits(choice, stat.labels)]
    name = _one_of(choice.name, [stat.name for stat in fitting])
    return next((stat for stat in fitting if stat.name == name), None) if name else None


def _one_of(wanted: str, names: Iterable[str]) -> str:
    """Return the name that is wanted, or the first one that ends in it after `.` or `/`; empty if there is none."""
    candidates = list(names)
    if wanted in candidates:
        return wanted
    return next((name for name in candidates if name.endswith((f".{wanted}", f"/{wanted}"))), "")


def _fits(choice: HeadlineChoice, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in choice.labels.items())
