"""A report as rows of one figure each, for tables and data frames. Pure: it names figures but computes none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.errors import UsageError
from telemetry.history.rates import Paces
from telemetry.wire.snapshot import Accounting, CounterStat, GaugeStat, MetricsSnapshot, ProducerStat, SeriesStat

if TYPE_CHECKING:
    from telemetry.wire.report import Bounds, Report, SeriesPoint

Number = int | float | None

LIBRARIES: Final = ("pandas", "polars")
_NUMBERS: Final = ("value", "low", "high", "start_s", "end_s")
_ACCOUNT: Final = ("emitted", "received", "applied", "missing", "duplicates")
_SHAPE: Final = ("min", "max", "mean", "stddev", "total")
_AXIS: Final = ("closed", "open", "newest", "producers", "timeouts", "corrections")
_BACKEND: Final = ("written", "queued", "retried", "repeated", "restarts")
_COST: Final = {
    "cpu_s": "s",
    "rss_bytes": "B",
    "frames": "",
    "frame_bytes": "B",
    "tick_ms_max": "ms",
    "ticks": "",
    "ticks_late": "",
    "journal_bytes": "B",
    "history_bytes": "B",
}
_COMMAND: Final = {"exit_code": "", "wall_s": "s", "cpu_user_s": "s", "cpu_system_s": "s", "max_rss_bytes": "B"}


class ReportRow(NamedTuple):
    """A figure of a report. Names, labels and units are as recorded, so they may contain anything."""

    kind: str
    """Kind of the thing that the figure describes.

    One of `run`, `series`, `counter`, `gauge`, `axis`, `progress`, `node`, `producer`, `loss`, `backend`, `source`,
    `gate`, `command`, `cost`.
    """
    name: str
    labels: Mapping[str, str]
    unit: str
    """Unit of value, low and high; empty for counts."""
    figure: str
    value: Number
    low: Number = None
    high: Number = None
    """Confidence bounds: lower and upper."""
    start_s: Number = None
    end_s: Number = None
    """Time range of the figure, in seconds since the run's start; None for the whole run."""


@dataclass(frozen=True)
class _Of:
    """A factory of rows about one thing in one time range."""

    kind: str
    name: str
    labels: Mapping[str, str]
    unit: str = ""
    start_s: Number = None
    end_s: Number = None

    def row(self, figure: str, value: Number, unit: str | None = None, bounds: Bounds | None = None) -> ReportRow:
        low, high = (bounds.low, bounds.high) if bounds is not None else (None, None)
        own = self.unit if unit is None else unit
        return ReportRow(self.kind, self.name, self.labels, own, figure, value, low, high, self.start_s, self.end_s)


def rows(report: Report) -> Iterator[ReportRow]:
    """Yield all figures of a report, those of the run first. Percentiles are called `p50`, `p99.9`."""
    snapshot = report.snapshot
    part = report.time_range if report.time_range is not None and report.time_range.found else None
    start_s, end_s = (part.start_s, part.end_s) if part is not None else (None, None)

    def of(kind: str, stat: SeriesStat | CounterStat | GaugeStat) -> _Of:
        return _Of(kind, stat.name, stat.labels, stat.unit, start_s, end_s)

    paces = Paces(snapshot, None if part is None else part.end_s - part.start_s)
    yield from _run(snapshot)
    yield from _series(report, of, paces)
    for counter in snapshot.counters:
        subject = of("counter", counter)
        yield subject.row("value", counter.value)
        yield subject.row("events", counter.events, "")
        yield subject.row("rate", paces.of(counter).per_s, _per_second(counter.unit))
    for gauge in snapshot.gauges:
        subject = of("gauge", gauge)
        for figure in ("value", "min", "max"):
            yield subject.row(figure, getattr(gauge, figure))
    yield from _axes(snapshot)
    yield from _accounts(snapshot)
    yield from _backends(snapshot)
    yield from _sources(report)
    yield from _gates(report)
    yield from _around(snapshot)
    for series in report.over_time:
        for point in series.points:
            yield from _point(
                _Of("series", series.name, series.labels, series.unit, point.start_s, point.end_s), point
            )


def _run(snapshot: MetricsSnapshot) -> Iterator[ReportRow]:
    of = _Of("run", snapshot.name, {"run_id": snapshot.run_id})
    yield of.row("complete", int(snapshot.completeness == "complete"))
    yield of.row("elapsed", snapshot.elapsed_s, "s")
    yield from _account(of, snapshot.accounting)
    yield of.row("lost", snapshot.accounting.lost)


def _series(report: Report, of: Callable[[str, SeriesStat], _Of], paces: Paces) -> Iterator[ReportRow]:
    bounds = {(entry.name, tuple(sorted(entry.labels.items()))): entry.percentiles for entry in report.bounds}
    for stat in report.snapshot.series:
        subject, own = of("series", stat), bounds.get((stat.name, tuple(sorted(stat.labels.items()))), {})
        yield subject.row("count", stat.count, "")
        yield subject.row("rate", paces.of(stat).per_s, _per_second(""))
        for figure in _SHAPE:
            yield subject.row(figure, getattr(stat, figure))
        for key, value in stat.percentiles.items():
            yield subject.row(f"p{key}", value, bounds=own.get(key))
        yield subject.row("error_bound", stat.error_bound, "")
        yield subject.row("below", stat.below, "")
        yield subject.row("above", stat.above, "")


def _point(of: _Of, point: SeriesPoint) -> Iterator[ReportRow]:
    yield of.row("count", point.count, "")
    yield of.row("rate", point.rate, _per_second(""))
    yield of.row("min", point.min)
    yield of.row("max", point.max)
    for key, value in point.percentiles.items():
        yield of.row(f"p{key}", value)


def _accounts(snapshot: MetricsSnapshot) -> Iterator[ReportRow]:
    for node in snapshot.nodes:
        of = _Of("node", node.node, {"leaf": node.leaf, "host": node.host, "status": node.status})
        yield of.row("complete", int(node.completeness == "complete"))
        yield of.row("producers", node.producers)
        yield from _account(of, node.account)
        yield of.row("lost", node.account.lost)
    for stat in snapshot.producers:
        rank = {} if stat.rank is None else {"rank": str(stat.rank)}
        labels = {"producer": stat.producer, "host": stat.host, "pid": str(stat.pid), **rank}
        of = _Of("producer", stat.name or stat.producer, labels)
        yield of.row("complete", int(stat.completeness == "complete"))
        yield from _account(of, stat)
    account = snapshot.accounting
    for by, figure, losses in (
        ("producer", "events", account.dropped_by_producer),
        ("aggregator", "events", account.dropped),
        ("aggregator", "frames", account.bad_frames),
    ):
        for reason, number in losses.items():
            yield _Of("loss", reason, {"by": by}).row(figure, number)


def _account(of: _Of, stat: Accounting | ProducerStat) -> Iterator[ReportRow]:
    for figure in _ACCOUNT:
        yield of.row(figure, getattr(stat, figure))


def _axes(snapshot: MetricsSnapshot) -> Iterator[ReportRow]:
    """Yield the figures of axes. The newest value of each name has the name of the axis and a label."""
    for stat in snapshot.axes:
        of = _Of("axis", stat.name, {})
        for figure in _AXIS:
            yield of.row(figure, getattr(stat, figure))
        for name, value in stat.values.items():
            yield _Of("axis", stat.name, {"value": name}).row("value", value)


def _backends(snapshot: MetricsSnapshot) -> Iterator[ReportRow]:
    for stat in snapshot.backends:
        labels = {"kind": stat.kind}
        of = _Of("backend", stat.name, labels)
        yield of.row("complete", int(stat.state == "done" and not stat.dropped))
        for figure in _BACKEND:
            yield of.row(figure, getattr(stat, figure))
        for figure, reasons in (("dropped", stat.dropped), ("no_place", stat.no_place)):
            for reason, number in reasons.items():
                yield _Of("backend", stat.name, {**labels, "reason": reason}).row(figure, number)


def _sources(report: Report) -> Iterator[ReportRow]:
    for source in report.sources:
        labels = {"run_id": source.run_id, "host": source.host}
        of = _Of("source", source.label or source.name, labels)
        yield of.row("complete", int(source.completeness == "complete"))
        yield of.row("lost", source.lost)
        for series in source.series:
            own = _Of("source", of.name, {**labels, **series.labels, "series": series.name}, series.unit)
            yield own.row("count", series.count, "")
            for figure in ("mean", "p50", "p99", "max"):
                yield own.row(figure, getattr(series, figure))
            yield own.row("p99_to_others", series.p99_to_others, "")


def _gates(report: Report) -> Iterator[ReportRow]:
    for gate in report.gates:
        of = _Of("gate", gate.expression, {}, gate.unit, gate.start_s, gate.end_s)
        passed = {"pass": 1, "fail": 0}.get(gate.outcome)
        yield of.row("passed", passed, "")
        yield ReportRow(*of.row("value", gate.value)[:6], gate.low, gate.high, gate.start_s, gate.end_s)
        yield of.row("limit", gate.limit)
        yield of.row("samples", gate.samples, "")


def _around(snapshot: MetricsSnapshot) -> Iterator[ReportRow]:
    """Yield progress, the command's resource use, and the cost of telemetry itself."""
    for item in snapshot.progress:
        of = _Of("progress", item.name, {})
        yield of.row("done", item.done)
        yield of.row("total", item.total)
    if snapshot.command is not None:
        of = _Of("command", snapshot.command.argv[0] if snapshot.command.argv else "", {})
        for figure, unit in _COMMAND.items():
            value = getattr(snapshot.command, figure)
            yield of.row(figure, None if figure == "max_rss_bytes" and not value else value, unit)
    for figure, unit in _COST.items():
        yield _Of("cost", "telemetry", {}).row(figure, getattr(snapshot.cost, figure), unit)


def frame(report: Report, library: str) -> Any:
    """Return `rows` as a data frame of "pandas" or "polars".

    It has a column `label_…` for each label, and all labels as JSON in `labels`. Numbers are floats. Raises
    UsageError for another library, or one that is not installed.
    """
    if library not in LIBRARIES:
        raise UsageError(
            f"{library!r} is not a supported data frame library", hint=f"one of {', '.join(LIBRARIES)}"
        )
    try:
        module = import_module(library)
    except ImportError as error:
        raise UsageError(f"can't import {library}: {error}", hint=f"`pip install {library}`") from error
    all_rows = list(rows(report))
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in all_rows] for name in ReportRow._fields}
    for name in _NUMBERS:
        columns[name] = [None if value is None else float(value) for value in columns[name]]
    labels = columns["labels"]
    columns["labels"] = [labels_json(own) for own in labels]
    for key in sorted({key for own in labels for key in own}):
        columns[f"label_{key}"] = [own.get(key) for own in labels]
    if library == "pandas":
        return module.DataFrame(columns).astype(dict.fromkeys(_NUMBERS, "float64"))
    types = {name: module.Float64 if name in _NUMBERS else module.String for name in columns}
    return module.DataFrame(columns, schema=types)


def labels_json(labels: Mapping[str, str]) -> str:
    """Return labels as a JSON object with sorted keys."""
    return json.dumps(dict(sorted(labels.items())), ensure_ascii=False)


def _per_second(unit: str) -> str:
    return f"{unit or '1'}/s"
