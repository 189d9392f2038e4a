"""One line about a run, for people who read a log."""

from __future__ import annotations

import re

from telemetry.report.live_line import describe
from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    BackendStat,
    CounterStat,
    MetricsSnapshot,
    Progress,
    SelfCost,
    SeriesStat,
    WindowStat,
)


def series(name: str, in_window: int, **more: object) -> SeriesStat:
    window = WindowStat(count=in_window, percentiles={"50": 1.5, "99": 20.0} if in_window else {})
    facts = {"unit": "ms", "count": 100, "percentiles": {"50": 1, "99": 2, "99.9": 3}, "window": window} | more
    return SeriesStat(name=name, **facts)  # type: ignore[arg-type]


def snapshot(**more: object) -> MetricsSnapshot:
    facts = {
        "run_id": "r",
        "name": "job",
        "state": "LIVE",
        "elapsed_s": 12.3,
        "accounting": Accounting(emitted=1_200_010, applied=1_200_000, missing=4, dropped_by_producer={"x": 6}),
        "cost": SelfCost(events_per_s=98_200.0),
    }
    return MetricsSnapshot(**facts | more)  # type: ignore[arg-type]


def test_the_numbers_that_matter_first() -> None:
    """Time, state, events, rate and losses are in every line."""
    assert re.fullmatch(r"telemetry +12 s LIVE \S+ ?\S* events \S+ ?\S*/s lost 10", describe(snapshot()))


def test_rates_have_one_form() -> None:
    """Whether one happens to be whole or not."""
    for per_s, words in ((7_306.0, "7.31 k/s"), (7_290.4, "7.29 k/s"), (12_000.0, "12.0 k/s"), (0.0, "0/s")):
        assert f" {words} lost" in describe(snapshot(cost=SelfCost(events_per_s=per_s)))


def test_progress_with_a_time_of_arrival() -> None:
    """From the share done so far; none at the beginning, none at the end, never above the whole."""
    for done, words in (
        (40.0, "requests 40% eta 18 s"),
        (0.1, "requests 0% eta 3 h 24 min"),
        (10.0, "requests 10% eta 111 s"),
        (0.0, "requests 0%"),
        (100.0, "requests 100%"),
        (150.0, "requests 100%"),
    ):
        line = describe(snapshot(progress=[Progress(name="requests", done=done, total=100.0)]))
        assert line.endswith(f" · {words}"), line
    empty = describe(snapshot(progress=[Progress(name="requests", done=0.0, total=0.0)]))
    assert empty.endswith("requests 100%")


def test_requests_come_before_series() -> None:
    """Where they are; expired ones only if there are any."""

    def counted(word: str, value: int, **labels: str) -> CounterStat:
        return CounterStat(name=f"chat.{word}", unit="requests", value=value, labels=labels)

    counters = [counted("issued", 2_400), counted("completed", 2_340), counted("failed", 48, reason="\x1b")]
    line = describe(snapshot(counters=counters, series=[series("a", 1)]))
    assert " · chat 2,400 issued 12 in flight 2,340 completed 48 failed · a p50" in line
    assert "48 failed 3 expired" in describe(snapshot(counters=[*counters, counted("expired", 3)]))


def test_of_requests_latencies_are_shown() -> None:
    """However many chunks and tokens there were; without requests a name is a name."""
    issued = CounterStat(name="chat.issued", unit="requests", value=9)
    names = ("chat.chunk_gap", "chat.output_tokens", "chat.latency", "chat.ttft", "lone.chunk_gap")
    several = [series(name, 900 if name == "chat.chunk_gap" else 9) for name in names]
    line = describe(snapshot(counters=[issued], series=several))
    assert [part.split()[0] for part in line.split(" · ")[2:]] == ["chat.latency", "chat.ttft"]
    line = describe(snapshot(series=several))
    assert line.split(" · ")[1].startswith("chat.chunk_gap p50")


def test_of_tracking_windows_the_newest_that_has_values() -> None:
    """What is measured now, not the warm-up, however many values that had and however late they came."""
    windows = ("warm-up", "measured", "next")
    counters = [
        CounterStat(name="llm.issued", unit="requests", value=9, labels={"window": name}) for name in windows
    ]
    stats = [
        series("llm.latency", 1, labels={"window": "measured"}),
        series("llm.latency", 900, labels={"window": "warm-up"}),
        series("llm.latency", 0, labels={"window": "next"}, count=0),
        series("llm.ttft", 900, labels={"window": "warm-up"}),
        series("other", 0),
    ]
    line = describe(snapshot(counters=counters, series=stats))
    assert [part.split()[0] for part in line.split(" · ")[2:]] == [
        "llm.ttft{window=warm-up}",
        "llm.latency{window=measured}",
    ]


def test_two_busy_series_and_what_tells_them_apart() -> None:
    """By values in the window; labels are named, empty series are not shown."""
    line = describe(
        snapshot(
            series=[
                series("idle", 0),
                series("a", 4),
                series("b", 9, labels={"route": "/x"}),
                series("none", 0, count=0),
            ]
        )
    )
    assert [part.split()[0] for part in line.split(" · ")[1:]] == ["b{route=/x}", "a"]


def test_series_that_are_about_as_busy_do_not_take_turns() -> None:
    """The first of those that have at least half as many values as the busiest, and then of the others."""
    for counts in ((26, 26, 26, 9, 9), (25, 27, 14, 9, 9), (26, 25, 40, 9, 8), (0, 0, 0, 0, 0)):
        line = describe(
            snapshot(series=[series(name, number) for name, number in zip("abcde", counts, strict=True)])
        )
        assert [part.split()[0] for part in line.split(" · ")[1:]] == ["a", "b"], counts
    for counts in ((90, 9, 9, 9), (90, 8, 12, 10)):
        line = describe(
            snapshot(series=[series(name, number) for name, number in zip("abcd", counts, strict=True)])
        )
        assert [part.split()[0] for part in line.split(" · ")[1:]] == ["a", "b"], counts


def test_a_series_that_rests_shows_what_it_came_to() -> None:
    """Without values in the window, the percentiles of the whole run."""
    moving, resting = describe(snapshot(series=[series("a", 5)])), describe(snapshot(series=[series("a", 0)]))
    assert "p50 1.50" in moving
    assert "p99 20.0" in moving
    assert "p50 1.00" in resting
    assert "p99 2.00" in resting


def test_percentiles_nobody_asked_for_are_left_out() -> None:
    """A run may be configured without the 50th."""
    assert describe(snapshot(series=[series("a", 0, percentiles={"99.9": 3})])).endswith(" · a ")


def test_steps_and_backends_that_are_not_well() -> None:
    """How far the first axes are; a backend that is well is no news."""
    axes = [AxisStat(name="train", newest=1_204), AxisStat(name="eval"), AxisStat(name="third", newest=1)]
    backends = [
        BackendStat(name="tb", state="writing", written=7),
        BackendStat(name="wandb", state="retrying", queued=3_200, last_error="refused"),
    ]
    line = describe(snapshot(axes=axes, backends=backends, series=[series("a", 1)]))
    assert line.endswith(
        " · train step 1,204 · eval step – · a p50 1.50 ms p99 20.0 ms · wandb retrying, 3,200 queued"
    )
