"""Gates while a run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.history.runs import Making

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.judge.gates.check import Rules
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.watch import FailureWatch, GateNews
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.cells import cell
from telemetry.wire.events import ClosedStep, Define, StreamRecord
from telemetry.wire.snapshot import Accounting, AxisStat, CounterStat, MetricsSnapshot, SeriesStat
from telemetry.wire.version import PROTOCOL


def snapshot(
    at_s: float, value_ms: float = 100.0, count: int = 1000, errors: int = 0, **more: object
) -> MetricsSnapshot:
    """All values of its series are `value_ms`."""
    series = SeriesStat(
        name="ttft",
        unit="ms",
        count=count,
        total=value_ms * count,
        min=value_ms,
        max=value_ms,
        percentiles={"50": value_ms, "99": value_ms},
        histogram=[(cell(int(value_ms * 1e6)), count)],
        cell_unit=1e-6,
    )
    facts = {
        "run_id": "r",
        "name": "n",
        "state": "LIVE",
        "elapsed_s": at_s,
        "series": [series] if count else [],
        "counters": [CounterStat(name="errors", value=errors, events=errors)],
    }
    return MetricsSnapshot(**{**facts, **more})  # type: ignore[arg-type]


def watching(*texts: str, directory: object = None) -> FailureWatch:
    return FailureWatch([parse(text) for text in texts], Rules(), directory)  # type: ignore[arg-type]


def said(watch: FailureWatch, seen: MetricsSnapshot) -> list[tuple[str, bool]]:
    return [(news.result.expression, news.final) for news in watch.look(seen)]


def test_results_so_far_follow_the_figures() -> None:
    """Results so far follow the figures of each gate and may turn either way.

    A gate without a value is undecided.
    """
    watch = watching("p99(ttft) < 150ms", "count(ttft) >= 500", "value(none) < 3", "value(errors) < 5")
    outcomes = []
    for value_ms, count, errors in ((200.0, 0, 0), (200.0, 100, 9), (100.0, 1000, 3)):
        seen = snapshot(1, value_ms, count, errors)
        list(watch.look(seen))
        outcomes.append([result.outcome for result in watch.so_far(seen)])
    assert outcomes == [
        ["inconclusive", "inconclusive", "inconclusive", "pass"],
        ["fail", "fail", "inconclusive", "fail"],
        ["pass", "pass", "inconclusive", "pass"],
    ]


def test_what_can_only_grow_is_lost_at_once() -> None:
    """A gate on a figure that only grows is lost as soon as it fails, and this is reported once."""
    watch = watching("value(errors) < 5", "elapsed < 10s", "count(ttft) >= 5000")
    assert said(watch, snapshot(1, errors=4)) == []
    assert said(watch, snapshot(2, errors=5)) == [("value(errors) < 5", True)]
    assert said(watch, snapshot(3, errors=6)) == []
    assert said(watch, snapshot(10, errors=6)) == [("elapsed < 10s", True)]


def test_what_is_missing_may_still_come() -> None:
    """Missing events leave a gate open, because they may still come.

    Dropped events never come, so they decide it.
    """
    watch = watching("lost == 0")
    assert said(watch, snapshot(1, accounting=Accounting(emitted=5, missing=5))) == []
    assert said(watch, snapshot(2, accounting=Accounting(emitted=5, dropped={"negative": 1}))) == [
        ("lost == 0", True)
    ]


def test_equality_is_lost_above_and_not_below() -> None:
    """A gate that demands equality with a growing value is lost above that number and not below."""
    watch = watching("value(errors) == 3")
    assert said(watch, snapshot(1, errors=1)) == []
    assert said(watch, snapshot(2, errors=4)) == [("value(errors) == 3", True)]


def test_a_percentile_is_lost_after_it_failed_for_a_while() -> None:
    """A percentile is lost after its whole interval has failed for a while without a break.

    The beginning of the failure is reported.
    """
    watch = watching("p99(ttft) < 50ms")
    assert said(watch, snapshot(1)) == [("p99(ttft) < 50ms", False)]
    assert said(watch, snapshot(limits.GATE_ABORT_AFTER_S)) == []
    assert said(watch, snapshot(1 + limits.GATE_ABORT_AFTER_S)) == [("p99(ttft) < 50ms", True)]


def test_a_percentile_that_recovers_begins_anew() -> None:
    """A percentile that fails again after a recovery gets the full time again before its gate is lost."""
    watch = watching("p99(ttft) < 50ms")
    assert said(watch, snapshot(1)) == [("p99(ttft) < 50ms", False)]
    assert said(watch, snapshot(2, value_ms=10)) == []
    assert said(watch, snapshot(11.5)) == []
    assert said(watch, snapshot(21.5)) == [("p99(ttft) < 50ms", True)]


@pytest.mark.parametrize(
    "text", ["rate(errors) > 1", "value(errors) > 10", "rate(ttft)/rate(errors) < 1%", "lost > 3"]
)
def test_what_may_come_right_is_never_said(text: str) -> None:
    """A failing gate that may still pass is not reported: a lower limit on a growing value, a rate, a share."""
    watch = watching(text)
    for at_s in (1, 5, 30, 300):
        assert said(watch, snapshot(at_s, errors=1)) == []


def test_too_few_values_are_not_failing() -> None:
    """A percentile with too few values does not fail. A series that is not there yet does not fail, either."""
    watch = watching("p50(ttft) < 99ms", "p99(nobody) < 1ms")
    assert said(watch, snapshot(1, count=0)) == []
    assert said(watch, snapshot(2, count=5)) == []


def test_a_window_that_failed_is_lost(tmp_path: Path) -> None:
    """Read from the history once it is over. Until then the gate passes so far."""
    rows = [[(0, 10.0)] * 50] * 4 + [[(0, 90.0)] * 50] * 4
    run = Making(tmp_path, (Define(0, "ttft", "series", "ms"),)).run(rows)
    watch = watching("p50(ttft) < 50ms in every 2s", directory=run.directory)
    before = run.result.snapshot

    def at(seconds: float) -> MetricsSnapshot:
        return snapshot(seconds, started_ns=before.started_ns, time_ns=before.time_ns)

    assert said(watch, at(1.0)) == []
    assert [result.outcome for result in watch.so_far(at(1.0))] == ["pass"]
    assert said(watch, at(5.0)) == [("p50(ttft) < 50ms in every 2s", True)]
    assert [result.outcome for result in watch.so_far(at(6.0))] == ["fail"]


def test_windows_without_a_history_are_left_for_the_end(tmp_path: Path) -> None:
    """There may be none yet, or none at all."""
    watch = watching("p50(ttft) < 50ms in every 2s")
    assert said(watch, snapshot(5.0)) == []


def test_a_gate_that_makes_no_sense_is_an_error_once() -> None:
    """A gate with wrong units raises UsageError once. The other gates are still judged."""
    watch = watching("p99(ttft) < 5MiB", "value(errors) < 5")
    with pytest.raises(UsageError, match="can't be compared"):
        list(watch.look(snapshot(1)))
    assert said(watch, snapshot(2, errors=9)) == [("value(errors) < 5", True)]


def test_news_carry_their_evidence() -> None:
    """The news of a gate carries the reason for its outcome."""
    (news,) = watching("value(errors) < 5").look(snapshot(1, errors=7))
    assert isinstance(news, GateNews)
    assert news.result.reason == "7 is not < 5"


def test_what_makes_no_sense_is_said_of_every_gate() -> None:
    """A gate that makes no sense raises an error once. So does one that is otherwise decided only at the end."""
    for text in ("rate(ttft) > 5ms", "value(ttft) > 3", "min(ttft) < 5MiB"):
        watch = watching(text, "lost == 0")
        assert said(watch, snapshot(1, count=0)) == []
        with pytest.raises(UsageError):
            said(watch, snapshot(2))
        assert said(watch, snapshot(3)) == []
    watch = watching("rate(ttft) > 5/s")
    assert [said(watch, snapshot(at)) for at in (1, 2)] == [[], []]


def training(directory: RunDirectory, at_s: float, *losses: float | None) -> MetricsSnapshot:
    """A live run whose record log has these values by now."""
    log = RecordLog(directory.records)
    steps = [ClosedStep("train", step, {"loss": value}) for step, value in enumerate(losses)]
    new = [StreamRecord(PROTOCOL, "a1", seq, "p", 10**18, step) for seq, step in enumerate(steps)]
    log.append(new[log.next_seq :])
    axis = AxisStat(name="train", closed=len(losses), newest=len(losses) - 1, values={"loss": losses[-1]})
    return snapshot(at_s, axes=[axis])


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path, "job", "a1", 10**18)
    made.records.mkdir()
    return made


def test_a_loss_that_is_not_finite_ends_a_run_after_a_while(directory: RunDirectory) -> None:
    """A loss that stays NaN or infinite fails its gate after a while. A loss that is too high may still fall."""
    watch = watching("last(loss) < 0.1", directory=directory)
    assert said(watch, training(directory, 1, 2.0)) == []
    assert said(watch, training(directory, 2, 2.0, None)) == [("last(loss) < 0.1", False)]
    assert said(watch, training(directory, 3, 2.0, None, 1.5)) == []
    assert said(watch, training(directory, 20, 2.0, None, 1.5, None)) == []
    end_s = 20 + limits.GATE_ABORT_AFTER_S
    assert said(watch, training(directory, end_s, 2.0, None, 1.5, None)) == [("last(loss) < 0.1", True)]


def test_extremes_of_steps_are_lost_at_once(directory: RunDirectory) -> None:
    """The largest value only grows; the best one may get better, and so may the number of steps."""
    watch = watching(
        "max(loss) < 5", "best(loss) < 0.1", "steps(train) < 4", "steps(train) > 9", directory=directory
    )
    assert said(watch, training(directory, 1, 2.0)) == []
    assert said(watch, training(directory, 2, 2.0, 7.0)) == [("max(loss) < 5", True)]
    assert said(watch, training(directory, 3, 2.0, 7.0, 1.0)) == []
    assert said(watch, training(directory, 4, 2.0, 7.0, 1.0, 0.5)) == [("steps(train) < 4", True)]


def test_extremes_of_steps_need_the_record_log(directory: RunDirectory) -> None:
    """Extremes of steps need the record log. Without a readable one they are decided only at the end."""
    assert said(watching("max(loss) < 5"), training(directory, 2, 2.0, 7.0)) == []
    (directory.records / "records.jsonl").write_text("nonsense\n")
    axis = AxisStat(name="train", closed=2, newest=1, values={"loss": 7.0})
    assert said(watching("max(loss) < 5", directory=directory), snapshot(2, axes=[axis])) == []


def test_a_share_is_final_after_ten_seconds_with_its_whole_interval() -> None:
    """A gate on a share, such as `share(ttft < 50ms) >= 99%`, fails for good after failing for ten seconds.

    During this time the whole confidence interval of the share must be below the limit. Gates on percentiles work
    in the same way.
    """
    watch = watching("share(ttft < 50ms) >= 99%")
    assert said(watch, snapshot(1)) == [("share(ttft < 50ms) >= 99%", False)]
    assert said(watch, snapshot(1 + limits.GATE_ABORT_AFTER_S)) == [("share(ttft < 50ms) >= 99%", True)]
