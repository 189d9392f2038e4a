"""Charts over time: which there are, and what they show."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.unit.report.html.samples import EDGES, llm_report, load_report, training_report

from telemetry.report.html.data import readable, rounded
from telemetry.report.html.main_series import main_groups
from telemetry.report.html.over_time import TimeCharts
from telemetry.wire.pictures import Pictures
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat


def charts(report: Report) -> list[dict[str, Any]]:
    data = TimeCharts(report).data(main_groups(report))
    return data["charts"] if data is not None else []


def test_a_load_has_rates_percentiles_and_a_heat_map() -> None:
    """The overview comes first; routes lie side by side; percentiles are those of the busiest."""
    found = charts(load_report())
    assert [chart["title"] for chart in found] == [
        "Requests per second, failures and p99",
        "Values per second",
        "latency{route=a}: percentiles",
        "latency: p99 of each",
        "latency{route=a}: how values spread",
    ]
    assert [line["name"] for line in found[1]["lines"]] == ["route=a", "route=b", "route=c"]
    assert found[1]["log"] is False
    percentiles = {line["name"]: line["values"][3] for line in found[2]["lines"]}
    assert percentiles == {"p50": 4, "p90": 5, "p99": 8, "max": 12}
    assert found[4]["columns"][:2] == [[2, 100, 1], [1, 1, 99, 1]]


def test_several_counters_of_failures_have_a_chart_of_their_own() -> None:
    """The overview has their sum; failures of the machine are no failures of the load."""
    report = load_report()
    assert report.pictures is not None
    errors = report.pictures.counters[0]
    machine = replace(errors, name="host.net_errors")
    pictures = replace(report.pictures, counters=[errors, machine, replace(errors, name="timeouts")])
    found = {chart["title"]: chart for chart in charts(replace(report, pictures=pictures))}
    assert [line["name"] for line in found["Failures per second"]["lines"]] == ["errors", "timeouts"]
    overview = found["Requests per second, failures and p99"]["lines"]
    assert next(line["values"] for line in overview if line["name"] == "failures/s")[:3] == [0, 2, 4]


def test_a_legend_has_the_rate_of_the_table() -> None:
    """The first and the last step have events in a part of them, so a mean of the steps would be another rate."""
    report = load_report()
    started_ns = 1_000 * 10**9
    times = {"began_ns": started_ns + 10**9, "ended_ns": started_ns + 5 * 10**9}
    snapshot = replace(
        report.snapshot,
        started_ns=started_ns,
        series=[replace(stat, **times) for stat in report.snapshot.series],
        counters=[CounterStat(name="errors", value=60, events=60, **times)],
    )
    found = {chart["title"]: chart for chart in charts(replace(report, snapshot=snapshot))}
    legend = {line["name"]: line["whole"] for line in found["Values per second"]["lines"]}
    assert legend == {f"route={stat.labels['route']}": stat.count / 4.0 for stat in snapshot.series}
    overview = found["Requests per second, failures and p99"]["lines"]
    assert next(line["whole"] for line in overview if line["name"] == "failures/s") == 15


def test_requests_have_an_overview_concurrency_and_tokens() -> None:
    """Rates and failures share the left axis; p99 has the right one."""
    found = {chart["title"]: chart for chart in charts(llm_report())}
    first = found["Requests per second, failures and p99"]
    assert [(line["name"], line.get("tone"), line.get("drawn"), line.get("right")) for line in first["lines"]] == [
        ("requests/s", None, "area", None),
        ("p99 latency", None, None, True),
        ("p99 TTFT", None, None, True),
        ("within limits/s", "good", None, None),
        ("failed/s", "bad", "bars", None),
    ]
    assert next(iter(found)) == first["title"]
    assert first["lines"][4]["whole"] == readable(47 / 90)
    assert first["whole"] == "mean over 90.0 s; p99 of the whole run"
    report = llm_report()
    assert report.pictures is not None
    (kind,) = report.pictures.requests
    two = replace(report.pictures, requests=[kind, replace(kind, kind="http")])
    (title, *_), (several, *_) = zip(
        *((chart["title"], chart) for chart in charts(replace(report, pictures=two))), strict=True
    )
    assert title == first["title"]
    rates = [line["name"] for line in several["lines"] if not line.get("right")]
    assert rates == ["requests/s", "within limits/s", "failed/s"]
    assert {"Requests in flight", "Output tokens per second"} <= set(found)
    assert [name.partition("{")[0] for name in found if "percentiles" in name] == [
        "llm.ttft",
        "llm.itl",
        "llm.latency",
    ]


def test_an_overview_needs_durations() -> None:
    """Series in another unit have their own chart of rates."""
    report = load_report()
    sizes = [replace(stat, unit="B") for stat in report.snapshot.series]
    over = [replace(one, unit="B") for one in report.over_time]
    found = charts(replace(report, snapshot=replace(report.snapshot, series=sizes), over_time=over))
    assert [chart["title"] for chart in found][:2] == ["Values per second", "Failures per second"]
    assert found[1]["lines"][0]["tone"] == "bad"


def test_training_has_its_speed() -> None:
    """The speed of a training comes from the steps and times of the curve with the most steps."""
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


def test_the_axis_ends_after_the_last_step() -> None:
    """The windows of a short run end before its last steps, which are drawn, too."""
    report = replace(training_report(), pictures=Pictures(edges_s=[0.0, 40.0, 80.0, 99.5]))
    data = TimeCharts(report).data(main_groups(report))
    assert data is not None
    assert data["domain"] == (0.0, report.curves[0].times_s[-1])


def test_a_run_of_a_moment_has_no_charts() -> None:
    """Two points make no picture."""
    report = load_report()
    short = [replace(one, points=one.points[:2]) for one in report.over_time]
    assert charts(replace(report, over_time=short, pictures=None)) == []


def test_the_mean_of_a_rate_is_the_total_by_time() -> None:
    """The first mean is that of the tile. All lines of a chart have the same time, which is named."""
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
    assert first["whole"] == "mean over 90.0 s; p99 of the whole run"
    assert [line["whole"] for line in first["lines"] if not line.get("right")] == [
        17.6666667,
        rounded(200 / 90),
    ]


def test_the_legend_of_requests_has_the_figures_of_the_table() -> None:
    """Good and failed requests are counted over the time of requests/s; the mean in flight is the exact one."""
    report = llm_report()
    assert report.pictures is not None
    good = CounterStat(name="llm.good", labels={"model": "a-13b"}, value=700)
    snapshot = replace(report.snapshot, counters=[*report.snapshot.counters, good])
    requests = [replace(report.requests[0], concurrency_mean=8.72), *report.requests[1:]]
    found = {chart["title"]: chart for chart in charts(replace(report, snapshot=snapshot, requests=requests))}
    first = {line["name"]: line["whole"] for line in found["Requests per second, failures and p99"]["lines"]}
    assert (first["within limits/s"], first["failed/s"]) == (readable(700 / 90), readable(47 / 90))
    flight = found["Requests in flight"]
    assert flight["lines"][0]["whole"] == 8.72
    assert flight["whole"] == "mean from the first issue to the last end"


def test_a_line_that_has_another_time_than_the_caption_names_it() -> None:
    """Failures of a series are counted over the time of the program, the series over its own."""
    report = load_report()
    second, started_ns = 10**9, 1_000 * 10**9
    times = {"began_ns": started_ns + second, "ended_ns": started_ns + 5 * second}
    late = {"began_ns": started_ns + second, "ended_ns": started_ns + 7 * second}
    snapshot = replace(
        report.snapshot,
        started_ns=started_ns,
        series=[replace(stat, **times) for stat in report.snapshot.series[:1]],
        counters=[CounterStat(name="errors", value=60, events=60, **late)],
        command=None,
    )
    over = report.over_time[:1]
    (first, *_) = charts(replace(report, snapshot=snapshot, over_time=over))
    legend = {line["name"]: line["whole"] for line in first["lines"]}
    assert legend["failures/s"] == 10
    assert first["whole"] == "mean over 4.00 s, failures/s over 6.00 s; p99 of the whole run"
