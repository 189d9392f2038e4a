"""Gates on the steps of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed
from tests.unit.judge.gates.fakes import HEAT, Fake, lossy

from telemetry.errors import UsageError
from telemetry.history import RecordedRun
from telemetry.judge.gates.check import Rules, check_one
from telemetry.judge.gates.evidence import GaugeLevel
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.run_evidence import RunEvidence, live_evidence
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import ClosedStep, StreamRecord
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot
from telemetry.wire.version import PROTOCOL

Values = dict[str, list[float | None]]


def one(text: str, evidence: Any, **rules: Any) -> GateResult:
    (result,) = check_one(parse(text), evidence, Rules(**rules))
    return result


def training(train: Values | None = None, **axes: Values) -> Fake:
    """A run with the axis `train`, and others by name; each value by step."""
    known = {"train": {"loss": [2.0, 0.5, 0.08, 0.09], "acc": [0.1, 0.9, 0.95, 0.94]} if train is None else train}
    known |= axes
    stats, curves = [], []
    for axis, values in known.items():
        closed = max(map(len, values.values()))
        newest = {name: column[-1] for name, column in values.items()}
        stats.append(AxisStat(name=axis, closed=closed, newest=closed - 1, values=newest))
        for name, column in values.items():
            finite = [value for value in column if value is not None]
            curve = StepCurve(axis=axis, name=name, count=len(column), first=column[0], last=column[-1])
            low, high = min(finite, default=None), max(finite, default=None)
            curves.append(changed(curve, min=low, max=high))
    snapshot = MetricsSnapshot(
        run_id="r", name="job", state="COMPLETE", completeness="complete", elapsed_s=10.0, axes=stats
    )
    return Fake(snapshot=snapshot, steps=curves)


@pytest.mark.parametrize(
    ("text", "value", "outcome"),
    [
        ("last(loss) < 0.1", 0.09, "pass"),
        ("last(loss) < 0.05", 0.09, "fail"),
        ("first(loss) > 1", 2.0, "pass"),
        ("best(loss) < 0.085", 0.08, "pass"),
        ("best(acc) > 0.9", 0.95, "pass"),
        ("min(loss) >= 0.08", 0.08, "pass"),
        ("max(acc) <= 0.95", 0.95, "pass"),
        ("last(loss) / first(loss) < 5%", 4.5, "pass"),
        ("steps(train) >= 4", 4, "pass"),
        ("steps(train) >= 1000", 4, "fail"),
        ("last(train/loss) < 0.1", 0.09, "pass"),
        ("last(loss{axis=train}) < 0.1", 0.09, "pass"),
    ],
)
def test_each_function_has_its_value(text: str, value: float, outcome: str) -> None:
    """Each function of steps has its value.

    By their names the best loss is the lowest and the best accuracy the highest.
    """
    found = one(text, training())
    assert (found.value, found.outcome) == (pytest.approx(value), outcome)


def test_a_name_on_several_axes_has_a_result_for_each() -> None:
    """An axis in front, or as a label, chooses one."""
    run = training(eval={"loss": [3.0, 1.0]})
    found = check_one(parse("last(loss) < 0.1"), run)
    assert [(result.expression, result.outcome) for result in found] == [
        ("last(loss{axis=train}) < 0.1", "pass"),
        ("last(loss{axis=eval}) < 0.1", "fail"),
    ]
    assert one("last(eval/loss) < 2", run).value == 1.0
    assert one("last(loss{axis=eval}) < 2", run).value == 1.0
    (ratio,) = check_one(parse("last(loss{axis=eval}) / last(loss{axis=train}) > 2"), run)
    assert ratio.value == pytest.approx(1.0 / 0.09)


def test_a_name_with_a_slash_is_itself_first() -> None:
    """A name with a slash is itself before it is an axis and a name.

    Its end alone finds it if no other name ends so.
    """
    run = training({"train/loss": [0.5, 0.4], "loss": [9.0, 8.0]})
    assert one("last(train/loss) < 1", run).value == 0.4
    run = training({"train/loss": [0.5, 0.4]})
    found = one("last(loss) < 1", run)
    assert (found.value, found.expression) == (0.4, "last(train/loss) < 1")
    run = training({"a/loss": [0.5], "b/loss": [0.4]})
    assert one("last(loss) < 1", run).reason == "loss may be a/loss or b/loss: write one of them"


def test_a_value_that_is_not_finite_fails() -> None:
    """A gate on a value that is not finite fails and says so. Extremes are those of the finite values."""
    run = training({"loss": [1.0, 0.5, None], "acc": [None, None]})
    found = one("last(loss) < 0.1", run)
    assert (found.outcome, found.value) == ("fail", None)
    assert found.reason == "the last value of loss on axis train is not finite"
    assert one("last(loss) >= 0", run).outcome == "fail"
    assert one("min(loss) < 1", run).outcome == "pass"
    assert one("best(acc) > 0", run).reason == "no value of acc on axis train is finite"
    assert one("first(acc) > 0", run).reason == "the first value of acc on axis train is not finite"
    nan = training({"loss": [math.nan]})
    assert one("last(loss) < 1", nan).outcome == "fail"
    assert one("last(loss) <= baseline", training(), baseline=run).outcome == "inconclusive"


def test_a_baseline_has_steps_too() -> None:
    """The same axis and name."""
    assert one("last(loss) <= baseline * 1.05", training(), baseline=training()).outcome == "pass"
    other = training(eval={"loss": [1.0]})
    assert one("last(eval/loss) <= baseline", other, baseline=training()).outcome == "inconclusive"


def test_a_series_or_gauge_of_the_name_comes_first() -> None:
    """`min` and `max` are functions of these as well."""
    run = replace(training({"heat": [5.0, 7.0]}), gauges={HEAT: GaugeLevel(value=1.0, min=1.0, max=2.0)})
    assert one("max(heat) <= 2s", run).value == 2.0
    assert one("last(heat) <= 7", run).value == 7.0


def test_the_best_of_a_name_without_direction_is_a_mistake() -> None:
    """The error for `best` of a name without a direction says what to write instead."""
    with pytest.raises(UsageError, match=r"use `max\(grad_norm\)` or `min\(grad_norm\)`"):
        parse("best(grad_norm) < 3")


def test_lost_events_may_be_any_step() -> None:
    """Lost events may be any step, so only a number of steps that was reached is certain."""
    run = lossy(training(), 1)
    assert one("last(loss) < 0.1", run).outcome == "inconclusive"
    assert one("steps(train) >= 4", run).outcome == "pass"
    assert one("steps(train) >= 5", run).outcome == "inconclusive"


def test_steps_are_known_for_the_whole_run() -> None:
    """Time ranges and windows have none."""
    part = replace(training(), whole=False)
    assert one("last(loss) < 1", part).reason == "steps are known for the whole run only"
    assert one("steps(train) > 1", part).outcome == "inconclusive"
    with pytest.raises(UsageError, match="only known for the whole run"):
        parse("last(loss) < 1 in every 30s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("last(los) < 1", "no value of steps is named los; did you mean loss?"),
        ("steps(trian) < 1", "no axis of steps is named trian; did you mean train?"),
        ("last(loss{axis=eval}) < 1", "no value of steps matches loss{axis=eval}; the run has loss{axis=train}"),
    ],
)
def test_unknown_names_are_said(text: str, said: str) -> None:
    """The reason for an unknown name gives the nearest known one."""
    assert one(text, training()).reason == said


def test_functions_of_other_kinds_are_mistakes() -> None:
    """The near function is suggested."""
    gauge = Fake(gauges={HEAT: GaugeLevel(value=1.0)})
    with pytest.raises(UsageError, match=r"`last` applies to a value of steps, but `heat` is a gauge; use `value"):
        check_one(parse("last(heat) < 3"), gauge)
    with pytest.raises(UsageError, match=r"`value` applies to .*, but `loss` is a value of steps; use `last\(loss"):
        check_one(parse("value(loss) < 3"), training())


def test_earlier_steps_are_read_from_the_record_log(tmp_path: Path) -> None:
    """The newest values are in the result, so they need no file."""
    directory = RunDirectory.create(tmp_path, "job", "a1", 10**18)
    directory.records.mkdir()
    steps = [ClosedStep("train", at, {"loss": 1.0 / (at + 1), "big": float(at)}) for at in range(50)]
    RecordLog(directory.records).append(
        [StreamRecord(PROTOCOL, "a1", at, "p", 10**18 + at, step) for at, step in enumerate(steps)]
    )
    axes = [AxisStat(name="train", closed=50, newest=49, values={"loss": 0.02, "big": 49.0})]
    snapshot = MetricsSnapshot(
        run_id="a1", name="job", state="COMPLETE", completeness="complete", elapsed_s=1.0, axes=axes
    )
    report = Report(snapshot=snapshot, source="file")
    evidence = RunEvidence(RecordedRun(report, directory))
    assert one("first(loss) == 1", evidence).outcome == "pass"
    assert one("best(loss) == 0.02", evidence).outcome == "pass"
    assert one("max(big) - min(big) == 49", evidence).samples == 50
    alone = RunEvidence(RecordedRun(report, None))
    assert one("last(loss) == 0.02", alone).outcome == "pass"
    assert "known once the run has ended" in one("first(loss) == 1", alone).reason
    (directory.records / "records.jsonl").write_text("nonsense\n")
    damaged = RunEvidence(RecordedRun(report, directory))
    assert one("first(loss) == 1", damaged).outcome == "inconclusive"
    assert one("first(loss) == 1", live_evidence(snapshot)).outcome == "inconclusive"
