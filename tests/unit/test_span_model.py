"""Tests of where the time goes, from the spans of a snapshot."""

from __future__ import annotations

from msgspec.structs import replace

from telemetry.history.span_model import span_times, without_spans
from telemetry.report.spans import spans
from telemetry.wire.report import Report, SpanSpread
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, ProducerStat, SeriesStat


def series(name: str, total: float, count: int = 2, unit: str = "ms", **labels: str) -> SeriesStat:
    return SeriesStat(
        name=name, unit=unit, labels=labels, count=count, total=total, mean=total / count if count else None,
        min=1.0, max=9.0, percentiles={"50": 4.0, "99": 9.0},
    )  # fmt: skip


def counter(name: str, value: float, unit: str = "ms", events: int = 2) -> CounterStat:
    return CounterStat(name=name, unit=unit, value=value, events=events)


SNAPSHOT = MetricsSnapshot(
    run_id="r",
    name="job",
    series=[series("latency", 5.0), series("span.step", 100.0), series("span.save", 20.0), series("span.at", 7.0)],
    counters=[counter("requests", 1, ""), counter("span_self.save", 20.0), counter("span_self.step", 60.0)],
)


def test_the_largest_self_time_comes_first() -> None:
    """A span without a self time has no share, and comes last."""
    found = [(one.name, one.self_ms, one.share) for one in span_times(SNAPSHOT)]
    assert found == [("step", 60.0, 0.75), ("save", 20.0, 0.25), ("at", None, None)]


def test_a_self_time_that_is_unknown_is_not_zero() -> None:
    """A counter without increments stands for nothing. Some producers define it and never know a self time."""
    durations = [series("span.at", 7.0), series("span.fast", 0.0)]
    counters = [counter("span_self.at", 0.0, events=0), counter("span_self.fast", 0.0)]
    snapshot = replace(SNAPSHOT, series=durations, counters=counters)
    assert [(one.name, one.self_ms, one.share) for one in span_times(snapshot)] == [
        ("at", None, None),
        ("fast", 0.0, None),
    ]
    section = spans(Report(snapshot=snapshot, source="final"))
    assert section.table is not None
    assert [column.title for column in section.table.columns[:3]] == ["span", "self", "total"]
    assert [row[:2] for row in section.table.rows] == [["at", "–"], ["fast", "0 s"]]
    section = spans(Report(snapshot=replace(snapshot, series=durations[:1]), source="final"))
    assert section.table is not None
    assert [column.title for column in section.table.columns[:2]] == ["span", "total"]
    assert section.notes == []


def test_other_instruments_are_not_spans() -> None:
    """A series with the name of a span but with labels or another unit is no span."""
    odd = [series("span.x", 1.0, unit="s"), series("span.y", 1.0, rank="0"), series("span.never", 0.0, count=0)]
    assert span_times(MetricsSnapshot(run_id="r", name="job", series=odd)) == []
    assert without_spans(odd[:2]) == odd[:2]
    assert [stat.name for stat in without_spans(SNAPSHOT.series)] == ["latency"]
    assert [stat.name for stat in without_spans(SNAPSHOT.counters)] == ["requests"]


def test_the_section_has_a_row_for_each_name() -> None:
    """The section has a row for each name of a span. A report without spans has no section."""
    section = spans(Report(snapshot=SNAPSHOT, source="final"))
    assert section.table is not None
    assert [row[:5] for row in section.table.rows] == [
        ["step", "60.0 ms", "75 %", "100 ms", "2"],
        ["save", "20.0 ms", "25 %", "20.0 ms", "2"],
        ["at", "–", "–", "7.00 ms", "2"],
    ]
    assert not spans(Report(snapshot=MetricsSnapshot(run_id="r", name="job"), source="final"))


def test_the_section_names_the_ranks_with_the_least_and_the_most() -> None:
    """The section names the ranks with the least and the most if several processes recorded a span."""
    spread = SpanSpread(name="step", producers=2, mean_ms=50.0, least_ms=40.0, most_ms=60.0, least="a", most="b")
    known = [ProducerStat(producer="a", name="trainer", rank=3)]
    snapshot = replace(SNAPSHOT, producers=known)
    section = spans(Report(snapshot=snapshot, source="final", spans=[spread]))
    assert section.table is not None
    assert [column.title for column in section.table.columns[-2:]] == ["least", "most"]
    assert [row[-2:] for row in section.table.rows] == [["40.0 ms rank 3", "60.0 ms b"], ["–", "–"], ["–", "–"]]


def test_spans_without_any_self_time_have_no_share() -> None:
    """Spans without self time have no share, since the share would be a division by zero."""
    counters = [counter("span_self.x", 0.0)]
    none = MetricsSnapshot(run_id="r", name="job", series=[series("span.x", 0.0)], counters=counters)
    assert [(one.share, one.self_ms) for one in span_times(none)] == [(None, 0.0)]
