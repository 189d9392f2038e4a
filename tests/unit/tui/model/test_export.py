"""Tests of the export of what is seen, for other programs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from tests.unit.tui import loads, trainings
from tests.unit.tui.model.scenes import NOON, SECOND, producer, scene, series, snapshot, timeline

from telemetry.history.intervals.figures import Figures
from telemetry.tui.app import export_json
from telemetry.tui.model.scene import Opened, RangeFigures, Scene, ValuesOverTime, View
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat, BackendStat, GaugeStat

FAST = ("latency", (("route", "/fast"),))


def exported(shown: Scene, view: View, screen: str, **more: Any) -> Any:
    return json.loads(json.dumps(export_json(shown, view, screen, **more), allow_nan=False))


def test_the_overview_as_it_is_seen() -> None:
    """Filtered, sorted, of the chosen time range, in numbers."""
    view = View(filter="latency", sort="p99")
    document = exported(replace(scene(), trends={FAST: (1.0, 2.0)}), view, "overview")
    assert [row["labels"] for row in document["series"]] == [{"route": "/slow"}, {"route": "/fast"}]
    assert document["series"][1]["percentiles"]["99"] == 8.0
    assert document["series"][1]["p99_trend"] == [1.0, 2.0]
    assert document["view"]["time_range"] == "last 10 s"
    assert document["counters"] == []
    assert document["marks"][0]["text"] == "load begins"
    assert document["run"]["run_id"] == "5ab920cc"


def test_with_a_baseline_and_groups() -> None:
    """The baseline's percentiles and the difference; and what group a series is in."""
    shown = replace(scene(), baseline=snapshot(run_id="0a1b2c3d"))
    row = exported(shown, View(compare=True, group="route"), "overview")["series"][0]
    assert (row["group"], row["baseline"]["99"], row["change"]["99"]) == ("route=/fast", 4.0, 1.0)
    assert "baseline" not in exported(shown, View(), "overview")["series"][0]


def test_the_past() -> None:
    """The export of the past has its bounds and its figures, and no counters."""
    moment = RangeFigures(start_ns=NOON, end_ns=NOON + SECOND, series={FAST: Figures(seconds=1.0, count=3)})
    document = exported(replace(scene(), moment=moment), View(), "overview")
    assert (document["view"]["start_ns"], document["view"]["end_ns"]) == (NOON, NOON + SECOND)
    assert [row["count"] for row in document["series"]] == [3, 0, 0]
    assert document["counters"] == []


def test_a_series_with_its_course() -> None:
    """Everything of the snapshot, the chosen time range, and the points that are in sight."""
    history = timeline({second: [1_000] * 10 for second in range(40)})
    shown = replace(scene(series=[series()]), baseline=snapshot(series=[series()]))
    found = exported(shown, View(zoom=1, compare=True), "series", series=("latency", ()), timeline=history)[
        "series"
    ]
    assert (found["time_range"]["count"], found["count"], found["baseline"]["count"]) == (100, 20_000, 20_000)
    assert len(found["over_time"]) == 20
    assert found["over_time"][0]["start_ns"] == NOON + 20 * SECOND
    alone = exported(shown, View(), "series", series=("latency", ()))["series"]
    assert (alone["over_time"], alone["baseline"]) == ([], None)
    assert exported(shown, View(), "series", series=("other", ()))["series"] is None


def test_requests_with_their_windows() -> None:
    """Counts and rates as they are shown, and all series once."""
    known = Scene(snapshot=loads.load().last)
    chat, embed = exported(known, View(), "requests")["requests"]
    assert (chat["kind"], chat["labels"]) == ("chat", {"model": "llama-70b"})
    assert (chat["issued"], chat["failed"], sum(chat["failed_by_reason"].values())) == (2_400, 48, 48)
    assert [window["window"] for window in chat["windows"]] == ["warm-up", "measured"]
    assert chat["windows"][1]["per_s"]["issued"] == chat["per_s"]["issued"] == 40.0
    assert len(chat["series"]) + len(embed["series"]) == 19
    assert (embed["expired"], embed["after_end"], "windows" in embed) == (2, 0, False)
    whole = exported(known, View(figures="run", filter="embed"), "requests")["requests"]
    assert [kind["kind"] for kind in whole] == ["embed"]
    assert set(whole[0]["rates"]) == {"while_issuing", "loadgen", "overall"}


def test_requests_of_the_past() -> None:
    """Figures of past requests that the history does not have are null, and reasons are left out."""
    moment = RangeFigures(start_ns=NOON, end_ns=NOON + SECOND)
    (kind,) = exported(Scene(snapshot=loads.load("embed").last, moment=moment), View(figures="run"), "requests")[
        "requests"
    ]
    assert (kind["issued"], kind["completed"], kind["per_s"]["completed"]) == (None, 0, 0.0)
    assert "failed_by_reason" not in kind


def test_producers_and_log() -> None:
    """Producers and log are exported in the order of the screen, with nothing left out."""
    stats = [producer("b", rank=1), producer("a", rank=0)]
    assert [row["producer"] for row in exported(scene(producers=stats), View(), "producers")["producers"]] == [
        "a",
        "b",
    ]
    log = exported(replace(scene(warnings=["w"]), output=("line\x1b",)), View(), "log")
    assert (log["warnings"], log["output"]) == (["w"], ["line\x1b"])


def test_strict_json_whatever_the_values() -> None:
    """The export has no NaN and no infinity, and no run before the first snapshot."""
    odd = series(percentiles={"50": math.inf, "99": math.nan})
    document = exported(
        scene(series=[odd], gauges=[GaugeStat(name="g", value=math.inf)]), View(figures="run"), "overview"
    )
    assert document["series"][0]["percentiles"] == {"50": None, "99": None}
    assert document["gauges"][0]["value"] is None
    for screen in ("overview", "producers", "log", "requests", "help"):
        assert exported(Scene(), View(), screen)["run"] is None


def test_steps_and_backends() -> None:
    """The export has all axes and backends. Values are as the filter leaves them, with their curves."""
    times = {"lowest": 0, "highest": 79, "began_ns": 10**9, "ended_ns": 41 * 10**9}
    axes = [AxisStat(name="train", closed=80, newest=79, values={"loss": math.inf, "lr": 0.5}, **times)]
    shown = replace(
        scene(axes=axes, backends=[BackendStat(name="tb", written=7)]),
        steps_per_s={"train": 4.0},
        curves=(
            StepCurve(axis="train", name="lr", steps=[1, 2, 3], values=[1.0, None, 0.5]),
            StepCurve(axis="train", name="loss", steps=[1], values=[1.0]),
        ),
    )
    document = exported(shown, View(filter="lr"), "steps")
    (row,) = document["axes"]
    assert (row["newest"], row["steps_per_s"]) == (79, 4.0)
    assert row["values"] == {"lr": 0.5}
    assert [(each["name"], each["values"]) for each in row["curves"]] == [("lr", [1.0, None, 0.5])]
    assert document["backends"][0]["written"] == 7
    assert exported(shown, View(figures="run"), "steps")["axes"][0]["steps_per_s"] == 2.0
    assert exported(shown, View(), "steps")["axes"][0]["values"]["loss"] is None
    assert exported(Scene(), View(), "steps")["axes"] == []


def test_spans() -> None:
    """The export has the spans that the filter leaves, with their share."""
    shown = Scene(snapshot=trainings.training().last)
    names = [row["name"] for row in exported(shown, View(), "spans")["spans"]]
    assert names == ["backward", "forward", "load_batch", "iteration"]
    (row,) = exported(shown, View(filter="forward"), "spans")["spans"]
    assert (row["count"], round(row["share"], 2)) == (720, 0.4)
    assert exported(Scene(), View(), "spans")["spans"] == []


def test_a_curve_on_the_whole_screen() -> None:
    """The export has the opened curve, of steps or of the intervals of a counter."""
    scene_ = replace(Scene(), curves=(StepCurve(axis="train", name="lr", steps=[1], values=[1.0]),))
    steps = export_json(scene_, View(), "curve", opened=Opened("steps", steps=("train", "lr")))["curve"]
    assert (steps["axis"], steps["values"]) == ("train", [1.0])
    assert export_json(scene_, View(), "curve", opened=Opened("steps", steps=("train", "x")))["curve"] is None
    values = ValuesOverTime("counter", "B", ((0, 10, 5.0), (10, 20, None)))
    found = export_json(scene_, View(), "curve", opened=Opened("value", ("sent", ())), values=values)["curve"]
    assert (found["name"], [point["value"] for point in found["points"]]) == ("sent", [5.0, None])
