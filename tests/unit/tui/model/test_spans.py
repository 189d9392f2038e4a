"""Where the time goes, in one line of the overview."""

from __future__ import annotations

import dataclasses

from tests.unit.test_span_model import counter, series
from tests.unit.tui.model.scenes import scene, text

from telemetry.formatting import columns
from telemetry.tui.model.overview import overview
from telemetry.tui.model.scene import RangeFigures, View
from telemetry.tui.model.spans import spans_line

SERIES = [series("latency", 5.0), series("span.rollout", 8_110.0), series("span.update", 4_970.0)]
COUNTERS = [
    counter("span_self.rollout", 8_110.0),
    counter("span_self.update", 4_200.0),
    counter("requests", 3.0, ""),
]
LINE = "time  rollout 65.9 % 8.11 s · update 34.1 % 4.20 s"


def test_the_largest_share_comes_first() -> None:
    """With its self time."""
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
