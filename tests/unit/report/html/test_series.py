"""Tests of the data behind the table of series."""

from __future__ import annotations

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.common import formatting
from telemetry.report.html.series import series_data


def test_cells_are_those_of_the_text() -> None:
    """Rounded by the same rules, with the same marks; the numbers beside them are for sorting."""
    report = stored_report()
    data = series_data(report)
    first, stat = data["series"][0], report.snapshot.series[0]
    assert data["columns"][:4] == ["name", "count", "mean", "p50"]
    assert len(first["values"]) == len(data["columns"]) == len(first["cells"]) + 1
    assert first["name"] == "latency{route=/search,status=200}"
    assert first["cells"][:3] == ["12,345", "1.40 ms", "1.23 ms"]
    assert first["cells"][-2:] == ["*33.2 ms", "38.1 ms"]
    assert first["values"][3] == stat.percentiles["50"]
    assert first["values"][-1] == stat.max
    assert len(first["bounds"]) == len(data["keys"])
    low, high, beyond, words, few = first["bounds"][data["keys"].index("99")]
    assert (words, few) == ("6.26–6.78 ms", False)
    assert formatting.quantity(low, "ms") == "6.26 ms"
    assert (high, beyond) == (6.781, 123)
    assert first["bounds"][-1][3:] == ("too few values", True)


def test_series_share_their_times() -> None:
    """Steps that are the same are there once; a series of its own times has its own."""
    report = stored_report()
    assert len(series_data(report)["times"]) == 1
    one, other = report.over_time
    moved = replace(other, points=other.points[1:])
    data = series_data(replace(report, over_time=[one, moved]))
    assert [entry["over"]["times"] for entry in data["series"][:2]] == [0, 1]
    assert data["times"][1][0][0] == one.points[1].start_s


def test_a_step_without_values_is_a_gap() -> None:
    """A step without values is a gap. A series without figures over time has no data over time."""
    data = series_data(stored_report())
    over = data["series"][0]["over"]
    assert over["max"][5] is None
    assert {column[5] for column in over["percentiles"].values()} == {None}
    assert data["series"][3]["over"] is None
