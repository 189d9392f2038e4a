"""Curves of steps: bounded, with exact figures, from the record log or from the stream."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.history import load_report, step_curves
from telemetry.history.step_curves import StepCurves, closed_steps, curve_findings, curves_of, read
from telemetry.store.final_snapshot import write_final
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.events import ClosedStep, Mark, Spread, Streamed, StreamRecord
from telemetry.wire.pictures import ProducersChange, StepCurve
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot
from telemetry.wire.version import PROTOCOL

START_NS = 10**18
STEP_NS = 10_000_000


def stream(steps: Sequence[Streamed], step_ns: int = STEP_NS) -> list[StreamRecord]:
    """Records, one every ten milliseconds."""
    return [StreamRecord(PROTOCOL, "r1", seq, "", START_NS + seq * step_ns, one) for seq, one in enumerate(steps)]


def curves(steps: Sequence[Streamed], points: int = 240, names: int = 500) -> list[StepCurve]:
    collector = StepCurves(START_NS, points, names)
    collector.feed(stream(steps))
    return collector.curves()


def losses(values: Sequence[float | None], first: int = 0) -> list[ClosedStep]:
    return [ClosedStep("train", step, {"loss": value}) for step, value in enumerate(values, first)]


def logged(root: Path, steps: Sequence[Streamed]) -> RunDirectory:
    run = RunDirectory.create(root, "job", "r1", START_NS)
    run.write_manifest(manifest_for(run, "job", "r1", [], ""))
    log = RecordLog(run.records)
    log.append(stream(steps))
    log.close()
    return run


def test_few_steps_are_kept_as_they_are() -> None:
    """Each step is a point with its value and time, and there are no extremes besides."""
    [curve] = curves(losses([3.0, 1.0, 2.0], first=7))
    assert (curve.axis, curve.name, curve.steps, curve.values) == ("train", "loss", [7, 8, 9], [3.0, 1.0, 2.0])
    assert (curve.low, curve.high, curve.producers) == ([], [], 1)
    assert curve.times_s == [0.0, 0.01, 0.02]
    assert (curve.count, curve.first, curve.last) == (3, 3.0, 2.0)
    assert (curve.min, curve.min_step, curve.max, curve.max_step) == (1.0, 8, 3.0, 7)


def test_many_steps_are_merged_by_neighbours() -> None:
    """A point is the mean of its steps, between their extremes, at the last of them; figures stay exact."""
    rng = random.Random(1)
    values = [math.exp(-step / 5_000) + rng.gauss(0.0, 0.1) for step in range(20_000)]
    [curve] = curves(losses(values))
    assert 60 <= len(curve.steps) <= 240
    assert curve.steps[-1] == 19_999
    begin = 0
    for place, step in enumerate(curve.steps):
        own = values[begin : step + 1]
        assert curve.values[place] == pytest.approx(sum(own) / len(own))
        assert (curve.low[place], curve.high[place]) == (min(own), max(own))
        assert curve.times_s[place] == pytest.approx(step * STEP_NS / 1e9)
        begin = step + 1
    assert (curve.count, curve.first, curve.last) == (20_000, values[0], values[-1])
    assert (curve.min, curve.min_step) == (min(values), values.index(min(values)))
    assert (curve.max, curve.max_step) == (max(values), values.index(max(values)))


def test_sparse_steps_keep_all_points() -> None:
    """Programs that log every thousandth step have a point for each of them."""
    [curve] = curves([ClosedStep("train", 1_000 * at, {"loss": float(at)}) for at in range(200)])
    assert curve.steps == [1_000 * at for at in range(200)]


def test_steps_in_any_order() -> None:
    """An axis that closes by reports may close steps in another order; the curve is by step."""
    numbers = list(range(3_000))
    random.Random(2).shuffle(numbers)
    [curve] = curves([ClosedStep("train", step, {"loss": float(step)}) for step in numbers], points=50)
    assert (curve.first, curve.last, curve.count) == (0.0, 2_999.0, 3_000)
    assert curve.steps == sorted(curve.steps)
    assert [value for value in curve.values if value is not None] == sorted(curve.values)  # type: ignore[type-var]


def test_the_lowest_and_highest_steps_of_all() -> None:
    """Steps have 64 bits; the two ends of the range fit into one curve."""
    ends = (-(1 << 63), (1 << 63) - 1)
    [curve] = curves([ClosedStep("t", step, {"loss": 1.0}) for step in (*range(100), *ends)], points=2)
    assert len(curve.steps) == 2
    assert curve.steps[-1] == ends[1]
    assert curve.count == 102


def test_ranks_are_a_band() -> None:
    """The extremes over producers are beside the reduced value, and merged with those of neighbours."""
    spread = {"loss": Spread(8, 1.0, 3.0, 2.0, "p", "q")}
    steps = [ClosedStep("train", 0, {"loss": 2.0, "lr": 0.1}, spread, 8), ClosedStep("train", 1, {"loss": 2.5})]
    loss, rate = curves(steps)
    assert (loss.values, loss.low, loss.high, loss.producers) == ([2.0, 2.5], [1.0, 2.5], [3.0, 2.5], 8)
    assert (rate.values, rate.low, rate.producers) == ([0.1], [], 1)
    assert (loss.min, loss.max) == (2.0, 2.5)
    assert (loss.last, loss.last_low, loss.last_high) == (2.5, 2.5, 2.5)


def test_the_last_spread_is_that_of_the_last_step_alone() -> None:
    """The last point may stand for many steps, whose spread is wider."""
    steps = [
        ClosedStep("a", n, {"x": 9.0 - n}, {"x": Spread(2, 8.5 - n, 9.5 - n, 9.0 - n, "p", "q")}, 2)
        for n in range(8)
    ]
    [curve] = curves(steps, points=2)
    assert (curve.low[-1], curve.high[-1]) == (1.5, 5.5)
    assert (curve.last, curve.last_low, curve.last_high) == (2.0, 1.5, 2.5)


def test_the_last_change_of_producers() -> None:
    """It is counted by value, over steps that have one, also between two calls."""

    def step(number: int, of: int, value: float | None = 1.0) -> ClosedStep:
        spread = {"tokens": Spread(of, 1.0, 1.0, 1.0, "a", "b")} if of > 1 and value is not None else {}
        return ClosedStep("train", number, {"tokens": value, "alone": 1.0}, spread, of)

    steps = [step(number, 9) for number in range(141)] + [step(number, 6) for number in range(141, 400)]
    tokens, alone = curves(steps)
    change = ProducersChange(before=9, last=140, after=6, first=141)
    assert (tokens.producers, tokens.producers_change, alone.producers_change) == (9, change, None)
    [tokens, _] = curves([*steps, step(400, 6, None), step(401, 1), step(402, 6)])
    assert tokens.producers_change == ProducersChange(before=1, last=401, after=6, first=402, changes=3)
    collector = StepCurves(START_NS)
    for record in stream(steps):
        collector.feed([record])
        collector.curves()
    assert collector.curves()[0].producers_change == change


def test_a_correction_replaces_the_value() -> None:
    """All figures are those of the corrected values, even if a wrong value was the smallest one."""
    steps: list[Streamed] = [
        *losses([5.0, -9.0, 4.0]),
        ClosedStep("train", 1, {"loss": 4.5}, closed="late", revision=1),
        Mark("no step"),
    ]
    [curve] = curves(steps)
    assert (curve.values, curve.min, curve.count) == ([5.0, 4.5, 4.0], 4.0, 3)
    assert curve.times_s == [0.0, 0.01, 0.02]


def test_a_correction_at_the_last_moment() -> None:
    """A step may be corrected until so many later ones were closed, and once after that."""
    kept = limits.STEPS_KEPT
    steps = losses([-9.0, *(1.0 for _ in range(kept))])
    [curve] = curves([*steps, ClosedStep("train", 0, {"loss": 2.0}, closed="late", revision=1)])
    assert (curve.first, curve.min, curve.count) == (2.0, 1.0, kept + 1)


def test_a_correction_removes_a_band() -> None:
    """The spread of a corrected value is that of the correction."""
    spread = {"loss": Spread(2, 0.0, 9.0, 4.5, "p", "q")}
    first = ClosedStep("train", 0, {"loss": 4.5}, spread, 2)
    [curve] = curves([first, ClosedStep("train", 0, {"loss": 1.0}, closed="late", revision=1)])
    assert (curve.values, curve.low, curve.producers) == ([1.0], [], 1)


def test_pieces_of_a_wide_step_are_one_step() -> None:
    """A step with many names comes as several records; each name has one value of it."""
    pieces = [ClosedStep("wide", 1, {f"v{piece}": 1.0}, revision=piece) for piece in range(3)]
    found = curves(pieces)
    assert [(curve.name, curve.count) for curve in found] == [("v0", 1), ("v1", 1), ("v2", 1)]


def test_values_that_are_not_finite() -> None:
    """Values that are not finite count as steps without a value.

    They show at the end of a curve and are in no mean or extreme.
    """
    [curve] = curves(losses([1.0, None, 3.0, None]))
    assert curve.values == [1.0, None, 3.0, None]
    assert (curve.count, curve.first, curve.last, curve.min, curve.max) == (4, 1.0, None, 1.0, 3.0)
    [merged] = curves(losses([1.0, None, 3.0, None]), points=2)
    assert (merged.values, merged.low, merged.high) == ([1.0, 3.0], [], [])
    [never] = curves(losses([None]))
    assert (never.values, never.min, never.min_step) == ([None], None, None)


def test_curves_grow_with_the_stream() -> None:
    """A live run asks again and again; each answer is the one of a run that ended there."""
    rng = random.Random(3)
    steps = losses([rng.random() for _ in range(1_500)])
    collector, records = StepCurves(START_NS, 60), stream(steps)
    for begin in range(0, len(records), 300):
        assert collector.feed(records[begin : begin + 300])
        [curve], [whole] = collector.curves(), curves(steps[: begin + 300], 60)
        assert curve.values == pytest.approx(whole.values)  # added up in another order
        assert replace(curve, values=[]) == replace(whole, values=[])
    assert not collector.feed(stream([Mark("no step")]))


def test_more_names_than_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first names have curves, the others are counted; a small buffer changes nothing."""
    monkeypatch.setattr(step_curves, "_ROOM", 10)
    collector = StepCurves(START_NS, names=2)
    steps = [ClosedStep(axis, step, {"a": 1.0, "b": 2.0}) for step in range(400) for axis in ("train", "eval")]
    collector.feed(stream(steps))
    assert [(one.axis, one.name, one.count) for one in collector.curves()] == [
        ("train", "a", 400),
        ("train", "b", 400),
    ]
    assert collector.left_out == 2


def test_more_values_than_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest steps become final early if too many wait, and a later correction changes nothing."""
    monkeypatch.setattr(step_curves, "_HELD_VALUES", 4)
    late = ClosedStep("train", 0, {"loss": 9.0}, closed="late", revision=1)
    [curve] = curves([*losses([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), late])
    assert (curve.values, curve.count) == ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 6)


def test_the_record_log_has_the_same_curves(tmp_path: Path) -> None:
    """The record log gives the same curves as the stream of steps, except for damaged lines."""
    spread = {"loss": Spread(2, 0.0, 9.0, 4.5, "p", "q")}
    steps: list[Streamed] = [
        Mark("begin", labels={"type": "step"}),
        *losses([1.0, None, 0.5]),
        ClosedStep("eval", 1, {"loss": 4.5}, spread, 2, "timeout"),
        ClosedStep("train", 0, {"loss": 0.75}, closed="late", revision=1),
        ClosedStep("train", 3, {"wait": 0.25}, ranks={"wait": [(0, 0.0), ("p", 0.5)]}),
    ]
    run = logged(tmp_path, steps)
    assert read(run) == curves(steps)
    assert read(run, points=2, names=1) == curves(steps, 2, 1)
    snapshot = MetricsSnapshot(run_id="r1", name="job", started_ns=START_NS, axes=[AxisStat(name="train")])
    assert curves_of(run, snapshot) == curves(steps)
    path = run.records / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b'"loss":4.5', b'"loss":4.6'))
    assert {curve.axis for curve in read(run)} == {"train"}


def test_all_steps_one_by_one(tmp_path: Path) -> None:
    """Corrections are in the values of their steps, and each step comes once."""
    late = ClosedStep("train", 1, {"loss": -1.0, "new": 2.0}, closed="late", revision=1)
    run = logged(tmp_path, [*losses([float(step) for step in range(300)]), late])
    found = list(closed_steps(run))
    assert [one.step for one in found] == list(range(300))
    assert found[1].values == {"loss": 1.0}, "the step had been forgotten before the correction"
    assert found[299].values == {"loss": 299.0}
    assert found[299].wall_ns == START_NS + 299 * STEP_NS
    early = logged(tmp_path / "other", [*losses([0.0, 1.0]), late])
    assert [dict(one.values) for one in closed_steps(early)] == [{"loss": 0.0}, {"loss": -1.0, "new": 2.0}]


def test_a_run_without_a_log_has_no_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing log and one that is too large for a report leave the report without curves."""
    axis = AxisStat(name="train", values={"loss": 1.0})
    snapshot = MetricsSnapshot(run_id="r1", name="job", axes=[axis])
    missing = RunDirectory.create(tmp_path, "job", "r1", START_NS)
    assert curves_of(missing, snapshot) == []
    assert read(missing) == []
    run = logged(tmp_path / "other", losses([1.0]))
    monkeypatch.setattr(limits, "READ_CURVES_BYTES", 10)
    assert curves_of(run, snapshot) == []
    [note] = curve_findings([], run, snapshot)
    assert "too large for a report" in note
    assert list(curve_findings([], missing, snapshot)) == []


def test_the_report_of_a_directory_has_curves(tmp_path: Path) -> None:
    """The report of a run directory has curves, for the first and the best value.

    The report of a result file alone has none.
    """
    run = logged(tmp_path, losses([3.0, 1.0, 2.0]))
    axis = AxisStat(name="train", values={"loss": 2.0})
    snapshot = MetricsSnapshot(run_id="r1", name="job", started_ns=START_NS, state="COMPLETE", axes=[axis])
    write_final(snapshot, [run.final])
    [curve] = load_report(run.path).curves
    assert (curve.first, curve.min, curve.last) == (3.0, 1.0, 2.0)
    run.final.rename(tmp_path / "alone.json")
    assert load_report(tmp_path / "alone.json").curves == []


def test_a_report_says_that_names_have_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of the first names learn that there are more."""
    monkeypatch.setattr(step_curves, "NAMES", 2)
    run = logged(tmp_path, [ClosedStep("train", 0, {"a": 1.0, "b": 1.0, "c": 1.0})])
    axis = AxisStat(name="train", values={"a": 1.0, "b": 1.0, "c": 1.0})
    snapshot = MetricsSnapshot(run_id="r1", name="job", axes=[axis])
    assert list(curve_findings(read(run, names=2), run, snapshot)) == [
        "curves of steps show the first 2 of 3 names or more"
    ]
    assert list(curve_findings(read(run), run, snapshot)) == []
