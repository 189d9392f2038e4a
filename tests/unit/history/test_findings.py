"""Findings say what a reader should know, once, however many series share it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry.history.bounds import series_bounds
from telemetry.history.findings import Covered, alone, findings
from telemetry.history.run import RecordedRun
from telemetry.wire.report import Bounds, Report, SeriesBounds, SeriesOverTime, TimeRange
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, SelfCost, SeriesStat

KEYS = ("50", "99", "99.9", "100")
ALL = Covered(0.0, 60.0, 60.0, 0)


def series(name: str, count: int, *, lacking: tuple[str, ...] = ()) -> tuple[SeriesStat, SeriesBounds]:
    bounds = {key: Bounds(low=1.0, high=None if key in (*lacking, "100") else 2.0) for key in KEYS}
    return (
        SeriesStat(name=name, count=count, percentiles=dict.fromkeys(KEYS, 1.5)),
        SeriesBounds(name=name, percentiles=bounds),
    )


def report(*of: tuple[SeriesStat, SeriesBounds], time_range: TimeRange | None = None, **facts: object) -> Report:
    snapshot = MetricsSnapshot(
        **({"run_id": "r", "name": "n", "state": "COMPLETE", "completeness": "complete"} | facts),  # type: ignore[arg-type]
        series=[stat for stat, _ in of],
    )
    return Report(snapshot=snapshot, source="file", bounds=[bounds for _, bounds in of], time_range=time_range)


def turn(
    number: str, count: int, word: str = "latency", *, lacking: tuple[str, ...]
) -> tuple[SeriesStat, SeriesBounds]:
    stat, bounds = series(f"chat.turn.{word}", count, lacking=lacking)
    labels = {"turn": number, "model": "a"}
    return replace(stat, labels=labels), replace(bounds, labels=labels)


def covering(*of: tuple[SeriesStat, SeriesBounds]) -> Covered:
    return Covered(0.0, 60.0, 60.0, sum(stat.count for stat, _ in of))


def test_a_good_run_has_none() -> None:
    """A good run has no findings, and the maximum needs no bound."""
    one = series("ttft", 10_000)
    assert findings(report(one), covering(one)) == []
    assert findings(report(one), None) == []


def test_a_percentile_that_rests_on_too_few() -> None:
    """The finding names the percentile, the number of its samples, and the number that it needs."""
    one = series("ttft", 40, lacking=("99", "99.9"))
    assert findings(report(one), covering(one)) == [
        "p99 and p99.9 of ttft have no upper bound yet (95 % confidence): need 368 and 3,688 samples, have 40"
    ]
    one = series("ttft", 400, lacking=("99.9",))
    assert findings(report(one), covering(one)) == [
        "p99.9 of ttft has no upper bound yet (95 % confidence): needs 3,688 samples, has 400"
    ]
    one = series("ttft", 3, lacking=KEYS)
    assert findings(report(one), covering(one)) == ["too few values for any percentile of ttft: 3 samples"]


def test_hundreds_of_series_share_a_line() -> None:
    """A few are named and the others counted; who has many values comes first."""
    few = [series(f"s{number}", 100 + number, lacking=("99", "99.9")) for number in range(400)]
    one = series("rare", 1, lacking=KEYS)
    assert findings(report(one, *few), covering(one, *few)) == [
        "p99 and p99.9 of s0, s1, s2 and 397 more have no upper bound yet (95 % confidence):"
        " need 368 and 3,688 samples, have 100 to 499",
        "too few values for any percentile of rare: 1 sample",
    ]


def test_the_number_of_lines_is_bounded() -> None:
    """Series that lack bounds give at most nine findings. The last one counts the series left out by the others."""
    keys = [str(percentile) for percentile in range(51, 71)]
    several = []
    for number in range(20):
        bounds = {key: Bounds(low=1.0, high=None if key == keys[number] else 2.0) for key in keys}
        stat = SeriesStat(name=f"s{number}", count=30, percentiles=dict.fromkeys(keys, 1.5))
        several.append((stat, SeriesBounds(name=stat.name, percentiles=bounds)))
    found = findings(report(*several), covering(*several))
    assert len(found) == 9
    assert found[-1] == "12 more series have too few values for some of their percentiles"


def test_losses_come_first() -> None:
    """Losses come first: they affect all numbers, and few samples affect only one."""
    one = series("ttft", 3, lacking=KEYS)
    account = Accounting(emitted=1_000, received=990, applied=985, dropped={"negative": 5}, missing=10, waiting=2)
    found = findings(report(one, completeness="lossy", accounting=account), covering(one))
    assert found[:2] == [
        "lossy: the result lacks 15 of 1,000 events",
        "2 events are not counted: the definition for their ids is missing",
    ]
    assert found[2].startswith("too few values")
    interrupted = report(completeness="interrupted", state="INTERRUPTED", time_ns=1_700_000_000 * 10**9)
    assert findings(interrupted, ALL) == ["interrupted: events after 22:13:20 UTC are unknown"]


def test_a_history_that_is_not_whole() -> None:
    """The findings tell where the history begins, what it holds, and what it lacks."""
    one = series("ttft", 10_000)
    assert findings(report(one), Covered(120.0, 600.0, 450.0, 9_000)) == [
        "the history starts 2 min 0 s after the start of the run",
        "the history has 9,000 of 10,000 values: series with missing values have wider bounds than necessary",
        "the history has a gap of 30.0 s",
    ]
    assert findings(report(one), None, "there is no \x1b[31m file") == [
        "there is no \\x1b[31m file: bounds are wider than necessary, and figures over time are missing"
    ]


def test_a_part_of_the_run() -> None:
    """A finding names the figures that cover only the requested time range, and those that cover the whole run.

    If the time range was not found, the finding has the reason.
    """
    one = series("ttft", 10_000)
    time_range = TimeRange(start_s=30.0, end_s=60.0, chosen="steady", reason="so")
    assert findings(report(one, time_range=time_range), Covered(30.0, 60.0, 30.0, 500, whole=False)) == [
        "series, counters and gauges cover the steady time range, 30.0 s to 60.0 s after its "
        "start; events, producers and losses cover the whole run"
    ]
    missed = TimeRange(start_s=0.0, end_s=60.0, chosen="steady", found=False, reason="it drifts")
    assert findings(report(one, time_range=missed), covering(one)) == [
        "it drifts: these numbers cover the whole run"
    ]


@pytest.mark.parametrize(("late", "said"), [(4, []), (60, ["60 of 1,000 ticks of the aggregator were late (6 %)"])])
def test_late_ticks(late: int, said: list[str]) -> None:
    """A few are nothing to speak of."""
    found = findings(report(cost=SelfCost(ticks=1_000, ticks_late=late)), ALL)
    assert [line.partition(":")[0] for line in found] == said


@pytest.mark.parametrize(
    ("elapsed_s", "said"),
    [(59.5, []), (3_660.0, ["back by 60 min 0 s"]), (10.0, ["forward by 50.0 s"])],
)
def test_a_clock_that_was_set(elapsed_s: float, said: list[str]) -> None:
    """The history's times follow the wall clock, and how long the run took does not."""
    started = 1_700_000_000 * 10**9
    found = findings(report(started_ns=started, time_ns=started + 60 * 10**9, elapsed_s=elapsed_s), ALL)
    assert len(found) == len(said)
    assert all(words in line for words, line in zip(said, found, strict=True))


def test_series_that_are_not_over_time() -> None:
    """A finding tells that figures over time cover only the series with the most values."""
    one, other = series("ttft", 10_000), series("gap", 10_000)
    made = report(one, other)
    shown = Report(
        snapshot=made.snapshot,
        source="file",
        bounds=made.bounds,
        over_time=[SeriesOverTime(name="ttft")],
        step_s=1.0,
    )
    assert findings(shown, covering(one, other)) == [
        "figures over time show the 1 series with the most values, of 2"
    ]


def test_turns_of_conversations_share_one_sentence() -> None:
    """Turns share one sentence whatever each lacks, after all others.

    A label `turn` alone makes no conversation.
    """
    several = [
        turn("1", 400, lacking=("99.9",)),
        turn("2", 40, lacking=("99", "99.9")),
        turn("3", 3, lacking=KEYS),
        turn("1", 400, "ttft", lacking=("99.9",)),
        series("chat.latency", 443, lacking=("99.9",)),
    ]
    assert findings(report(*several), covering(*several)) == [
        "p99.9 of chat.latency has no upper bound yet (95 % confidence): needs 3,688 samples, has 443",
        "by turn, p50, p99 and p99.9 of chat.turn.latency{model=a} and chat.turn.ttft{model=a} have no bounds yet"
        " in 3 turns (95 % confidence): need 6, 368 and 3,688 samples, have 3 to 400",
    ]
    one = turn("1", 1, lacking=("99",))
    assert findings(report(one), covering(one)) == [
        "by turn, p99 of chat.turn.latency{model=a} has no bounds yet in 1 turn (95 % confidence):"
        " needs 368 samples, has 1"
    ]
    other = series("turn.latency", 40, lacking=("99",))
    other = replace(other[0], labels={"turn": "left"}), replace(other[1], labels={"turn": "left"})
    assert findings(report(other), covering(other)) == [
        "p99 of turn.latency{turn=left} has no upper bound yet (95 % confidence): needs 368 samples, has 40"
    ]


def test_a_result_that_lies_alone() -> None:
    """A result without its run has the bounds of its display histograms, and the findings by them."""
    bare = replace(report(series("ttft", 3)), bounds=[])
    judged = alone(bare)
    assert judged.bounds == series_bounds(bare.snapshot.series)
    assert judged.findings == ["too few values for any percentile of ttft: 3 samples"]
    assert judged == RecordedRun(bare, None).report()
    assert alone(bare, "it is gone").findings[0].startswith("it is gone: bounds are wider")


def test_one_is_singular() -> None:
    """One event, one tick, one series."""
    account = Accounting(emitted=1, missing=1, waiting=1)
    said = findings(report(accounting=account, cost=SelfCost(ticks=1, ticks_late=1)), ALL)
    assert said[0].endswith("the result lacks 1 of 1 event")
    assert said[1] == "1 event is not counted: the definition for its id is missing"
    assert said[2].startswith("1 of 1 tick of the aggregator was late")
