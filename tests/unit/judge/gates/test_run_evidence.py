"""Evidence of a recorded run: the whole, a time range, windows."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.history.runs import Making

from telemetry.history import RecordedRun, TimeRangeChoice
from telemetry.judge.gates.check import Rules, check_one
from telemetry.judge.gates.evidence import GateInstrument
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.run_evidence import RunEvidence, evidence_of, live_evidence
from telemetry.wire.events import Define
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report

LATENCY = GateInstrument("series", "latency", (), "ms")
DEFINITIONS = (Define(0, "latency", "series", "ms"), Define(1, "n", "counter"), Define(2, "heat", "gauge", "s"))


def seconds(count: int, values: int = 100) -> list[list[tuple[int, float]]]:
    """Return the rows of `count` seconds.

    Second k has values from 1 + k to `values` + k, 2 for the counter, and k for the gauge if k is even.
    """
    made = []
    for second in range(count):
        rows = [(0, float(second + value)) for value in range(1, values + 1)]
        made.append([*rows, (1, 2.0), *([(2, float(second))] if second % 2 == 0 else [])])
    return made


def heard_until(at_s: float, run: RecordedRun) -> RecordedRun:
    """The same run, with its producers heard of until then."""
    snapshot = run.result.snapshot
    seen_ns = snapshot.started_ns + round(at_s * 1e9)
    producers = [replace(stat, last_seen_ns=seen_ns) for stat in snapshot.producers]
    return RecordedRun(replace(run.result, snapshot=replace(snapshot, producers=producers)), run.directory)


def one(text: str, evidence: object, **rules: object) -> GateResult:
    (result,) = check_one(parse(text), evidence, Rules(**rules))  # type: ignore[arg-type]
    return result


def test_the_whole_run_is_its_result(tmp_path: Path) -> None:
    """Named percentiles as they are written; bounds, and all others, from the history."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(10))
    evidence = RunEvidence(run)
    assert [item.name for item in evidence.instruments] == ["latency", "n", "heat"]
    assert (evidence.whole, evidence.settled, evidence.loss.most) == (True, True, 0)
    named = evidence.quantile(LATENCY, "99")
    other = evidence.quantile(LATENCY, "97.5")
    assert named is not None
    assert other is not None
    assert named.value == run.result.series("latency").percentiles["99"]
    assert named.samples == 1000
    assert named.likely.low < named.value < named.likely.high
    ordered = sorted(value for rows in seconds(10) for index, value in rows if index == 0)
    assert other.possible.low <= ordered[974] <= other.possible.high
    assert other.possible.high / other.possible.low < 1.002
    assert one("value(n) == 20", evidence).outcome == "pass"
    assert one("count(n) == 10", evidence).outcome == "pass"
    assert one("max(heat) <= 8s", evidence).outcome == "pass"


def test_rates_are_counted_while_there_were_events(tmp_path: Path) -> None:
    """Rates cover the time with events, in the whole run, a time range and windows.

    A quotient of two rates is that of the numbers.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(10))
    snapshot = run.result.snapshot

    def at(start_s: int, end_s: int) -> dict[str, int]:
        return {"began_ns": snapshot.started_ns + start_s * 10**9, "ended_ns": snapshot.started_ns + end_s * 10**9}

    series = [replace(stat, **at(2, 7)) for stat in snapshot.series]
    counters = [replace(stat, **at(4, 8)) for stat in snapshot.counters]
    timed = replace(snapshot, series=series, counters=counters)
    run = RecordedRun(replace(run.result, snapshot=timed), run.directory)
    whole = RunEvidence(run)
    assert one("rate(latency) == 200/s", whole).outcome == "pass"
    assert one("rate(n) == 5/s", whole).outcome == "pass"
    assert one("rate(n)/rate(latency) == 2%", whole).outcome == "pass"
    part = evidence_of(run, TimeRangeChoice(from_s=5.0))
    assert one("rate(latency) == 250/s", part).outcome == "pass"
    assert one("rate(n)/rate(latency) == 2%", part).outcome == "pass"
    rates = [window.rate_seconds(LATENCY) for window in whole.windows(5.0, [LATENCY])]
    assert rates == [pytest.approx(3.0), pytest.approx(2.0)]
    alone = [replace(stat, events=1, began_ns=5, ended_ns=5) for stat in snapshot.counters]
    single = RecordedRun(replace(run.result, snapshot=replace(timed, counters=alone, series=[])), run.directory)
    assert one("rate(n) < 1/s", RunEvidence(single)).outcome == "inconclusive"


def test_what_the_run_lacks_is_nothing(tmp_path: Path) -> None:
    """An instrument that the run lacks has no values and a count of 0."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(3))
    for evidence in (RunEvidence(run), evidence_of(run, TimeRangeChoice(from_s=1.0))):
        assert evidence.sums(GateInstrument("series", "ttft")).count == 0
        assert evidence.counted(GateInstrument("counter", "errors"))[0] == 0


def test_without_a_history_the_display_histogram_says_what_it_can(tmp_path: Path) -> None:
    """A run without a history uses cells of the display histogram that are a quarter wide.

    A limit inside a cell is inconclusive, and so are windows.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(10))
    assert run.directory is not None
    shutil.rmtree(run.directory.history)
    evidence = RunEvidence(run)
    assert evidence.settled
    assert one("p97.5(latency) < 200ms", evidence).outcome == "pass"
    result = one("p97.5(latency) < 101ms", evidence)
    assert (result.outcome, "but the true value is only known to be" in result.reason) == ("inconclusive", True)
    assert "no history" in one("p50(latency) < 1h in every 1s", evidence).reason


def test_many_series_are_read_at_once(tmp_path: Path) -> None:
    """Reading many series at once gives the same bounds as reading them one by one."""
    definitions = [Define(number, f"s{number}", "series", "ms") for number in range(12)]
    rows = [[(number, float(value + number)) for number in range(12) for value in range(1, 101)]] * 5
    run = Making(tmp_path, definitions).run(rows)
    together, names = RunEvidence(run), [f"s{number}" for number in range(12)]
    for number, name in enumerate(names):
        found = together.quantile(GateInstrument("series", name, (), "ms"), "60")
        alone = RunEvidence(run).quantile(GateInstrument("series", name, (), "ms"), "60")
        assert found == alone
        assert found is not None
        assert found.possible.low <= 60 + number <= found.possible.high


def test_a_series_that_the_history_does_not_know(tmp_path: Path) -> None:
    """Or knows nothing of: its display histogram says what it can."""
    run = Making(tmp_path, DEFINITIONS).run([*seconds(2), None])
    other = replace(run.result.series("latency"), name="other")
    result = replace(run.result, snapshot=replace(run.result.snapshot, series=[other]))
    found = RunEvidence(RecordedRun(result, run.directory)).quantile(
        GateInstrument("series", "other", (), "ms"), "60"
    )
    assert found is not None
    assert found.possible.low <= 61 <= found.possible.high


def test_a_history_that_lacks_values_is_not_taken_for_all(tmp_path: Path) -> None:
    """A history that lacks values gives no percentile of all: its bounds would be those of others."""
    rows = seconds(10)
    run = Making(tmp_path, DEFINITIONS).run([*rows[:5], None, *rows[6:]])
    evidence = RunEvidence(run)
    found = evidence.quantile(LATENCY, "60")
    assert found is not None
    assert found.samples == run.result.series("latency").count


def test_windows_are_those_of_the_history(tmp_path: Path) -> None:
    """Windows are whole and begin at the start of the run. A gauge keeps its value until it is set again."""
    evidence = RunEvidence(Making(tmp_path, DEFINITIONS).run(seconds(11)))
    parts = list(evidence.windows(2.0, evidence.instruments))
    assert [(round(part.start_s), round(part.end_s)) for part in parts] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert [part.sums(LATENCY).count for part in parts] == [200] * 5
    assert [part.counted(GateInstrument("counter", "n"))[0] for part in parts] == [4.0] * 5
    heats = [part.level(GateInstrument("gauge", "heat")) for part in evidence.windows(1.0, [])]
    assert [level.value for level in heats if level][:4] == [0.0, 0.0, 2.0, 2.0]
    result = one("p50(latency) <= 58ms in every 2s", evidence)
    assert (result.outcome, result.windows, result.windows_failed, round(result.start_s or 0)) == ("fail", 5, 1, 8)
    assert one("p50(latency) <= 60ms in every 2s", evidence).outcome == "pass"
    assert one("rate(n) == 2 in every 2s", evidence).outcome == "pass"


def test_the_last_window_is_whole_or_none(tmp_path: Path) -> None:
    """Half a window has half the values."""
    making = Making(tmp_path, DEFINITIONS, seconds_ns=[1_000_000_000] * 3 + [700_000_000])
    evidence = RunEvidence(making.run(seconds(4)))
    assert [round(part.end_s) for part in evidence.windows(1.0, [LATENCY])] == [1, 2, 3]


def test_a_history_that_ends_before_the_run(tmp_path: Path) -> None:
    """Says nothing of what came then: neither windows nor a part can pass that reach so far."""
    run = heard_until(20.6, Making(tmp_path, DEFINITIONS).run([*seconds(10), *[None] * 10]))
    result = one("p50(latency) < 1h in every 2s", RunEvidence(run))
    assert (result.outcome, result.reason) == ("inconclusive", "the history lacks 5 of 10 windows of 2 s")
    for choice in (
        TimeRangeChoice(from_s=2.0),
        TimeRangeChoice(from_s=2.0, to_s=18.0),
        TimeRangeChoice(from_s=2.0, to_s=-0.0),
    ):
        result = one("p50(latency) < 1h", evidence_of(run, choice))
        assert (result.outcome, "the history ends" in result.reason) == ("inconclusive", True), choice
    assert one("p50(latency) < 1h", evidence_of(run, TimeRangeChoice(from_s=2.0, to_s=10.0))).outcome == "pass"
    whole = heard_until(10, run)
    assert one("p50(latency) < 1h", evidence_of(whole, TimeRangeChoice(from_s=2.0))).outcome == "pass"


def test_values_above_the_range_are_anything_above_it(tmp_path: Path) -> None:
    """Values above the range count in the last slot and may be as large as the maximum."""
    definitions = (Define(0, "latency", "series", "ms", high=1000.0),)
    run = Making(tmp_path, definitions).run([[(0, 1.0)] * 900 + [(0, 5e6)] * 150])
    assert one("p95(latency) < 2s", RunEvidence(run)).outcome == "inconclusive"
    assert one("p95(latency) > 900ms", RunEvidence(run)).outcome == "pass"
    assert one("p95(latency) < 2s in every 1s", RunEvidence(run)).outcome == "inconclusive"
    assert one("p50(latency) < 2s", RunEvidence(run)).outcome == "pass"


def test_a_second_that_the_history_lacks_makes_its_window_uncertain(tmp_path: Path) -> None:
    """A window is uncertain if the history lacks a second of it, because its values may be anything."""
    rows = seconds(6)
    evidence = RunEvidence(Making(tmp_path, DEFINITIONS).run([*rows[:2], None, *rows[3:]]))
    result = one("p50(latency) < 1h in every 6s", evidence)
    assert result.outcome == "inconclusive"
    assert "the history lacks 1 s of it" in result.reason
    assert one("count(latency) >= 500 in every 6s", evidence).outcome == "pass"


def test_a_time_range_is_a_run_of_its_own(tmp_path: Path) -> None:
    """Series, counters and gauges of that part; facts stay those of the run."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(10))
    evidence = evidence_of(run, TimeRangeChoice(from_s=4.0, to_s=8.0))
    assert (evidence.whole, round(evidence.start_s), round(evidence.end_s)) == (False, 4, 8)
    assert evidence.sums(LATENCY).count == 400
    assert (evidence.sums(LATENCY).min, evidence.sums(LATENCY).max) == (5.0, 107.0)
    result = one("value(n) == 8", evidence)
    assert (result.outcome, round(result.start_s or 0), round(result.end_s or 0)) == ("pass", 4, 8)
    assert len(list(evidence.windows(2.0, [LATENCY]))) == 2
    assert evidence_of(run, TimeRangeChoice()).whole
    assert one("applied > 1000", evidence).outcome == "pass"


def test_no_steady_part_is_inconclusive(tmp_path: Path) -> None:
    """Every gate is inconclusive if the run has no steady part."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(3))
    evidence = evidence_of(run, TimeRangeChoice(steady=True))
    assert evidence.obstacle
    assert one("lost == 0", evidence).outcome == "inconclusive"


def test_live_the_last_window_is_not_over(tmp_path: Path) -> None:
    """The last window of a live run is left out, because it may still be written to.

    Earlier ones are read from a given time on.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(10))
    evidence = live_evidence(run.result.snapshot, run, 4.0)
    starts = [round(part.start_s) for part in evidence.windows(2.0, [LATENCY])]
    assert starts == [4, 6]


def test_live_losses_are_those_so_far(tmp_path: Path) -> None:
    """A run that goes on is not incomplete for that."""
    snapshot = Making(tmp_path, DEFINITIONS).run(seconds(3)).result.snapshot
    snapshot = replace(snapshot, completeness="incomplete")
    assert live_evidence(snapshot).loss.most == 0
    assert RunEvidence(RecordedRun(Report(snapshot=snapshot, source="file"), None)).loss.most == math.inf


def test_a_window_has_no_windows(tmp_path: Path) -> None:
    """A window has no windows of its own, and no caller asks for them."""
    evidence = RunEvidence(Making(tmp_path, DEFINITIONS).run(seconds(3)))
    part = next(iter(evidence.windows(1.0, [])))
    with pytest.raises(NotImplementedError):
        part.windows(1.0, [])
