"""A report as rows, and as data frames."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import steps_report, stored_report

from telemetry.errors import UsageError
from telemetry.report.rows import ReportRow, rows
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot


def test_rows_say_what_they_are_of() -> None:
    """A percentile with its bounds in the time range, the same in a step of time, a count without a unit."""
    report = stored_report()
    found = [row for row in rows(report) if (row.kind, row.name) == ("series", "first_byte")]
    (p99, *steps) = [row for row in found if row.figure == "p99"]
    assert p99 == ReportRow("series", "first_byte", {}, "s", "p99", 0.002608, 0.002504, 0.002712, 10, 120)
    assert [(row.start_s, row.end_s) for row in steps] == [
        (point.start_s, point.end_s) for point in report.over_time[1].points if point.percentiles
    ]
    assert {row.unit for row in found if row.figure == "count"} == {""}
    assert {row.unit for row in found if row.figure == "rate"} == {"1/s"}


def test_the_whole_run_has_no_times() -> None:
    """Rows of the whole run have no times, also if a part was looked for in vain."""
    report = stored_report()
    assert report.time_range is not None
    for time_range in (None, replace(report.time_range, found=False)):
        whole = replace(report, time_range=time_range, over_time=[], gates=[])
        assert {(row.start_s, row.end_s) for row in rows(whole)} == {(None, None)}


def test_all_kinds_are_there() -> None:
    """The rows cover every kind of thing that has figures."""
    found = {row.kind for row in rows(stored_report())}
    assert found == {
        *("run", "series", "counter", "gauge", "producer", "loss", "source", "gate", "progress", "command", "cost")
    }


def test_gates_are_numbers() -> None:
    """Passed is 1, failed 0, and what nobody knows is empty; the value stands within its bounds."""
    gates = [row for row in rows(stored_report()) if row.kind == "gate"]
    assert [row.value for row in gates if row.figure == "passed"] == [1, 0, None]
    value = next(row for row in gates if row.figure == "value")
    assert (value.value, value.low, value.high, value.unit) == (6.52, 6.21, 6.9, "ms")


@pytest.mark.sdk
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: Any) -> None:
    """The rows with numbers as floats, and a column for each label."""
    import_module(library)
    report = stored_report()
    frame = report.to_pandas() if library == "pandas" else report.to_polars()
    assert list(frame.columns)[:10] == list(ReportRow._fields)
    assert len(frame) == len(list(rows(report)))
    routes = [route for route in frame["label_route"] if isinstance(route, str)]
    assert set(routes) == {"/search"}
    labels = [json.loads(text) for text in frame["labels"]]
    assert labels == [row.labels for row in rows(report)]
    values = [None if value != value else value for value in frame["value"]]  # noqa: PLR0124 – NaN
    assert values == [row.value for row in rows(report)]


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that gets it."""
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n", counters=[CounterStat(name="c")]), source="file")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match=r"can't import polars.*`pip install polars`"):
        report.to_polars()


def test_steps_and_backends() -> None:
    """Newest values have the name as a label; losses of a backend have a reason."""
    found = list(rows(steps_report()))
    axis = {row.figure: row.value for row in found if row.kind == "axis" and row.name == "train" and not row.labels}
    assert axis == {"closed": 1200, "open": 0, "newest": 1199, "producers": 0, "timeouts": 3, "corrections": 17}
    values = [row for row in found if row.kind == "axis" and row.labels == {"value": "gradient/norm"}]
    assert [(row.figure, row.value) for row in values] == [("value", None)]
    wandb = [row for row in found if row.kind == "backend" and row.name == "wandb"]
    assert [(row.figure, row.value) for row in wandb][:3] == [("complete", 0), ("written", 945), ("queued", 675)]
    assert ReportRow("backend", "wandb", {"kind": "wandb", "reason": "too_large"}, "", "dropped", 2) in wandb
