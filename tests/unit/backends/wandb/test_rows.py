"""Items as rows of W&B's history."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.items import Mark, Reading, SeriesReading, Step, Text
from telemetry.backends.naming import AxisOwners
from telemetry.backends.wandb.rows import (
    WandbRows,
    artifact_name,
    axis_key,
    column_of,
    distribution,
    final_values,
    media,
    project_name,
    run_id,
)
from telemetry.wire.events import Spread

_NAMES = st.text(alphabet="ab/_%*@ .2A0", min_size=1, max_size=8)


def rows(folder: Path, *, spread: bool = False) -> WandbRows:
    return WandbRows(10**9, AxisOwners(folder / "columns.json"), spread=spread)


def step(axis: str, number: int, **values: float) -> Step:
    return Step(key="r1", time_ns=0, axis=axis, step=number, values=values)


def test_a_step_has_its_own_axis(tmp_path: Path) -> None:
    """The column of the axis holds the step, and W&B's row numbers hold nothing."""
    row = rows(tmp_path).of(step("train", 7, loss=1.5))
    assert row == ("axis/train", {"axis/train": 7, "loss": 1.5})


def test_a_name_belongs_to_the_axis_that_used_it_first(tmp_path: Path) -> None:
    """W&B has one x-axis for a name; the next process knows whose it is."""
    made = rows(tmp_path)
    made.of(step("train", 1, loss=1.0))
    assert made.of(step("eval", 1, loss=2.0)) == ("axis/eval", {"axis/eval": 1, "loss @axis/eval": 2.0})
    owners = AxisOwners(tmp_path / "columns.json")
    owners.has("loss", "axis/eval")
    owners.keep()
    later = rows(tmp_path).of(step("eval", 2, loss=3.0))
    assert later == ("axis/eval", {"axis/eval": 2, "loss": 3.0})


@given(st.lists(_NAMES, unique=True, min_size=2, max_size=6))
def test_different_names_stay_different(names: list[str]) -> None:
    """Different names stay different, whatever they begin with.

    No name is a column of W&B's, an x-axis, or a pattern.
    """
    columns = list(map(column_of, names))
    assert len(set(columns)) == len(names)
    for column in columns:
        assert not column.startswith(("_", "axis/"))
        assert "*" not in column
        assert " @" not in column


def test_spread_is_there_if_asked_for(tmp_path: Path) -> None:
    """The lowest and the highest of the producers."""
    spread = Spread(count=2, min=1.0, max=3.0, mean=2.0, lowest="a", highest="b")
    item = Step(key="r1", time_ns=0, axis="a", step=1, values={"x": 2.0}, spread={"x": spread})
    row = rows(tmp_path, spread=True).of(item)
    assert row is not None
    assert row.values == {"axis/a": 1, "x": 2.0, "x/min": 1.0, "x/max": 3.0}


def test_what_belongs_to_no_step_has_the_time(tmp_path: Path) -> None:
    """An item of no step has the time in seconds since the run's start."""
    made = rows(tmp_path)
    mark = Mark(key="r1", time_ns=3 * 10**9, text="warm", labels={"rank": "0"})
    assert made.of(mark) == ("elapsed_s", {"elapsed_s": 2.0, "mark": "warm rank=0"})
    text = Text(key="r2", time_ns=0, name="sample", text="x", axis="eval", step=3)
    assert made.of(text) == ("axis/eval", {"axis/eval": 3, "sample": "x"})


def test_a_series_is_numbers_and_a_distribution(tmp_path: Path) -> None:
    """Cells that don't touch have empty ones between them."""
    series = SeriesReading(
        name="latency", labels={"route": "/a"}, count=7, percentiles={"99.9": 4.5}, cells=[(1, 2, 3), (4, 5, 4)]
    )
    reading = Reading(key="t1", time_ns=0, elapsed_s=10.0, seconds=10.0, series=[series])
    row = rows(tmp_path).of(reading)
    assert row is not None
    assert row.values["latency{route=/a}/p99.9"] == 4.5
    drawn = {"_type": "histogram", "values": [3, 0, 4], "bins": [1, 2, 4, 5]}
    assert row.values["latency{route=/a}/histogram"] == drawn
    final = final_values(Reading(key="final", time_ns=0, elapsed_s=1, seconds=1, series=[series], final=True))
    assert final["final/latency{route=/a}/count"] == 7
    assert final["final/latency{route=/a}/histogram"] == drawn


@pytest.mark.parametrize("cells", [1, 511, 512, 513, 1_024, 3_000])
def test_a_distribution_has_no_more_cells_than_wandb_draws(cells: int) -> None:
    """Neighbours are one, and nothing is lost."""
    made = distribution(list(range(cells + 1)), list(range(cells)))
    assert len(made["values"]) <= 512
    assert len(made["bins"]) == len(made["values"]) + 1
    assert sum(made["values"]) == sum(range(cells))
    assert (made["bins"][0], made["bins"][-1]) == (0, cells)
    assert made["bins"] == sorted(set(made["bins"]))


def test_names_fit_where_they_go() -> None:
    """Files, artifacts, projects and runs each take what they take."""
    assert media("best/ü") == "best/ü"
    assert ".." not in media("../../etc")
    assert len(media("ü" * 200).encode()) <= 80
    assert media("a" * 200) != media("a" * 201)
    assert artifact_name("model 1") == "model.201"
    assert len(artifact_name("ü" * 200)) <= 120
    assert project_name("a/b:c") == "a-b-c"
    assert run_id("2026/ü") == "2026--"
    assert axis_key("a*") == "axis/a%2A"
