"""Requests: their counts by state, their failure reasons, and their durations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from telemetry.common import formatting, slo, wording
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.errors import UsageError
from telemetry.history.request_model import RequestCounts
from telemetry.tui.model import numbers, rows
from telemetry.tui.model.grid import Cell, Column, Grid, Line, Piece, Row, Tone, elided, fitted
from telemetry.tui.model.request_flow import Flow, flows, has_requests
from telemetry.tui.model.scene import Scene, SeriesId, View, series_id
from telemetry.tui.model.steps import has_steps
from telemetry.tui.model.visible_series import VisibleSeries, key_of, passing, time_range_words
from telemetry.wire import requests as words
from telemetry.wire.snapshot import SeriesStat

KEEP: Final[Mapping[str, int]] = {**rows.KEEP, "trend": 1, "max": 2, "p90": 3, "rate": 5}
"""Priorities of columns. 80 columns show name, p50, p90, p99, p99.9, max and trend."""
NO_WINDOW: Final = "(outside)"
_INDENT: Final = "  "
_TABS_COLUMNS: Final = 46
"""Columns that the tabs take from the caption."""
_NAME_COLUMNS: Final = 16
"""Fewest columns for a long reason."""
_STEPS_COLUMNS: Final = 9
"""Further columns taken by the tab of steps, if it exists."""
_MARGINS: Final = 3
"""Columns used by the edges of a table and by its scrollbar."""


class _Figure(NamedTuple):
    """A column of the upper table, and the figure in it."""

    column: Column
    of: Callable[[Flow], float | None]
    bad: bool = False
    """True if any value above zero is bad."""
    is_share: bool = False
    """True if the value is a share, not a rate."""


_COUNTS: Final = (
    _Figure(Column("issued", "issued ▸"), lambda flow: flow.issued),
    _Figure(Column("in_flight", "in flight ▸"), lambda flow: flow.in_flight),
    _Figure(Column("completed", "completed"), lambda flow: flow.completed),
    _Figure(Column("failed", "failed"), lambda flow: flow.failed, bad=True),
    _Figure(Column("expired", "expired", keep=3), lambda flow: flow.expired, bad=True),
)
_RATES: Final = (
    _Figure(Column("issuing", "issuing", keep=4), lambda flow: flow.issuing),
    _Figure(Column("completing", "rate", keep=1), lambda flow: flow.completing),
    _Figure(Column("failing", "failing", keep=5), lambda flow: flow.failing),
)
_GOOD: Final = (
    _Figure(Column("good", "goodput", keep=2), lambda flow: flow.good),
    _Figure(Column("attained", "SLO met"), lambda flow: flow.attained, is_share=True),
)
"""Of requests with limits."""
_TOKENS: Final = (_Figure(Column("tokens", "tokens", keep=2), lambda flow: flow.tokens),)
_DEFINED: Final = (
    _Figure(Column("overall", "rate", keep=1), lambda flow: flow.counts.rates.overall.requests_per_s),
    _Figure(
        Column("while_issuing", "while issuing", keep=5),
        lambda flow: flow.counts.rates.while_issuing.requests_per_s,
    ),
    _Figure(Column("loadgen", "LoadGen", keep=4), lambda flow: flow.counts.rates.loadgen.requests_per_s),
)
"""Rates by definition; `rate` is that from the first issue to the last end, which other tools report."""
_DEFINED_TOKENS: Final = (
    _Figure(Column("tokens", "tokens", keep=2), lambda flow: flow.counts.rates.overall.tokens_per_s),
    _Figure(
        Column("issuing_tokens", "tokens while issuing", keep=7),
        lambda flow: flow.counts.rates.while_issuing.tokens_per_s,
    ),
    _Figure(
        Column("loadgen_tokens", "LoadGen tokens", keep=6), lambda flow: flow.counts.rates.loadgen.tokens_per_s
    ),
)


@dataclass(frozen=True, slots=True)
class RequestsContent:
    """The content of the screen. `caption` has the time range of the figures and the filter."""

    request_counts: Grid
    """Counts by state."""
    series: Grid
    """Durations. Without any requests this grid has the text that says so."""
    caption: Line = ()


@dataclass(frozen=True, slots=True)
class RequestSeries:
    """The series of a kind of request, or of one of its windows, that pass the filter."""

    flow: Flow
    members: tuple[VisibleSeries, ...]


def requests(scene: Scene, view: View, width: int = 80) -> RequestsContent:
    """Return both tables. `width` is the width of the screen, in columns."""
    shown = told(scene, view)
    kept = [flow for flow, _ in shown]
    return RequestsContent(
        _request_counts(kept, scene, view, width),
        # Show the current window before the warm-up that preceded it.
        _series([part for _, members in shown for part in reversed(members)], scene, view, width),
        _caption(scene, view, len(kept), width),
    )


def told(scene: Scene, view: View) -> list[tuple[Flow, tuple[RequestSeries, ...]]]:
    """Return each kind of request with its parts. With a filter, only kinds that have a passing series."""
    item_by_series = {item.series: item for item in passing(scene, view)}
    shown = [(flow, tuple(_part(part, item_by_series) for part in flow.parts)) for flow in flows(scene, view)]
    return [pair for pair in shown if not view.filter or any(part.members for part in pair[1])]


def _part(flow: Flow, item_by_series: Mapping[SeriesId, VisibleSeries]) -> RequestSeries:
    """Return a flow with its series in the order of `telemetry.wire.requests`; turns of conversations are last."""
    stats = (series_id(stat.name, stat.labels) for stat in _stats(flow.counts))
    return RequestSeries(flow, tuple(item_by_series[series] for series in stats if series in item_by_series))


def called(counts: RequestCounts) -> str:
    """Return a kind with its labels, or the name of a window."""
    return wording.instrument(counts.kind, counts.labels) if counts.window is None else _window(counts.window)


def _window(name: str) -> str:
    return printable(name) or NO_WINDOW


def _stats(counts: RequestCounts) -> Iterator[SeriesStat]:
    for stats in (counts.series, *counts.turns.values()):
        yield from (stats[word] for word in words.INSTRUMENTS if word in stats)


def _caption(scene: Scene, view: View, kinds: int, width: int) -> Line:
    pieces = [
        Piece(time_range_words(scene, view), "strong"),
        Piece(number_of(kinds, "kind"), keep=3),
        Piece(f"filter '{printable(view.filter)}'" if view.filter else "", "accent"),
    ]
    if view.compare and scene.baseline:
        baseline = printable(f"{scene.baseline.name} {scene.baseline.run_id}")
        pieces.append(Piece(f"Δ to all of {baseline}", "accent", 2))
    return fitted(pieces, width - _TABS_COLUMNS - (_STEPS_COLUMNS if has_steps(scene) else 0))


# --- the upper table: counts -----------------------------------------------------------------------


def _request_counts(shown: Sequence[Flow], scene: Scene, view: View, width: int) -> Grid:
    rates = _rates(shown, scene, view)
    lines: list[Row] = []
    for flow in shown:
        for part in (flow, *flow.windows):
            cells = [
                *(_count(figure, part) for figure in _COUNTS),
                *(_rate(figure, part, view) for figure in rates),
            ]
            lines.append(Row(_key(part.counts), _name(part.counts), tuple(cells)))
            if part is flow:
                lines += _said(flow, scene, view, width)
    columns = (Column("name", "requests", right=False), *(figure.column for figure in (*_COUNTS, *rates)))
    return Grid(columns, tuple(lines))


def _rates(shown: Sequence[Flow], scene: Scene, view: View) -> tuple[_Figure, ...]:
    whole = _is_defined(scene, view)
    good = _GOOD if any(flow.counts.good is not None for flow in shown) else ()
    if any(words.OUTPUT_TOKENS in part.counts.series for flow in shown for part in flow.parts):
        return (*good, *_DEFINED, *_DEFINED_TOKENS) if whole else (*good, *_RATES, *_TOKENS)
    return (*good, *_DEFINED) if whole else (*good, *_RATES)


def _is_defined(scene: Scene, view: View) -> bool:
    """Return whether the rates are those that are defined for a whole run."""
    return view.figures == "run" and scene.moment is None


def _name(counts: RequestCounts) -> Cell:
    return Cell(called(counts), "strong") if counts.window is None else Cell(f"{_INDENT}{called(counts)}")


def _key(counts: RequestCounts) -> str:
    return json.dumps([counts.kind, sorted(counts.labels.items()), counts.window], ensure_ascii=False)


def _count(figure: _Figure, flow: Flow) -> Cell:
    value = figure.of(flow)
    return Cell(formatting.count(value), "dim" if not value else "bad" if figure.bad else "plain")


def _rate(figure: _Figure, flow: Flow, view: View) -> Cell:
    value = figure.of(flow)
    if figure.is_share:
        return Cell(NOTHING if value is None else f"{value * 100:.1f} %", "dim" if value is None else "strong")
    return Cell(numbers.rate(value, "", view.units), "plain" if value else "dim")


def _said(flow: Flow, scene: Scene, view: View, width: int) -> Iterator[Row]:
    """Yield rows for limits, tokens, failure reasons, finish reasons, and other outcomes.

    The history lacks them, so the past shows blanks.
    """
    counts, past = flow.counts, scene.moment is not None
    room = width - _MARGINS - formatting.columns(f"{_INDENT}finished:  ")
    details: list[tuple[str, str, Tone]] = []
    if counts.good is not None:
        details.append(("SLO", _limits(counts), "plain"))
    if load := _load(flow, scene, view, room):
        details.append(("load", load, "dim"))
    if counts.failed:
        details.append(("failed", by_count(counts.failed, room), "warn"))
    if counts.expired:
        details.append(("expired", f"{formatting.count(counts.expired)} without an outcome in time", "warn"))
    if counts.finishes:
        details.append(("finished", by_count(counts.finishes, room), "dim"))
    if counts.after_end:
        calls = f"{number_of(counts.after_end, 'call')} for requests that had already ended or are unknown"
        details.append(("too late", calls, "dim"))
    if counts.out_of_order:
        durations = f"{number_of(counts.out_of_order, 'duration')} ignored: the end is before the beginning"
        details.append(("out of order", durations, "dim"))
    for what, text, tone in details:
        cell = Cell(NOTHING, "dim") if past else Cell(elided(text, room), tone)
        yield Row(f"{what} {_key(counts)}", Cell(f"{_INDENT}{what}:", "dim"), (cell,), heading=True)


def _limits(counts: RequestCounts) -> str:
    """Return the limits and the share of the requests within each: `ttft 200 ms 92.0 % · tpot 50 ms 90.1 %`."""
    try:
        limits = slo.parse(counts.slo) if counts.slo else {}
    except UsageError:
        limits = {}
    parts = []
    for key in limits or counts.met:
        share = counts.attainment_of(key)
        limit = f" {formatting.duration_ns(limits[key])}" if key in limits else ""
        parts.append(f"{printable(key)}{limit}{'' if share is None else f' {share * 100:.1f} %'}")
    return " · ".join(parts) or NOTHING


def _load(flow: Flow, scene: Scene, view: View, width: int) -> str:
    """Return what fits of tokens per second and concurrency, such as `12 in flight on average · peak ≥ 20`."""
    counts, units = flow.counts, view.units
    given, output = flow.input_tokens, flow.tokens
    if view.figures == "run":
        given, output = counts.input_tokens_per_s, counts.output_tokens_per_s
    parts = []
    if given is not None and output is not None:
        parts += [
            f"tokens {numbers.rate(given, '', units)} in",
            f"{numbers.rate(output, '', units)} out",
            f"{numbers.rate(given + output, '', units)} in all",
        ]
    if (per_chunk := counts.tokens_per_chunk) is not None:
        parts.append(f"{formatting.scaled(per_chunk)} a chunk")
    if (mean := counts.concurrency_mean) is not None:
        parts.append(f"{formatting.scaled(mean)} in flight on average")
    if counts.window is None and (peak := scene.peaks.get(series_id(counts.kind, counts.labels))):
        parts.append(f"peak ≥ {formatting.count(peak)}{'' if mean is not None else ' in flight'}")
    return "".join(cell.text for cell in fitted([Piece(each, keep=at) for at, each in enumerate(parts)], width))


def by_count(counts: Mapping[str, float], width: int) -> str:
    """Return the most frequent reasons that fit in `width` columns: `timeout 200 · http_500 25 · 3 others 7`.

    Long names lose their middle. Counts are never cut.
    """
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    text = ""
    for most in range(len(ordered), 0, -1):
        names = [printable(name) or NOTHING for name, _ in ordered[:most]]
        tails = [f" {formatting.count(count)}" for _, count in ordered[:most]]
        if rest := ordered[most:]:
            tails[-1] += f" · {number_of(len(rest), 'other')} {formatting.count(sum(count for _, count in rest))}"
        room = width - formatting.columns(" · ".join(tails))
        share = max(_NAME_COLUMNS, room // most) if most > 1 else max(1, room)
        cut = [formatting.without_middle(name, share) for name in names]
        text = " · ".join(f"{name}{tail}" for name, tail in zip(cut, tails, strict=True))
        if formatting.columns(text) <= width:
            break
    return elided(text, width)


# --- the lower table: durations --------------------------------------------------------------------


def _series(parts: Sequence[RequestSeries], scene: Scene, view: View, width: int) -> Grid:
    columns = rows.columns(scene, view, "series", KEEP)
    if _is_defined(scene, view):
        # The upper table has the defined rates. Rates by the length of the whole run would contradict them.
        columns = tuple(column for column in columns if column.key != "rate")
    seconds = rows.trend_seconds(scene, width)
    lines: list[Row] = []
    for part in parts:
        if len(parts) > 1 and part.members:
            lines.append(
                Row(f"part {_key(part.flow.counts)}", Cell(_heading(part.flow.counts), "strong"), heading=True)
            )
        for item in part.members:
            figures = partial(rows.figures, item, columns[1:], view, seconds)
            lines.append(Row(key_of(item.series), Cell(_word(item, part.flow.counts, view)), figures))
    about = time_range_words(scene, view)
    return Grid(columns, tuple(lines), empty=_nothing(scene, view, parts), about=about)


def _heading(counts: RequestCounts) -> str:
    kind = wording.instrument(counts.kind, counts.labels)
    return kind if counts.window is None else f"{kind}, {_window(counts.window)}"


def _word(item: VisibleSeries, counts: RequestCounts, view: View) -> str:
    """Return the name without its heading's part; with the unit if numbers carry none."""
    stat = item.stat
    own = {key: value for key, value in stat.labels.items() if key == words.TURN}
    unit = stat.unit if view.units == "raw" else ""
    return numbers.instrument(stat.name.removeprefix(f"{counts.kind}."), own, unit, view.units)


def _nothing(scene: Scene, view: View, parts: Sequence[RequestSeries]) -> str:
    if parts:
        return "no measurements yet"
    if view.filter and has_requests(scene):
        return f"no request matches '{printable(view.filter)}'"
    return "no requests yet" if scene.live else "the run has no requests"
