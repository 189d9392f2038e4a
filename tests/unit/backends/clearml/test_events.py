"""Items as ClearML's events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.clearml.events import ClearMLEvents, split
from telemetry.backends.items import Histogram, Item, Reading, SeriesReading, Step, Table, Text
from telemetry.backends.naming import AxisOwners
from telemetry.wire.events import Spread


def events(folder: Path, *, spread: bool = False) -> ClearMLEvents:
    return ClearMLEvents(10**9, AxisOwners(folder / "names.json"), spread=spread)


def places(made: ClearMLEvents, item: Item) -> dict[tuple[str, str, int], Any]:
    return {
        (event["metric"], event["variant"], event["iter"]): event.get("value", event.get("plot_str"))
        for event in made.of(item)
    }


def step(axis: str, number: int, **values: float) -> Step:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return Step(key="r1", time_ns=2_500_000, axis=axis, step=number, values=named)


@given(st.lists(st.text(alphabet="ab/{}", min_size=1, max_size=7), unique=True, min_size=2, max_size=8))
def test_different_names_have_different_places(names: list[str]) -> None:
    """Titles and series alike say which name it is."""
    assert len(set(map(split, names))) == len(names)
    assert all(title and series for title, series in map(split, names))


def test_a_slash_in_a_label_parts_no_name() -> None:
    """A slash in a label parts no name: the title of the chart ends at the name's own last slash."""
    assert split("train/loss") == ("train", "loss")
    assert split("latency{route=/a}/p99") == ("latency{route=/a}", "p99")
    assert split("depth{route=/a}") == ("depth{route=/a}", "depth{route=/a}")
    assert split("loss") == ("loss", "loss")


def test_steps_are_iterations(tmp_path: Path) -> None:
    """A step is an event with its number as iteration and the moment of the record in milliseconds."""
    made = list(events(tmp_path).of(step("train", 7, train__loss=1.5)))
    where = {"iter": 7, "metric": "train", "variant": "loss", "value": 1.5}
    assert made == [{"timestamp": 2, "type": "training_stats_scalar", "method": "get", **where}]


def test_a_name_on_two_axes_is_two_series(tmp_path: Path) -> None:
    """A server keeps one value of a name and an iteration: they must not meet."""
    made = events(tmp_path)
    assert list(places(made, step("train", 1, loss=1.0))) == [("loss", "loss", 1)]
    assert list(places(made, step("eval", 1, loss=2.0))) == [("loss", "loss @eval", 1)]


def test_what_is_not_finite_is_left_out_and_counted(tmp_path: Path) -> None:
    """ClearML would show 0."""
    made = events(tmp_path)
    assert places(made, step("a", 1, x=math.nan, y=1.0, z=-math.inf)) == {("y", "y", 1): 1.0}
    assert made.odd == 2
    table = Table(key="r1", time_ns=0, name="t", columns=["a"], rows=[[math.nan]], axis="a", step=1)
    (plot,) = places(made, table).values()
    assert json.loads(plot)["data"][0]["cells"]["values"] == [["nan"]]


def test_a_reading_is_at_its_second_and_the_result_at_none(tmp_path: Path) -> None:
    """The result is single values, which ClearML shows beside each other for several tasks."""
    made = events(tmp_path)
    series = [SeriesReading(name="s", count=2, percentiles={"50": 1.5}, cells=[(1.0, 3.0, 2)])]
    facts = {"key": "t1", "time_ns": 0, "elapsed_s": 10.9, "seconds": 10.0, "series": series}
    reading = places(made, Reading(**facts))
    assert reading["s", "p50", 10] == 1.5
    bars = json.loads(reading["s", "histogram", 10])["data"][0]
    assert (bars["x"], bars["width"], bars["y"]) == ([2.0], [2.0], [2])
    final = places(made, Reading(**facts, final=True))
    assert final["Summary", "s/p50", -(1 << 31)] == 1.5
    assert ("final/s", "histogram", 0) in final


def test_others_are_plots(tmp_path: Path) -> None:
    """Texts, tables and histograms; without an axis at their second since the start."""
    made = events(tmp_path)
    text = Text(key="r1", time_ns=4 * 10**9, name="note", text="ü")
    assert list(places(made, text)) == [("note", "note", 3)]
    bins = Histogram(key="r2", time_ns=0, name="w", axis="a", step=5, edges=[0.0, 1.0, 2.0], counts=[3, 4])
    ((place, plot),) = places(made, bins).items()
    assert place == ("w", "w", 5)
    assert json.loads(plot)["data"][0]["y"] == [3, 4]


def test_spread_is_there_if_asked_for(tmp_path: Path) -> None:
    """The lowest and the highest of the producers."""
    spread = Spread(count=2, min=1.0, max=3.0, mean=2.0, lowest="a", highest="b")
    item = Step(key="r1", time_ns=0, axis="a", step=1, values={"x": 2.0}, spread={"x": spread})
    made = places(events(tmp_path, spread=True), item)
    assert made == {("x", "x", 1): 2.0, ("x", "min", 1): 1.0, ("x", "max", 1): 3.0}
