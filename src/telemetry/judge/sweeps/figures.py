"""The figures of one run of a sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from telemetry.common.directions import better_of_name
from telemetry.common.wording import instrument
from telemetry.history.headlines import Flavour, headline
from telemetry.history.headlines.training import telling
from telemetry.history.rates import Paces
from telemetry.history.request_model import RequestCounts, request_counts
from telemetry.judge.sweeps.model import SweepColumn
from telemetry.wire import requests as words
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat

REQUESTS: Final = "requests_per_s"
GOODPUT: Final = "goodput_per_s"
ATTAINMENT: Final = "attainment"
TOKENS: Final = "output_tokens_per_s"
_VALUES: Final = 3
"""Largest number of values of steps."""
_TIMES: Final = (
    (words.TTFT, "TTFT", False),
    (words.TPOT, "TPOT", True),
    (words.ITL, "ITL", True),
    (words.LATENCY, "latency", False),
    (words.CORRECTED, "corrected", True),
)
"""Word of a series, its title, and whether it is a detail."""
_SHOWN: Final = ("50", "99")
_PERCENTILE: Final = re.compile(r" p[\d.]+$")


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """The figures of a run, in the order of columns."""

    flavour: Flavour
    subject: str
    throughput: str = ""
    columns: dict[str, SweepColumn] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    slo: str = ""
    good: float = 0
    ended: float = 0
    """Number of requests behind the attainment."""

    def add(self, column: SweepColumn, value: float | None) -> None:
        """Add a figure. A value that is unknown or not finite is left out."""
        self.columns[column.key] = column
        if value is not None and math.isfinite(value):
            self.values[column.key] = float(value)


def kinds_of(report: Report) -> dict[str, float]:
    """Return the kinds of request of a run with the number of issued requests."""
    return {
        instrument(requests.kind, requests.labels): float(requests.issued)
        for requests in request_counts(report.snapshot)
        if requests.issued
    }


def request_figures(report: Report, kind: str) -> SweepFigures:
    """Return the figures of a kind of request; without values if the run has no such requests."""
    kinds = request_counts(report.snapshot)
    requests = next((requests for requests in kinds if instrument(requests.kind, requests.labels) == kind), None)
    if requests is None:
        return SweepFigures("load", kind)
    is_llm = words.TTFT in requests.series or words.OUTPUT_TOKENS in requests.series
    limited = requests.good is not None
    figures = SweepFigures(
        "llm" if is_llm else "load",
        kind,
        REQUESTS,
        slo=requests.slo,
        good=float(requests.good or 0),
        ended=float(requests.ended) if limited else 0,
    )
    for column, value in _of_requests(requests, is_llm=is_llm):
        figures.add(column, value)
    return figures


def _of_requests(requests: RequestCounts, *, is_llm: bool) -> Iterator[tuple[SweepColumn, float | None]]:
    rate = requests.rates.overall.requests_per_s
    yield (
        SweepColumn(key=REQUESTS, title="requests/s", unit="1/s", better="higher"),
        0.0 if rate is None and not requests.completed else rate,
    )
    if is_llm:
        yield (
            SweepColumn(key=TOKENS, title="output tokens/s", unit="1/s", better="higher"),
            requests.output_tokens_per_s,
        )
    if requests.good is not None:
        goodput = 0.0 if not requests.good else requests.goodput_per_s
        yield SweepColumn(key=GOODPUT, title="goodput/s", unit="1/s", better="higher"), goodput
        yield SweepColumn(key=ATTAINMENT, title="attainment", unit="share", better="higher"), requests.attainment
    for word, title, detail in _TIMES:
        stat = requests.series.get(word)
        if stat is not None and stat.count:
            yield from _percentiles(word, title, stat, detail=detail)
    yield (
        SweepColumn(key="concurrency_mean", title="in flight", detail=True),
        requests.concurrency_mean,
    )
    yield SweepColumn(key="failed", title="failed", better="lower"), float(requests.failures + requests.expired)


def _percentiles(
    key: str, title: str, stat: SeriesStat, *, detail: bool
) -> Iterator[tuple[SweepColumn, float | None]]:
    for percentile in _SHOWN:
        if percentile in stat.percentiles:
            yield (
                SweepColumn(
                    key=f"{key}_p{percentile}",
                    title=f"{title} p{percentile}",
                    unit=stat.unit,
                    better="lower",
                    detail=detail,
                ),
                float(stat.percentiles[percentile]),
            )


def other_figures(report: Report, curves: Sequence[StepCurve]) -> SweepFigures:
    """Return the figures of a run without requests: values of steps, or the headline of its metrics."""
    heads = headline(report.snapshot, recent=False, curves=curves)
    if not heads:
        return SweepFigures("metrics", "")
    head = heads[0]
    if head.flavour == "training" and head.subject:
        return _of_steps(report, head.subject, curves)
    throughput = next((figure.title for figure in head.figures if figure.unit in ("requests/s", "values/s")), "")
    figures = SweepFigures(head.flavour, head.subject, throughput)
    for figure in head.figures:
        title, unit = figure.title, figure.unit
        if unit.endswith("/s"):  # a rate: the title has the `/s`, so the unit needs none
            title = title if title.endswith("/s") else f"{title}/s"
            unit = "1/s" if unit in (figure.title, "/s", "1/s") else unit.removesuffix("/s")
        better = "lower" if _PERCENTILE.search(title) else better_of_name(title)
        figures.add(SweepColumn(key=title, title=title, unit=unit, better=better), figure.value)
    return figures


def _of_steps(report: Report, name: str, curves: Sequence[StepCurve]) -> SweepFigures:
    """Return the last and the best value of the names that tell most, then the number and the speed of steps."""
    figures = SweepFigures("training", name)
    axis = next((candidate for candidate in report.snapshot.axes if candidate.name == name), None)
    if axis is None:
        return figures
    curve_by_name = {curve.name: curve for curve in curves if curve.axis == name}
    for value in _told(axis.values):
        better, last, curve = better_of_name(value), axis.values[value], curve_by_name.get(value)
        figures.add(SweepColumn(key=f"last({value})", title=f"last {value}", better=better), last)
        if curve is not None and better != "neither":
            best = curve.min if better == "lower" else curve.max
            figures.add(SweepColumn(key=f"best({value})", title=f"best {value}", better=better), best)
    figures.add(SweepColumn(key="steps", title="steps", detail=True), float(axis.closed))
    speed = Paces(report.snapshot).steps_per_s(name)
    figures.add(SweepColumn(key="steps_per_s", title="steps/s", unit="1/s", better="higher"), speed)
    command = report.snapshot.command
    if command is not None:
        figures.add(SweepColumn(key="wall_s", title="took", unit="s", better="lower"), command.wall_s)
    return figures


def _told(values: dict[str, float | None]) -> list[str]:
    return telling(values)[:_VALUES]
