"""One curve on the whole screen."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.unit.tui import feeds, loads, trainings
from tests.unit.tui.model.scenes import NOON, SECOND, scene, texts
from tests.unit.tui.model.test_step_grid import curve, played

from telemetry.tui.model.curve_detail import ZOOM_MOST, Cursor, instrument_of, step_detail, value_detail
from telemetry.tui.model.scene import Scene, ValuesOverTime, View
from telemetry.wire.snapshot import CounterStat, GaugeStat

LOSS = ("train", "loss")


def steps(cursor: Cursor | None = None, *, width: int = 120, **changes: Any) -> Any:
    return step_detail(played(**changes), View(compare=True), LOSS, cursor or Cursor(), width)


def values(points: list[float | None], kind: Any = "counter", unit: str = "", **more: Any) -> Any:
    """Return the screen of a value with these points in the seconds after noon."""
    intervals = tuple((NOON + at * SECOND, NOON + (at + 1) * SECOND, value) for at, value in enumerate(points))
    history = ValuesOverTime(kind, unit, intervals)
    gauge = GaugeStat(name="g", unit=unit, value=2.0, min=0.0, max=9.0)
    shown = scene(**{"gauges": [gauge], **more})
    return value_detail(shown, View(), (("g", ()), history), Cursor(), 80)


def test_the_facts_and_the_newest_point() -> None:
    """First to last, best, and what it is at the cursor."""
    facts, reading = texts(steps().facts)
    assert facts.startswith("loss · 1.11 → 0.117 · best 0.115 at step 1,189 · 0.115 to 1.11 · 1,160 steps")
    assert facts.endswith("2 producers")
    assert reading.startswith("▏steps 1,192–1,196 · mean 0.136 · last 0.117 · 0.11 to 0.17")


def test_the_cursor_reads_the_nearest_point() -> None:
    """Value, band, and time."""
    found = steps(Cursor(600.0))
    assert found.plot.cursor in found.places
    assert abs(found.plot.cursor - 600) < 6
    assert "s after the start" in texts(found.facts)[1]


def test_a_zoom_halves_the_range_around_the_cursor() -> None:
    """A zoom halves the range around the cursor and stays within the curve, whatever the cursor."""
    whole = steps().plot.x_range
    for zoom in range(1, ZOOM_MOST):
        low, high = steps(Cursor(600.0, zoom)).plot.x_range
        assert high - low == (whole[1] - whole[0]) / 2**zoom
        assert low <= 600.0 <= high
    low, high = steps(Cursor(None, 2)).plot.x_range
    assert high == whole[1]
    assert steps(Cursor(0.0, 2)).plot.x_range[0] == whole[0]


def test_traces_are_the_band_the_earlier_run_and_the_value() -> None:
    """Traces are the band, the earlier run and the value, in this order: the value is in front."""
    traces = steps(baseline=trainings.earlier().snapshot, baseline_curves=trainings.earlier().curves).plot.traces
    assert [trace.name for trace in traces] == ["lowest and highest of ranks", "", "spirals-old", "loss"]
    assert [trace.name for trace in steps().plot.traces][-1] == "loss"
    facts = steps(baseline=trainings.earlier().snapshot, baseline_curves=trainings.earlier().curves).facts
    assert "spirals-old mean 0.2" in texts(facts)[1]


def test_the_axis_of_steps_is_whole_and_that_of_a_positive_value_not_negative() -> None:
    """Ticks are such as a step can have."""
    short = Scene(curves=(curve(values=[0.1, 0.2]),))
    found = step_detail(short, View(), ("train", "loss"), Cursor(), 80)
    assert [words for _, words in found.plot.x_ticks] == ["0", "5", "10"]
    assert found.plot.y_range is not None
    assert found.plot.y_range[0] >= 0.0


def test_a_value_that_is_gone() -> None:
    """Is said to be."""
    assert step_detail(played(), View(), ("train", "x"), Cursor(), 80).plot.empty == "the run has no such value"


def test_a_counter_is_drawn_as_its_rate_from_zero() -> None:
    """A stall must look like one."""
    found = values([4.0, 0.0, 8.0])
    assert [trace.ys for trace in found.plot.traces] == [(4.0, 0.0, 8.0)]
    assert found.plot.y_range[0] == 0.0
    assert "8/s" in texts(found.facts)[1]


def test_the_newest_point_of_an_ended_counter_has_a_rate() -> None:
    """The time after its last event has none."""
    counter = CounterStat(name="g", value=12, events=12, began_ns=NOON, ended_ns=NOON + 2 * SECOND)
    found = values([4.0, 8.0, 0.0], counters=[counter], gauges=[], state="COMPLETE")
    assert found.places == (1.0, 2.0)
    assert "8/s" in texts(found.facts)[1]


def test_a_gauge_keeps_its_value_until_it_is_set_again() -> None:
    """A gauge keeps its value until it is set again, and has none before the first time."""
    found = values([None, 3.0, None, 5.0], "gauge")
    assert [trace.ys for trace in found.plot.traces] == [(3.0, 3.0, 5.0)]
    assert texts(found.facts)[0] == "g · 2 · 0 to 9"


def test_percentages_have_an_axis_from_0_to_100() -> None:
    """Percentages have an axis from 0 to 100, unless a value is above."""
    found = values([40.0, 41.0], "gauge", "%")
    assert found.plot.y_range == (0.0, 100.0)
    assert [words for _, words in found.plot.y_ticks] == ["0 %", "25 %", "50 %", "75 %", "100 %"]
    assert values([40.0, 140.0], "gauge", "%").plot.y_range != (0.0, 100.0)


def test_whole_numbers_have_whole_ticks() -> None:
    """There is no half connection."""
    found = values([1.0, 2.0, 1.0], "gauge")
    assert all(place.is_integer() for place, _ in found.plot.y_ticks)
    assert found.plot.y_range[0] >= 0.0


def test_many_intervals_share_a_point() -> None:
    """A counter by its rate, a gauge by its mean, with the extremes around it."""
    many = values([float(at % 10) for at in range(800)])
    assert len(many.places) == 80
    assert many.plot.traces[0].ys[0] == 4.5
    gauge = values([float(at % 10) for at in range(800)], "gauge")
    assert [trace.name for trace in gauge.plot.traces] == ["lowest and highest", "", "value"]
    assert (gauge.plot.traces[0].ys[0], gauge.plot.traces[1].ys[0]) == (0.0, 9.0)
    assert all(later > earlier for earlier, later in pairwise(gauge.places))


def test_without_history() -> None:
    """The facts are there, the plot is not yet."""
    shown = Scene(snapshot=feeds.play().last)
    found = value_detail(shown, View(), (("sent", ()), None), Cursor(), 80)
    assert texts(found.facts) == ["sent · 665 MiB in all · 8.99 MiB/s on average"]
    assert found.plot.empty == "no history yet"
    assert values([None, None], "gauge").plot.empty == "no values in this time range"


def test_the_instrument_of_a_row() -> None:
    """A counter, the sum of the counters of an outcome, or a gauge."""
    played_load = Scene(snapshot=loads.load().last)
    labels = (("model", "llama-70b"), ("window", "measured"))
    failed = instrument_of(played_load, ("chat.failed", labels))
    one = instrument_of(played_load, ("chat.failed", (labels[0], ("reason", "timeout"), labels[1])))
    assert isinstance(failed, CounterStat)
    assert isinstance(one, CounterStat)
    assert 0 < one.value < failed.value == 36
    assert instrument_of(played_load, ("nothing", ())) is None
    assert instrument_of(Scene(), ("nothing", ())) is None
    assert instrument_of(Scene(snapshot=feeds.play().last), ("connections", ())) is not None


def test_a_point_of_several_steps_is_their_mean() -> None:
    """A single step has its own value; the newest point does not hide the last value."""
    merged = curve(values=[4.0, 2.0, 1.0], count=6, first=5.0, last=0.5)

    def reading(of: Any, cursor: Cursor) -> str:
        return texts(step_detail(Scene(curves=(of,)), View(), LOSS, cursor, 120).facts)[1]

    assert reading(merged, Cursor(10.0)).startswith("▏steps 1–10 · mean 2 · 1 s")
    assert reading(merged, Cursor()).startswith("▏steps 11–20 · mean 1 · last 0.5 · ")
    assert reading(merged, Cursor(0.0)).startswith("▏steps to 0 · mean 4 · ")
    assert reading(curve(values=[4.0, 2.0]), Cursor()).startswith("▏step 10 · 2 · ")
