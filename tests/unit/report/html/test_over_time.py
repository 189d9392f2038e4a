"""Charts over time: which there are, and what they show."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.unit.report.html.samples import EDGES, llm_report, load_report, training_report

from telemetry.report.html.main_series import main_groups
from telemetry.report.html.numbers import rounded
from telemetry.report.html.over_time import TimeCharts
from telemetry.wire.pictures import Pictures
from telemetry.wire.report import Report


def charts(report: Report) -> list[dict[str, Any]]:
    data = TimeCharts(report).data(main_groups(report))
    return data["charts"] if data is not None else []


def test_a_load_has_rates_failures_percentiles_and_a_heat_map() -> None:
    """Routes lie side by side; percentiles are those of the busiest."""
    found = charts(load_report())
    assert [chart["title"] for chart in found] == [
        "Values per second",
        "Failures per second",
        "latency{route=a}: percentiles",
        "latency: p99 of each",
        "latency{route=a}: how values spread",
    ]
    assert [line["name"] for line in found[0]["lines"]] == ["route=a", "route=b", "route=c"]
    assert found[0]["log"] is False
    assert found[1]["lines"][0]["tone"] == "bad"
    percentiles = {line["name"]: line["values"][3] for line in found[2]["lines"]}
    assert percentiles == {"p50": 4, "p90": 5, "p99": 8, "max": 12}
    assert found[4]["columns"][:2] == [[2, 100, 1], [1, 1, 99, 1]]


def test_requests_have_failures_concurrency_and_tokens() -> None:
    """The chart of completed requests has those within limits; failed ones have a chart of their own."""
    found = {chart["title"]: chart for chart in charts(llm_report())}
    first = found["Requests per second"]
    assert [(line["name"], line.get("tone")) for line in first["lines"]] == [
        ("completed", None),
        ("within limits", "good"),
    ]
    (kind,) = llm_report().pictures.requests
    two = replace(llm_report().pictures, requests=[kind, replace(kind, kind="http")])
    several = {chart["title"]: chart for chart in charts(replace(llm_report(), pictures=two))}
    assert [line["name"].rpartition(" ")[2] for line in several["Requests per second"]["lines"]] == [
        "completed"
    ] * 2
    assert found["Failed requests per second"]["lines"][0]["whole"] == 0.5
    assert found["Failed requests per second"]["whole"] == "mean over 30.0 s"
    assert {"Requests in flight", "Output tokens per second"} <= set(found)
    assert [title.partition("{")[0] for title in found if "percentiles" in title] == [
        "llm.ttft",
        "llm.itl",
        "llm.latency",
    ]


def test_training_has_its_speed() -> None:
    """From the steps and times of the curve with the most steps."""
    (speed,) = charts(training_report())
    assert (speed["title"], speed["lines"][0]["whole"]) == ("Steps per second", 10)
    assert set(speed["lines"][0]["values"]) == {10}


def test_charts_share_their_time_steps() -> None:
    """Equal steps are in the page once; the axis covers the run."""
    report = load_report()
    data = TimeCharts(report).data(main_groups(report))
    assert data is not None
    assert len(data["times"]) == 1
    assert data["domain"] == (0.0, EDGES[-1])
    assert data["marks"] == [(5.0, "deploy")]


def test_a_run_of_a_moment_has_no_charts() -> None:
    """Two points make no picture."""
    report = load_report()
    short = [replace(one, points=one.points[:2]) for one in report.over_time]
    assert charts(replace(report, over_time=short, pictures=None)) == []


def test_the_mean_of_a_rate_is_the_total_by_time() -> None:
    """Time steps differ in length. All lines of a chart have the same time, which is named."""
    report = llm_report()
    assert report.pictures is not None
    kind = replace(
        report.pictures.requests[0],
        completed_per_s=[0.0, 100.0, 40.0, 10.0, None, 0.0],
        good_per_s=[0.0, 0.0, 20.0, 0.0, None, 0.0],
        failed_per_s=[0.0] * 6,
    )
    pictures = Pictures(edges_s=[0.0, 1.0, 2.0, 12.0, 15.0, 16.0, 17.0], requests=[kind])
    (first, *_) = charts(replace(report, pictures=pictures))
    assert first["whole"] == "mean over 14.0 s"
    assert [line["whole"] for line in first["lines"]] == [rounded(530 / 14), rounded(200 / 14)]
