"""Data of the grids of small charts."""

from __future__ import annotations

from msgspec.structs import replace
from tests.unit.report.html.samples import STEPS, load_report, training_report

from telemetry.report.html.grids import counters_data, gauges_data, steps_data


def test_instruments_of_one_name_share_a_chart() -> None:
    """Each label set is a line; a single one has its figures beside the title."""
    gauges = gauges_data(load_report())
    counters = counters_data(load_report())
    assert gauges is not None
    assert counters is not None
    (gpu,) = gauges["items"]
    assert (gpu["name"], gpu["unit"], gpu["facts"]) == ("gpu", "%", [])
    assert [line["name"] for line in gpu["lines"]] == ["rank=0", "rank=1"]
    assert [item["name"] for item in counters["items"]] == ["errors per second", "sent per second"]
    assert [title for title, _ in counters["items"][1]["facts"]] == ["", "mean over 2 min 5 s"]
    assert len(counters["x"]) == len(gpu["lines"][0]["values"]) == STEPS


def test_many_label_sets_have_a_chart_each() -> None:
    """More lines than colours can't be told apart."""
    report = load_report()
    assert report.pictures is not None
    (first, _) = report.pictures.gauges
    many = [replace(first, labels={"rank": str(rank)}) for rank in range(9)]
    data = gauges_data(replace(report, pictures=replace(report.pictures, gauges=many)))
    assert data is not None
    assert [item["name"] for item in data["items"]] == [f"gpu{{rank={rank}}}" for rank in range(9)]


def test_a_gauge_holds_its_value_until_the_next_one() -> None:
    """A gauge is drawn from its first value on. Each value holds until the next, and the last one to the end."""
    report = load_report()
    assert report.pictures is not None
    values = [None, 16.0, *([None] * 20), 4.0, *([None] * (STEPS - 23))]
    gauge = replace(report.pictures.gauges[0], values=values)
    data = gauges_data(replace(report, pictures=replace(report.pictures, gauges=[gauge])))
    assert data is not None
    assert data["held"]
    [line] = data["items"][0]["lines"]
    assert line["values"] == [None, *([16.0] * 21), *([4.0] * (STEPS - 22))]
    assert dict(data["items"][0]["facts"])["range"] == "4 to 16"


def test_values_of_steps_are_grouped_by_prefix() -> None:
    """A prefix that only one value has makes no group: each group begins a row.

    Facts are first, last and best by the direction of the name; without a direction the extremes.
    """
    curves = training_report().curves
    data = steps_data("train", curves)
    assert [item["group"] for item in data["items"]] == ["train", "train", "", ""]
    facts = [dict(item["facts"]) for item in data["items"]]
    assert facts[0] == {"last": "0.171", "first": "2.03", "best": "0.171 at step 1,000"}
    assert facts[1]["best"] == "2.03 at step 10"
    assert facts[3]["range"] == "0.171 to 2.03"
    assert data["domain"] == [10, 1_000]


def test_curves_share_their_steps() -> None:
    """Curves of an axis share their steps, stored as differences, which are short.

    The spread of ranks is a band.
    """
    data = steps_data("train", training_report().curves)
    assert data["xs"] == [[10] * 100]
    assert {item["x"] for item in data["items"]} == {0}
    line = data["items"][0]["lines"][0]
    assert line["low"][0] < line["values"][0] < line["high"][0]


def test_a_value_that_is_not_finite_is_named() -> None:
    """The last loss of a diverged run is no number."""
    (curve, *_) = training_report().curves
    diverged = replace(curve, last=None, values=[*curve.values[:-1], None])
    data = steps_data("train", [diverged])
    assert data["items"][0]["facts"][0] == ("last", "not finite")
    assert data["items"][0]["lines"][0]["values"][-1] is None


def test_the_mean_rate_of_a_counter_is_that_of_the_report() -> None:
    """The mean rate of a counter is its total divided by the time of counting, as in the report."""
    report = load_report()
    snapshot = report.snapshot
    began_ns = snapshot.started_ns + 10**9
    counters = [
        replace(stat, value=12_000, events=12, began_ns=began_ns, ended_ns=began_ns + 24 * 10**9)
        for stat in snapshot.counters
    ]
    data = counters_data(replace(report, snapshot=replace(snapshot, counters=counters)))
    assert data is not None
    assert data["items"][1]["facts"][-1] == ("mean over 24.0 s", "500 B/s")


def test_points_that_are_means_of_steps_say_so() -> None:
    """Points that are means of steps begin after the point before.

    The first one has no beginning unless it is the lowest step alone.
    """
    (curve, *_) = training_report().curves
    merged = replace(curve, count=2 * len(curve.steps))
    single = replace(curve, count=len(curve.steps))
    (alone, several) = steps_data("train", [single, merged])["items"]
    assert "means" not in alone
    assert (several["means"], several["from"]) == (True, 10)
    (unknown,) = steps_data("train", [replace(merged, first=9.0)])["items"]
    assert unknown["from"] is None
