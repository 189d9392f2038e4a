"""Tests of the sources in the report of a merged run."""

from __future__ import annotations

import json

from telemetry.report import render
from telemetry.report.sources import sources_sections
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot
from telemetry.wire.sources import SourceSeries, SourceStat


def series(name: str, p99: float, ratio: float | None, *, odd: bool = False) -> SourceSeries:
    return SourceSeries(
        name=name, unit="ms", count=1000, mean=1.0, p50=1.5, p99=p99, max=9.0, p99_to_others=ratio, odd=odd
    )


SOURCES = [
    SourceStat(
        run_id="r1",
        name="job",
        label="h\x1b1",
        host="h1",
        elapsed_s=60.0,
        completeness="complete",
        series=[series("even", 2.0, 1.0), series("latency", 2.0, 0.25)],
    ),
    SourceStat(
        run_id="r2",
        name="job",
        label="h2",
        host="h2",
        start_offset_s=0.25,
        elapsed_s=61.0,
        completeness="lossy",
        lost=12,
        series=[series("even", 2.0, 1.0), series("latency", 8.0, 4.0, odd=True), series("alone", 3.0, None)],
    ),
]


def report(sources: list[SourceStat]) -> Report:
    snapshot = MetricsSnapshot(run_id="m", name="all", state="COMPLETE", completeness="lossy")
    return Report(snapshot=snapshot, source="file", sources=sources)


def test_a_run_that_was_not_merged_has_no_such_sections() -> None:
    """The report of a run that was not merged does not mention sources."""
    assert sources_sections(report([])) == []
    assert "ource" not in render(report([]), "text")


def test_each_source_has_a_line() -> None:
    """A line shows how late a source began, how long it took and what it lost. Control characters are escaped."""
    text = render(report(SOURCES), "text", width=120)
    lines = [line.split() for line in text.partition("\nSources\n")[2].partition("\n\n")[0].splitlines()]
    assert lines == [
        ["source", "run", "host", "started", "took", "result", "lost"],
        ["h\\x1b1", "r1", "h1", "first", "60.0", "s", "complete", "0"],
        ["h2", "r2", "h2", "+250", "ms", "61.0", "s", "lossy", "12"],
    ]
    assert "\x1b" not in text


def test_series_stand_beside_each_other() -> None:
    """Series with an odd source come first, and that source is marked.

    A source that can't be compared has no number.
    """
    table = sources_sections(report(SOURCES))[1].table
    assert table is not None
    assert [(row[0], row[-1]) for row in table.rows] == [
        ("latency", "×0.25"),
        ("", "◀ ×4"),
        ("even", "×1"),
        ("", "×1"),
        ("alone", "–"),
    ]
    assert "◀ is farthest from the median p99 of the other sources" in render(report(SOURCES), "text")
    assert "◀" not in render(report([SOURCES[0]]), "text")


def test_all_forms_have_them() -> None:
    """Markdown as tables, JSON field by field."""
    assert "| h2 |" in render(report(SOURCES), "md").replace("  ", " ")
    document = json.loads(render(report(SOURCES), "json"))
    assert document["sources"][1]["series"][1]["odd"] is True
