"""Series over time: as a line, as steps side by side, each whole."""

from __future__ import annotations

from telemetry.report.over_time import busiest, courses, each_over_time
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import MetricsSnapshot


def over(name: str, values: list[float | None], count: int = 10) -> SeriesOverTime:
    points = [
        SeriesPoint(start_s=10.0 * at, end_s=10.0 * at + 10.0)
        if value is None
        else SeriesPoint(
            start_s=10.0 * at,
            end_s=10.0 * at + 10.0,
            count=count,
            rate=count / 10,
            min=0.1,
            max=value * 2,
            percentiles={"50": value / 2, "99": value},
        )
        for at, value in enumerate(values)
    ]
    return SeriesOverTime(name=name, unit="ms", points=points)


def report(*series: SeriesOverTime) -> Report:
    return Report(
        snapshot=MetricsSnapshot(run_id="r", name="n"), source="file", step_s=10.0, over_time=list(series)
    )


def rows(section: object) -> list[list[str]]:
    table = section.table  # type: ignore[attr-defined]
    assert table is not None
    return table.rows  # type: ignore[no-any-return]


def test_a_course_is_a_bar_a_step() -> None:
    """The highest bar is the highest value; a step without values is a gap."""
    section = courses(report(over("latency", [1.0, None, 4.0, 8.0])))
    assert section.title == "Over time, in steps of 10.0 s"
    assert rows(section) == [["latency", "▂ ▅█", "1.00 ms", "8.00 ms"]]


def test_many_steps_share_bars_and_the_highest_counts() -> None:
    """A spike is seen, however long the run was."""
    values: list[float | None] = [1.0] * 600
    values[333] = 8.0
    ((_, course, _, _),) = rows(courses(report(over("latency", values))))
    assert len(course) == 30
    assert course[333 // 20] == "█"
    assert set(course) == {"▂", "█"}


def test_the_busiest_stand_beside_each_other() -> None:
    """Three, by their letters; steps that one of them does not have are empty, and the others are counted."""
    few = [over(f"s{at}", [1.0, 2.0], count=at) for at in range(1, 5)]
    section = busiest(report(*few, over("late", [None, 3.0, 4.0], count=100)))
    assert section.lines == ["A: late", "B: s4", "C: s3", "2 more series over time are in the JSON form"]
    assert [row[:4] for row in rows(section)] == [
        ["0 s", "–", "–", "500 µs"],
        ["10.0 s", "1.50 ms", "3.00 ms", "1.00 ms"],
        ["20.0 s", "2.00 ms", "4.00 ms", "–"],
    ]


def test_one_series_alone_has_all_its_figures() -> None:
    """A single series has the same figures over time as it has among all series."""
    one = report(over("latency", [2.0]))
    (whole,) = each_over_time(one)
    assert whole.title == "Over time, in steps of 10.0 s: latency"
    assert rows(busiest(one)) == rows(whole) == [["0 s", "10", "1/s", "100 µs", "1.00 ms", "2.00 ms", "4.00 ms"]]


def test_nothing_over_time_is_no_section() -> None:
    """Nor is a series of nothing but gaps."""
    assert not courses(report())
    assert not busiest(report())
    assert not courses(report(over("s", [None])))
    assert not busiest(report(over("s", [None]), over("t", [None])))
