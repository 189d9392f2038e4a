"""Tests of the spans: the overview's line of where the time goes, and their table."""

from __future__ import annotations

import dataclasses

from tests.unit.test_span_model import counter, series
from tests.unit.tui import feeds, trainings
from tests.unit.tui.model.scenes import column, scene, text

from telemetry.common.formatting import columns
from telemetry.tui.model.overview import overview
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.tui.model.spans import has_spans, spans_line, spans_table

SERIES = [series("latency", 5.0), series("span.rollout", 8_110.0), series("span.update", 4_970.0)]
COUNTERS = [
    counter("span_self.rollout", 8_110.0),
    counter("span_self.update", 4_200.0),
    counter("requests", 3.0, ""),
]
LINE = "time  rollout 65.9 % 8.11 s · update 34.1 % 4.20 s"


def test_the_largest_share_comes_first() -> None:
    """The line of spans begins with the largest share and its self time."""
    assert text(spans_line(scene(series=SERIES, counters=COUNTERS), 100)) == LINE


def test_the_smallest_goes_first_where_there_is_no_room() -> None:
    """The line never outgrows its width."""
    found = scene(series=SERIES, counters=COUNTERS)
    assert text(spans_line(found, len(LINE) - 1)) == "time  rollout 65.9 % 8.11 s"
    assert all(columns(text(spans_line(found, width))) <= width for width in range(60))


def test_without_self_times_there_is_no_line() -> None:
    """Nor in the past, nor before the first snapshot."""
    assert spans_line(scene(series=SERIES, counters=[]), 100) == ()
    found = scene(series=SERIES, counters=COUNTERS)
    assert spans_line(dataclasses.replace(found, snapshot=None), 100) == ()
    past = dataclasses.replace(found, moment=RangeFigures(start_ns=0, end_ns=1))
    assert spans_line(past, 100) == ()


def test_the_overview_has_the_line_in_place_of_the_counters() -> None:
    """Other counters stay."""
    found = overview(scene(series=SERIES, counters=COUNTERS), View(), 100)
    assert text(found.spans) == LINE
    assert [row.name.text for row in found.others.rows] == ["requests", "connections"]


def test_the_table_has_the_largest_self_time_first() -> None:
    """The table has the largest self time first, with bars in proportion, and times of the whole run."""
    shown = Scene(snapshot=trainings.training().last)
    assert has_spans(shown)
    grid = spans_table(shown, View(), 160)
    assert column(grid, "name") == ["backward", "forward", "load_batch", "iteration"]
    assert column(grid, "share") == ["48.6 %", "39.5 %", "9.88 %", "2.06 %"]
    assert [bar.count("━") for bar in column(grid, "bar")] == [40, 33, 8, 2]
    assert column(grid, "count") == ["720"] * 4
    assert column(grid, "p99")[0] == "130 ms"


def test_the_table_can_be_filtered() -> None:
    """The table of spans is filtered by name, and bars stay as they were."""
    shown = Scene(snapshot=trainings.training().last)
    grid = spans_table(shown, View(filter="load"), 160)
    assert [bar.count("━") for bar in column(grid, "bar")] == [8]
    assert spans_table(shown, View(filter="x"), 160).empty == "no span matches 'x'"
    assert spans_table(Scene(), View()).empty == "no spans yet"


def test_a_run_without_spans_has_no_tab() -> None:
    """Nor before the first snapshot."""
    assert not has_spans(Scene())
    assert not has_spans(Scene(snapshot=feeds.play().last))


def test_spans_without_self_time_have_a_row() -> None:
    """Whose share is not known, and which has no bar."""
    shown = scene(series=[series("span.a", 5.0)])
    grid = spans_table(shown, View())
    assert (column(grid, "share"), column(grid, "bar")[0].strip()) == (["–"], "")
