"""Tests of the concerns of a run: values that are not finite, and failures with their share."""

from __future__ import annotations

from telemetry.history.headlines import failures, headline, not_finite
from telemetry.wire.snapshot import AxisStat, CounterStat, MetricsSnapshot, SeriesStat


def snapshot(*axes: AxisStat, **parts: object) -> MetricsSnapshot:
    return MetricsSnapshot(run_id="r", name="n", elapsed_s=10.0, axes=list(axes), **parts)  # type: ignore[arg-type]


def failed(*counters: CounterStat, series: SeriesStat | None = None) -> list[str]:
    stats = [] if series is None else [series]
    return failures(headline(snapshot(counters=list(counters), series=stats), recent=False))


def test_a_value_that_is_not_finite_has_its_first_step() -> None:
    """A loss first; whether it still is; and the axis unless it is the usual one."""
    step = AxisStat(name="step", closed=50, newest=50, values={"norm": 1.0, "loss": None})
    found = snapshot(
        AxisStat(name="step", closed=50, values=step.values, not_finite={"norm": 1_036, "loss": 37}),
        AxisStat(name="epoch", closed=1, values={"acc": None}, not_finite={"acc": 2}),
    )
    assert not_finite(found) == [
        "loss is NaN or infinite, first at step 37",
        "norm was NaN or infinite, first at step 1,036",
        "acc is NaN or infinite, first at step 2 of epoch",
    ]
    assert not_finite(found, short=True) == ["loss NaN or infinite at step 37"]
    many = AxisStat(name="step", closed=9, not_finite={f"v{number}": 3 for number in range(9)})
    assert not_finite(snapshot(many))[-1] == "6 more values of steps were NaN or infinite"
    assert not_finite(snapshot(step)) == not_finite(snapshot(step), short=True) == []


def test_failures_have_their_share_of_the_requests() -> None:
    """The share is of the kind's requests, a counter of requests beside the errors, or the latencies.

    Without any there is no share.
    """
    kind = [
        CounterStat(name=f"llm.{word}", unit="requests", value=value, labels=labels)
        for word, value, labels in (
            ("issued", 1_000, {}), ("completed", 950, {}), ("failed", 50, {"reason": "timeout"}),
        )
    ]  # fmt: skip
    assert failed(*kind) == ["50 (5 %) failed"]
    latency = SeriesStat(name="http.latency", unit="ms", count=500, min=1, max=2, mean=1.5)
    errors = CounterStat(name="http.errors", value=10, labels={"code": "500"})
    assert failed(errors, series=latency) == ["http.errors{code=500} 10 (2 %)"]
    requests = [
        CounterStat(name="http.requests", value=value, labels={"route": route})
        for route, value in (("/a", 900), ("/b", 100))
    ]
    assert failed(errors, *requests, series=latency) == ["http.errors{code=500} 10 (1 %)"]
    of_route = CounterStat(name="http.errors", value=10, labels={"route": "/b"})
    assert failed(of_route, *requests, series=latency) == ["http.errors{route=/b} 10 (10 %)"]
    size = SeriesStat(name="size", unit="B", count=500, min=1, max=2, mean=1.5)
    assert failed(CounterStat(name="errors", value=10), series=size) == ["errors 10"]
    assert failed(CounterStat(name="http.errors", value=0), *requests, series=latency) == []
