"""The parts of a screen as JSON. Values are in the units of their series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.timeline import Timeline
from telemetry.history.span_model import span_times
from telemetry.tui.model import series_plots
from telemetry.tui.model.nodes import stat_of_row
from telemetry.tui.model.overview import others_shown
from telemetry.tui.model.producers import producers
from telemetry.tui.model.request_flow import Flow
from telemetry.tui.model.requests import RequestSeries, told
from telemetry.tui.model.rows import COMPARED
from telemetry.tui.model.scene import Opened, Scene, SeriesId, ValuesOverTime, View
from telemetry.tui.model.series import digest_of, figures_shown, points_of, stat_of
from telemetry.tui.model.step_grid import curve_of
from telemetry.tui.model.steps import steps_per_s, values_shown
from telemetry.tui.model.visible_series import VisibleSeries, matches, run_figures, shown, time_range_words
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

Json = dict[str, Any]
_MOST_POINTS = 1_000
"""Points of a curve over time: several per column of the widest screen."""


def run(snapshot: MetricsSnapshot | None) -> Json | None:
    if snapshot is None:
        return None
    account = snapshot.accounting
    return {
        "run_id": snapshot.run_id,
        "name": snapshot.name,
        "state": snapshot.state,
        "completeness": snapshot.completeness,
        "reason": snapshot.reason,
        "started_ns": snapshot.started_ns,
        "time_ns": snapshot.time_ns,
        "elapsed_s": snapshot.elapsed_s,
        "events_per_s": snapshot.cost.events_per_s,
        "applied": account.applied,
        "emitted": account.emitted,
        "lost": account.lost,
        "progress": msgspec.to_builtins(snapshot.progress),
        "directory": snapshot.directory,
    }


def view_state(scene: Scene, view: View) -> Json:
    moment = scene.moment
    return {
        "time_range": time_range_words(scene, view),
        "start_ns": moment.start_ns if moment else None,
        "end_ns": moment.end_ns if moment else None,
        "sort": view.sort,
        "descending": view.descending,
        "filter": view.filter,
        "group": view.group,
        "baseline": scene.baseline.run_id if view.compare and scene.baseline else None,
    }


def overview(scene: Scene, view: View) -> Json:
    others = [] if scene.moment else list(others_shown(scene, view))
    return {
        "series": [_series(item, group.heading, view) for group in shown(scene, view) for item in group.members],
        "counters": [msgspec.to_builtins(stat) for stat in others if isinstance(stat, CounterStat)],
        "gauges": [msgspec.to_builtins(stat) for stat in others if not isinstance(stat, CounterStat)],
        "marks": msgspec.to_builtins(scene.snapshot.marks) if scene.snapshot else [],
    }


def _series(item: VisibleSeries, heading: str, view: View) -> Json:
    row: Json = {
        "name": item.stat.name,
        "labels": item.stat.labels,
        "unit": item.stat.unit,
        **_figures(item.figures),
        "rate": item.rate,
        "run_max": item.stat.max,
        "p99_trend": list(item.trend),
    }
    if view.group:
        row["group"] = heading
    if view.compare and item.base is not None:
        row["baseline"] = dict(item.base.percentiles)
        row["change"] = {key: item.change(key) for key in COMPARED if item.change(key) is not None}
    return row


def _figures(figures: Figures) -> Json:
    return {
        "seconds": figures.seconds,
        "count": figures.count,
        "rate": figures.rate,
        "min": figures.min,
        "max": figures.max,
        "percentiles": dict(figures.percentiles),
    }


def detail(scene: Scene, view: View, series: SeriesId, timeline: Timeline | None) -> Json | None:
    stat = stat_of(scene.snapshot, series)
    if stat is None or scene.snapshot is None:
        return None
    base = stat_of(scene.baseline, series) if view.compare else None
    return {
        **msgspec.to_builtins(stat),
        "time_range": _figures(figures_shown(scene, view, stat, digest_of(scene, view, timeline))),
        "baseline": _figures(run_figures(base, scene.baseline)) if base and scene.baseline else None,
        "over_time": _points(view, timeline) if timeline is not None and len(timeline) else [],
    }


def _points(view: View, timeline: Timeline) -> list[Json]:
    """Return the points of the time range that zoom and pan select."""
    points = points_of(timeline, *series_plots.time_range_of(timeline, view), _MOST_POINTS)
    return [{"start_ns": at.start_ns, "end_ns": at.end_ns, **_figures(at.figures)} for at in points]


def producers_shown(scene: Scene, view: View) -> Json:
    """Return the nodes and producers of the table. A producer of a node has only what is known of it."""
    stats = {stat.producer: stat for stat in scene.snapshot.producers} if scene.snapshot else {}
    rows = (stats.get(row.key) or stat_of_row(scene, row.key) for row in producers(scene, view).rows)
    return {"producers": [msgspec.to_builtins(stat) for stat in rows if stat is not None]}


def requests(scene: Scene, view: View) -> Json:
    return {"requests": [_kind(flow, parts, scene, view) for flow, parts in told(scene, view)]}


def _kind(flow: Flow, parts: Sequence[RequestSeries], scene: Scene, view: View) -> Json:
    counts = flow.counts
    kind = {"kind": counts.kind, "labels": dict(counts.labels), **_flow(flow, scene, view)}
    if flow.windows:
        kind["windows"] = [{"window": part.flow.counts.window, **_flow(part.flow, scene, view)} for part in parts]
    kind["series"] = [_series(item, "", view) for part in parts for item in part.members]
    return kind


def steps(scene: Scene, view: View) -> Json:
    """Return all axes, with the values that pass the filter and their curves over the run."""
    snapshot = scene.snapshot
    curves = [curve for curve in scene.curves or () if not view.filter or matches(curve.name, view.filter)]
    axes = [
        {
            **msgspec.to_builtins(stat),
            "steps_per_s": steps_per_s(stat, scene, view),
            "values": dict(values_shown(stat, view)),
            "curves": [msgspec.to_builtins(curve) for curve in curves if curve.axis == stat.name],
        }
        for stat in (snapshot.axes if snapshot else [])
    ]
    return {"axes": axes, "backends": msgspec.to_builtins(snapshot.backends) if snapshot else []}


def spans(scene: Scene, view: View) -> Json:
    shares = span_times(scene.snapshot) if scene.snapshot is not None else []
    return {
        "spans": [
            {**msgspec.to_builtins(span.durations), "name": span.name, "self_ms": span.self_ms, "share": span.share}
            for span in shares
            if matches(span.name, view.filter)
        ]
    }


def log(scene: Scene, view: View) -> Json:
    snapshot = scene.snapshot
    return {
        "warnings": list(snapshot.warnings) if snapshot else [],
        "marks": msgspec.to_builtins(snapshot.marks) if snapshot else [],
        "output": list(scene.output),
    }


def curve(scene: Scene, opened: Opened, values: ValuesOverTime | None) -> Json | None:
    """Return the curve of a value of steps; of a counter its increases, of a gauge its values."""
    if opened.kind == "steps":
        curve = curve_of(scene.curves or (), opened.steps)
        return None if curve is None else dict(msgspec.to_builtins(curve))
    points = values.points if values is not None else ()
    return {
        "name": opened.series[0],
        "labels": dict(opened.series[1]),
        "kind": values.kind if values is not None else None,
        "points": [{"start_ns": start, "end_ns": end, "value": value} for start, end, value in points],
    }


def _flow(flow: Flow, scene: Scene, view: View) -> Json:
    """Return counts and rates as shown. Reasons are unknown for the past."""
    requests, past = flow.counts, scene.moment is not None
    counts: Json = {name: getattr(flow, name) for name in ("issued", "in_flight", "completed", "failed", "expired")}
    if not past:
        counts |= {"failed_by_reason": dict(requests.failed), "finished": dict(requests.finishes)}
        counts["after_end"] = requests.after_end
        counts["out_of_order"] = requests.out_of_order
    if view.figures == "run" and not past:
        return {**counts, "rates": msgspec.to_builtins(requests.rates)}
    per_s = {
        "issued": flow.issuing,
        "completed": flow.completing,
        "failed": flow.failing,
        "output_tokens": flow.tokens,
    }
    return {**counts, "per_s": per_s}


def strict(value: Any) -> Any:
    """Replace NaN and infinity by None: JSON has neither."""
    if isinstance(value, dict):
        return {str(key): strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
