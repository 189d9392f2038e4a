"""CSV that programs read back, and that no spreadsheet calculates with."""

from __future__ import annotations

import csv
import io
import json
import math
from importlib import import_module

import pytest
from tests.golden.report.renderings import stored_report

from telemetry.report.csv import render_csv
from telemetry.report.rows import ReportRow, rows
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot


def of(*counters: CounterStat) -> Report:
    return Report(snapshot=MetricsSnapshot(run_id="r", name="n", counters=list(counters)), source="file")


def test_every_figure_comes_back() -> None:
    """The CSV form holds every row of the report, with the same numbers."""
    report = stored_report()
    read = list(csv.DictReader(io.StringIO(render_csv(report))))
    assert [line["figure"] for line in read] == [row.figure for row in rows(report)]
    for line, row in zip(read, rows(report), strict=True):
        assert json.loads(line["labels"]) == row.labels
        for name in ("value", "low", "high", "start_s", "end_s"):
            value = getattr(row, name)
            assert line[name] == ("" if value is None else str(value))


@pytest.mark.sdk
def test_pandas_reads_it() -> None:
    """pandas reads numbers of the CSV form as numbers and tells the parts of the run apart."""
    pandas = import_module("pandas")
    frame = pandas.read_csv(io.StringIO(render_csv(stored_report())), keep_default_na=True)
    assert list(frame.columns) == list(ReportRow._fields)
    assert frame["value"].dtype == "float64"
    p99 = frame[(frame.kind == "series") & (frame.name == "first_byte") & (frame.figure == "p99")]
    assert p99.value.iloc[0] == 0.002608
    assert p99.low.iloc[0] < p99.value.iloc[0] < p99.high.iloc[0]
    assert list(p99.start_s[:3]) == [10, 0, 10.45]


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_cell_is_a_formula(start: str) -> None:
    """Text from outside that a spreadsheet would calculate is quoted for it."""
    counter = CounterStat(name=f"{start}cmd|' /C calc'!A0", unit=f"{start}1", labels={f"{start}a": f"{start}b"})
    read = list(csv.reader(io.StringIO(render_csv(of(counter)))))
    said = [cell for line in read for cell in line[:5]]
    assert f"'{start}cmd|' /C calc'!A0" in said
    assert [cell for cell in said if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


def test_a_cell_cannot_break_its_row() -> None:
    """Quotes are doubled; line breaks and control characters become visible escapes."""
    text = render_csv(of(CounterStat(name='a"b,c\n\x1bd', labels={"k": 'x"\u202ey'})))
    assert all(line.isprintable() for line in text.split("\n"))
    lines = [line for line in csv.reader(io.StringIO(text)) if line[0] == "counter"]
    assert {len(line) for line in lines} == {10}
    assert lines[0][1] == 'a"b,c\\n\\x1bd'


def test_what_is_not_finite_is_empty() -> None:
    """NaN means other things to other readers."""
    text = render_csv(of(CounterStat(name="c", value=math.nan, rate=math.inf), CounterStat(name="d", value=-3)))
    lines = [
        line for line in csv.reader(io.StringIO(text)) if line[0] == "counter" and line[4] in ("value", "rate")
    ]
    assert [line[5] for line in lines] == ["", "", "-3", ""]
