"""Tests of the parts of Trackio's rows."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.items import GaugeReading, Histogram, Item, Reading, SeriesReading, Step, Table, Text
from telemetry.backends.trackio.rows import TrackioRow, TrackioRows, config_name, records
from telemetry.wire.events import Spread

STARTED_NS = 1_000_000_000_000


def row(item: Item, *, spread: bool = False) -> TrackioRow:
    (made,) = TrackioRows(STARTED_NS, spread=spread).of(item)
    return made


def step(axis: str, values: dict[str, float], **more: Any) -> Step:
    return Step(key="r1", time_ns=STARTED_NS, axis=axis, step=4, values=values, **more)


def test_a_step_is_a_row() -> None:
    """A row of a step has the key of the item and the step that the program counted."""
    assert row(step("step", {"loss": 0.5, "nan": math.inf})) == (
        "r1",
        STARTED_NS,
        4,
        {"loss": 0.5, "nan": math.inf},
    )


def test_one_name_on_several_axes() -> None:
    """The axis that has a group first keeps its names plain, also after a restart; on others they say which."""
    rows = TrackioRows(STARTED_NS)
    gauges = [GaugeReading(name="loss", value=3.0)]
    items: list[Item] = [
        step("train", {"loss": 1.0, "a/x": 1.0}),
        step("eval", {"loss": 2.0, "a/y": 2.0, "b/x": 2.0}),
        Reading(key="t1", time_ns=STARTED_NS, elapsed_s=1.0, seconds=1.0, gauges=gauges),
    ]
    wanted = [{"loss": 1.0, "a/x": 1.0}, {"loss: eval": 2.0, "a/y: eval": 2.0, "b/x": 2.0}, {"loss:seconds": 3.0}]
    assert [made.values for item in items for made in rows.of(item)] == wanted
    assert rows.owners == {"loss": "train", "a": "train", "b": "eval"}
    again = TrackioRows(STARTED_NS, rows.owners)
    assert [made.values for item in reversed(items) for made in again.of(item)] == wanted[::-1]


def test_labels_are_no_part_of_a_group() -> None:
    """A slash in one would make a group of each of its values."""
    rows = TrackioRows(STARTED_NS)
    gauges = [GaugeReading(name="depth", labels={"route": "/a/b"}, value=1.0)]
    reading = Reading(key="t1", time_ns=STARTED_NS, elapsed_s=1.0, seconds=1.0, gauges=gauges)
    assert [made.values for made in rows.of(reading)] == [{"depth{route=/a/b}": 1.0}]
    assert rows.owners == {"depth": ""}


def test_words_that_trackio_has_for_itself() -> None:
    """Words that Trackio has for itself are renamed as Trackio does it."""
    assert row(step("step", {"step": 1.0, "time": 2.0, "__x": 3.0})).values == {
        "__step": 1.0,
        "__time": 2.0,
        "____x": 3.0,
    }
    assert [config_name(name) for name in ("_Username", "lr")] == ["%5FUsername", "lr"]


def test_a_step_without_values_is_no_row() -> None:
    """A step without values makes no row, since there is nothing to show."""
    assert list(TrackioRows(STARTED_NS, spread=False).of(step("step", {}))) == []


def test_the_spread_over_producers() -> None:
    """The spread over producers is in the row if it is asked for."""
    one = step(
        "eval", {"x": 3.0}, spread={"x": Spread(count=2, min=1.0, max=5.0, mean=3.0, lowest="a", highest="b")}
    )
    assert row(one).values == {"x": 3.0}
    assert row(one, spread=True).values == {"x": 3.0, "x/min": 1.0, "x/max": 5.0}


def test_a_reading_goes_by_whole_seconds() -> None:
    """A reading's row has whole seconds and distributions. Between cells that do not touch there are no values."""
    series = SeriesReading(name="latency", count=5, cells=[(1.0, 2.0, 3), (4.0, 5.0, 2)])
    gauges = [GaugeReading(name="depth", value=2.0)]
    reading = Reading(key="t9", time_ns=STARTED_NS, elapsed_s=20.9, seconds=10.0, series=[series], gauges=gauges)
    made = row(reading)
    assert made.step == 20
    assert made.values == {
        "latency/count": 5,
        "latency/rate": 0.0,
        "depth": 2.0,
        "latency/histogram": {"_type": "trackio.histogram", "bins": [1.0, 2.0, 4.0, 5.0], "values": [3, 0, 2]},
    }


def test_the_result_has_names_of_its_own() -> None:
    """The result has names of its own, and so have its distributions."""
    series = SeriesReading(name="latency", count=1, cells=[(1.0, 2.0, 1)])
    final = Reading(key="final", time_ns=STARTED_NS, elapsed_s=3.0, seconds=3.0, series=[series], final=True)
    assert set(row(final).values) == {"final/latency/count", "final/latency/rate", "final/latency/histogram"}


def test_other_kinds_are_values_with_a_type() -> None:
    """Items of other kinds are values with a type. An item of no step goes by whole seconds since the start."""
    at: dict[str, Any] = {"key": "r1", "time_ns": STARTED_NS + 2_500_000_000, "name": "x"}
    assert row(Text(text="*hi*", **at)) == (
        "r1",
        STARTED_NS + 2_500_000_000,
        2,
        {"x": {"_type": "trackio.markdown", "_value": "*hi*"}},
    )
    table = row(Table(columns=["a"], rows=[[1]], axis="eval", step=9, **at))
    assert (table.step, table.values) == (9, {"x": {"_type": "trackio.table", "_value": [{"a": 1}]}})
    bins = row(Histogram(edges=[0.0, 1.0], counts=[2], axis="step", step=9, **at))
    assert bins.values == {"x": {"_type": "trackio.histogram", "bins": [0.0, 1.0], "values": [2]}}


@given(st.lists(st.sampled_from(["a", "a (2)", "b", "a (3)"]), min_size=1, max_size=6))
def test_no_column_hides_another(columns: list[str]) -> None:
    """Trackio's rows are maps; columns of one name become several."""
    (made,) = records(columns, [list(range(len(columns)))])
    assert list(made.values()) == list(range(len(columns)))
