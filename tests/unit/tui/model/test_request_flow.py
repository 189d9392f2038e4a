"""Tests of how many requests are where, and how fast they go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.unit.tui.model.scenes import NOON, SECOND, scene, series

from telemetry.history.intervals.figures import Figures
from telemetry.tui.model.request_flow import Flow, flows, has_requests
from telemetry.tui.model.scene import RangeFigures, Scene, View, series_id
from telemetry.wire.snapshot import CounterStat, Extent, SeriesStat

RUN = View(figures="run")


def counter(word: str, value: int, rate: float = 0.0, **labels: str) -> CounterStat:
    return CounterStat(name=f"llm.{word}", unit="requests", labels=labels, value=value, events=value, rate=rate)


def durations(word: str, **changes: Any) -> SeriesStat:
    return series(f"llm.{word}", unit="ns", **changes)


def tracked(**changes: Any) -> Scene:
    """100 requests in a warm-up that is over, 50 in a window that is open."""
    old, new = {"window": "warm-up"}, {"window": "measured"}
    return scene(
        counters=[
            counter("issued", 100, **old),
            counter("completed", 90, **old, finish="stop"),
            counter("failed", 9, **old, reason="timeout"),
            counter("expired", 1, **old),
            counter("issued", 50, 10.0, **new),
            counter("completed", 30, 4.0, **new, finish="stop"),
            counter("completed", 5, 1.0, **new),
            counter("failed", 6, 0.5, **new, reason="timeout"),
            counter("failed", 2, 0.25, **new, reason="http_500"),
        ],
        series=[durations("latency", labels=labels) for labels in (old, new)],
        **changes,
    )


def figures(flow: Flow) -> tuple[float | None, ...]:
    return flow.issued, flow.in_flight, flow.completed, flow.failed, flow.expired


def rates(flow: Flow) -> tuple[float | None, ...]:
    return flow.issuing, flow.completing, flow.failing, flow.tokens


def test_counts_of_a_kind_and_of_its_windows() -> None:
    """Counts of failed and finished requests are added up over reasons, by kind and by window."""
    (kind,) = flows(tracked(), RUN)
    assert figures(kind) == (150, 7, 125, 17, 1)
    assert [(part.counts.window, figures(part)) for part in kind.windows] == [
        ("warm-up", (100, 0, 90, 9, 1)),
        ("measured", (50, 7, 35, 8, 0)),
    ]
    assert kind.parts == kind.windows


def test_rates_of_the_last_seconds() -> None:
    """Rates of the last seconds are those of counters, added up as their values are.

    A window that is over has no rates, and is still there.
    """
    (kind,) = flows(tracked(), View())
    assert figures(kind) == (150, 7, 125, 17, 1)
    assert rates(kind) == (10.0, 5.0, 0.75, None)
    assert [rates(part)[:3] for part in kind.windows] == [(0, 0, 0), (10.0, 5.0, 0.75)]


def test_tokens_a_second_are_those_that_were_watched() -> None:
    """Tokens a second are those of the watched series. A series that has not been watched has none."""
    known = tracked()
    assert known.snapshot is not None
    stats = [durations("output_tokens", labels={"window": name}) for name in ("warm-up", "measured")]
    known = replace(
        known,
        snapshot=structs.replace(known.snapshot, series=stats),
        tokens_per_s={series_id(stats[1].name, stats[1].labels): 900.0},
    )
    (kind,) = flows(known, View())
    assert (kind.tokens, [part.tokens for part in kind.windows]) == (900.0, [None, 900.0])


def test_rates_of_a_whole_run_have_definitions() -> None:
    """Rates of a whole run come with the funnel, and there is no rate without a definition."""
    extent = Extent(
        first_ns=NOON,
        last_ns=NOON + 10 * SECOND,
        last_done_ns=NOON + 11 * SECOND,
        end_ns=NOON + 20 * SECOND,
        inside=20_000,
    )
    known = scene(
        counters=[counter("issued", 20_000, 5.0), counter("completed", 20_000, 5.0)],
        series=[durations("latency", extent=extent)],
    )
    (kind,) = flows(known, RUN)
    assert kind.counts.rates.while_issuing.requests_per_s == 2_000.0
    assert rates(kind) == (None, None, None, None)
    assert kind.parts == (kind,)


def test_of_the_past_only_what_series_tell_is_known() -> None:
    """In the past, only completed and failed requests and tokens of the time range are known.

    The number of issued requests is not.
    """
    values = {
        "latency": Figures(seconds=10.0, count=40),
        "failed_latency": Figures(seconds=10.0, count=5),
        "output_tokens": Figures(seconds=10.0, count=40, total=3_000.0),
    }
    past = RangeFigures(
        start_ns=NOON,
        end_ns=NOON + 10 * SECOND,
        series={(f"llm.{word}", ()): value for word, value in values.items()},
    )
    known = scene(counters=[counter("issued", 500)], series=[durations(word) for word in values])
    (kind,) = flows(replace(known, moment=past), RUN)
    assert figures(kind) == (None, None, 40, 5, None)
    assert rates(kind) == (None, 4.0, 0.5, 300.0)


def test_a_time_range_of_which_the_history_tells_nothing() -> None:
    """A time range without history has no completed requests."""
    known = replace(tracked(), moment=RangeFigures(start_ns=NOON, end_ns=NOON + SECOND))
    (kind,) = flows(known, View())
    assert figures(kind) == (None, None, 0, 0, None)


@pytest.mark.parametrize(
    ("name", "unit", "there"),
    [
        ("llm.issued", "requests", True),
        (".issued", "requests", False),
        ("llm.issued", "B", False),
        ("llm", "", False),
    ],
)
def test_what_counts_requests(name: str, unit: str, there: bool) -> None:
    """The same as the funnel says: a screen that is offered has something to show."""
    known = scene(counters=[CounterStat(name=name, unit=unit)])
    assert (has_requests(known), bool(flows(known, RUN))) == (there, there)


def test_before_the_first_snapshot_there_are_none() -> None:
    """Before the first snapshot there are no requests, and nothing fails."""
    assert not has_requests(Scene())
    assert flows(Scene(), View()) == ()
