"""One line about a run that goes on, in the units of its user."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from telemetry.common.formatting import columns
from telemetry.report.live_line import LinePart, LiveLine, describe, fitted, joined
from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    BackendStat,
    CounterStat,
    MetricsSnapshot,
    NodeStat,
    Progress,
    SeriesStat,
    WindowStat,
)

MS = 10**6
STARTED_NS = 10**15


def counted(word: str, value: int, rate: float = 0.0, kind: str = "chat", **labels: str) -> CounterStat:
    return CounterStat(name=f"{kind}.{word}", unit="requests", value=value, rate=rate, labels=labels)


def series(name: str, unit: str = "ns", **more: Any) -> SeriesStat:
    window = WindowStat(count=9, rate=5.0, percentiles={"50": 31 * MS, "99": 134 * MS})
    facts = {"count": 100, "mean": 200.0, "percentiles": {"50": MS, "99": 2 * MS}, "window": window}
    return SeriesStat(name=name, unit=unit, **{**facts, **more})


def snapshot(**more: Any) -> MetricsSnapshot:
    facts: dict[str, Any] = {
        "run_id": "r",
        "name": "job",
        "state": "LIVE",
        "started_ns": STARTED_NS,
        "elapsed_s": 83.4,
        "window_s": 10.0,
        "accounting": Accounting(emitted=1_200_000, applied=1_200_000),
    }
    return MetricsSnapshot(**{**facts, **more})


LOAD = [counted("issued", 2_400, 25.0), counted("completed", 2_388, 24.1)]


def test_a_load_has_its_rate_percentiles_failures_and_open_requests() -> None:
    """A load generator's user reads nothing else."""
    line = describe(snapshot(counters=LOAD, series=[series("chat.latency")]))
    assert line == "1:23  24.1 req/s  p50 31.0 ms  p99 134 ms  0 failed  12 in flight"


def test_an_llm_load_has_tokens_and_first_tokens() -> None:
    """The median stands before the p99."""
    names = ("chat.latency", "chat.ttft", "chat.tpot")
    stats = [*(series(name) for name in names), series("chat.output_tokens", "tokens", count=100)]
    line = describe(snapshot(counters=LOAD, series=stats))
    assert line.startswith(
        "1:23  24.1 req/s  1,000 tok/s  TTFT p50 31.0 ms p99 134 ms  TPOT p50 31.0 ms p99 134 ms  "
    )
    assert line.endswith("  0 failed  12 in flight")


def test_a_training_run_has_step_loss_and_speed() -> None:
    """The speed is that of the last seconds, so the first line has none."""
    live = LiveLine()
    first = live.text(snapshot(elapsed_s=10.0, axes=[axis(1_000, 10.0)]))
    assert first == "0:10  step 1,000  loss 0.312"
    assert live.text(snapshot(elapsed_s=20.0, axes=[axis(1_041, 20.0)])).endswith("  4.10 steps/s")
    assert live.text(snapshot(elapsed_s=30.0, axes=[axis(1_141, 30.0)])).endswith("  10 steps/s")
    assert live.text(snapshot(elapsed_s=5.0, axes=[axis(1, 5.0)])) == "0:05  step 1  loss 0.312"


def test_the_speed_counts_steps_that_were_not_logged() -> None:
    """A loop that logs each 100th step is as fast as its steps."""
    live = LiveLine()
    first, second = (replace(axis(5_000, 14.0), closed=1), replace(axis(5_400, 18.0), closed=5))
    live.text(snapshot(elapsed_s=14.0, axes=[first]))
    assert live.text(snapshot(elapsed_s=18.0, axes=[second])).endswith("  100 steps/s")


def test_steps_of_an_expected_total_have_share_and_time_left() -> None:
    """The time left follows from the speed of the last seconds.

    A narrow line leaves out the speed before the time left.
    """
    live, newest = LiveLine(), 0
    for second in range(11):
        newest = 12 * second
        progress = [Progress(name="step", done=float(newest), total=500.0)]
        found = snapshot(elapsed_s=100.0 + second, axes=[axis(newest, 100.0 + second)], progress=progress)
        parts = live.parts(found)
    assert joined(parts) == "1:50  step 120 of 500 · 24 %  loss 0.312  12 steps/s  32 s left"
    assert joined(fitted(parts, 60)) == "1:50  step 120 of 500 · 24 %  loss 0.312  32 s left"
    last = replace(found, elapsed_s=112.0, axes=[axis(499, 112.0)], progress=[replace(progress[0], done=499.0)])
    assert live.text(last).endswith("loss 0.312  47.5 steps/s")
    over = snapshot(elapsed_s=110.0, state="COMPLETE", axes=[axis(120, 110.0)], progress=progress)
    assert describe(over) == "1:50  step 120 of 500 · 24 %  loss 0.312  1.20 steps/s"


def axis(step: int, at_s: float = 0.0, name: str = "step") -> AxisStat:
    """An axis with each step since the tenth second, until now."""
    times = {"began_ns": STARTED_NS + 10 * 10**9, "ended_ns": STARTED_NS + round(at_s * 1e9)}
    return AxisStat(name=name, newest=step, closed=step, values={"loss": 0.312}, lowest=1, highest=step, **times)


def test_other_metrics_have_the_busiest_series() -> None:
    """The line shows the figures of the busiest series. The series is named once, in the title of the figures."""
    line = describe(snapshot(series=[series("search.latency"), series("body", "B", count=9)]))
    assert line == "1:23  5 req/s  p50 31.0 ms  p99 134 ms"


def test_a_run_that_has_ended_has_the_figures_of_the_whole_run() -> None:
    """The line of an ended run shows the whole run. Its last seconds say nothing about it."""
    line = describe(snapshot(state="COMPLETE", counters=LOAD, series=[series("chat.latency")]))
    assert line.endswith("  p50 1.00 ms  p99 2.00 ms  max –  0 failed")


def test_two_kinds_of_requests_are_told_apart() -> None:
    """All kinds together come first, with percentiles of the busiest."""
    kinds = [counted("issued", number, kind=kind) for kind, number in (("a", 3), ("b", 2), ("c", 1))]
    line = describe(snapshot(counters=kinds))
    assert line == "1:23  all 3 kinds  0 req/s  a p50 –  a p99 –  0 failed  6 in flight"


def test_a_run_without_figures_says_how_far_it_is() -> None:
    """A program that forgot to record, or that has recorded only marks."""
    assert describe(snapshot(accounting=Accounting())) == "1:23  nothing recorded yet"
    assert describe(snapshot(accounting=Accounting(applied=1))) == "1:23  1 event"


def test_words_about_the_run_appear_only_if_something_is_wrong() -> None:
    """Warnings come right after the time, so that a narrow line has them, too. A run without problems has none."""
    fine = [
        BackendStat(name="tb", state="writing", written=7),
        BackendStat(name="done", state="done"),
    ]
    nodes = [NodeStat(node="a", leaf="l", completeness="complete", status="ended")]
    assert describe(snapshot(backends=fine, nodes=nodes)) == "1:23  1,200,000 events"
    line = describe(
        snapshot(
            accounting=Accounting(emitted=20, applied=10, missing=4, dropped_by_producer={"x": 6}),
            backends=[*fine, BackendStat(name="wandb", state="retrying", queued=3_200, last_error="refused")],
            nodes=[*nodes, NodeStat(node="b", status="lost")],
            state="DRAINING",
            counters=LOAD,
        )
    )
    assert line.startswith("1:23  10 lost  1 of 2 nodes complete  wandb retrying, 3,200 queued  ending  24.1 req/s")


def test_instruments_without_figures_of_their_own_are_named() -> None:
    """The line has their number and kind, as long as there are any."""
    crowded = snapshot(accounting=Accounting(emitted=20, applied=20), overflow={"gauge": 100, "series": 1})
    assert describe(crowded) == "1:23  100 gauges, 1 series in overflow  20 events"


def test_salvaged_events_are_unusual() -> None:
    """A process was killed, and nothing was lost."""
    killed = snapshot(accounting=Accounting(emitted=20, applied=20, salvaged=7))
    assert describe(killed) == "1:23  7 events salvaged  20 events"


def test_what_is_wrong_has_a_health() -> None:
    """A part of the line has a health, which the terminal shows as a colour."""
    bad = snapshot(
        accounting=Accounting(missing=4),
        counters=[*LOAD, counted("failed", 3, reason="timeout")],
        axes=[AxisStat(name="step", newest=1, closed=1, values={"loss": None}, not_finite={"loss": 1})],
    )
    healths = {part.text: part.health for part in LiveLine().parts(bad)}
    assert healths["4 lost"] == healths["loss not finite"] == "bad"
    assert healths["3 (0.125 %) failed"] == "warn"
    assert healths["loss NaN or infinite at step 1"] == "warn"
    assert healths["24.1 req/s"] == "plain"


def test_progress_with_the_time_left() -> None:
    """The time left follows from the share done so far.

    A run at the beginning or the end shows none, and the share is at most 100 %.
    """
    for done, words in (
        (40.0, "40 %, 18 s left"),
        (0.1, "0 %, 3 h 19 min left"),
        (10.0, "10 %, 108 s left"),
        (0.0, "0 %"),
        (100.0, "100 %"),
        (150.0, "100 %"),
    ):
        line = describe(snapshot(elapsed_s=12.0, progress=[Progress(name="requests", done=done, total=100.0)]))
        assert line.endswith(f"  {words}"), line
    assert describe(snapshot(progress=[Progress(name="r", done=0.0, total=0.0)])).endswith("100 %")


def test_the_time_of_long_runs() -> None:
    """Hours only where there are some."""
    assert describe(snapshot(elapsed_s=3_725.9)).startswith("1:02:05  ")
    assert describe(snapshot(elapsed_s=-1.0)).startswith("0:00  ")


def test_a_narrow_line_leaves_out_whole_parts() -> None:
    """Parts are left out from the end of the line. No figure is cut, because a cut figure would be misread."""
    parts = LiveLine().parts(snapshot(counters=LOAD, series=[series("chat.latency")]))
    for width in range(4, 80):
        line = joined(fitted(parts, width))
        assert 0 < columns(line) <= width
        assert joined(parts).startswith(f"{line}  ") or line == joined(parts)
    assert fitted([LinePart("ab"), LinePart("c")], 5) == [LinePart("ab"), LinePart("c")]
    assert fitted([], 5) == []
    assert joined(fitted(parts, 3)) == "1…3"


def test_names_from_outside_are_safe_to_show() -> None:
    """A name may hold anything."""
    line = describe(
        snapshot(axes=[axis(1, name="\x1b[2J"), axis(2, name="b")], counters=[counted("issued", 1, kind="\x07")])
    )
    assert line.isprintable()


def test_failures_stay_in_a_narrow_line() -> None:
    """Failures come after the rate, with the health of a warning.

    TPOT and medians make room for them in a narrow line.
    """
    failed = counted("failed", 59, 2.0, reason="timeout")
    stats = [*(series(f"chat.{name}") for name in ("latency", "ttft", "tpot"))]
    load = [counted("issued", 2_460, 25.0), LOAD[1], failed]
    parts = LiveLine().parts(snapshot(counters=load, series=stats))
    wide, narrow = joined(parts), joined(fitted(parts, 80))
    assert "  TPOT p50" in wide
    assert narrow == "1:23  24.1 req/s  59 failed  TTFT p99 134 ms  latency p99 134 ms  13 in flight"
    assert next(part.health for part in parts if part.text == "59 (2.41 %) failed") == "warn"
    plain = LiveLine().parts(snapshot(counters=load, series=stats[:1]))
    assert joined(fitted(plain, 45)) == "1:23  24.1 req/s  59 failed  p99 134 ms"
