"""Sums that a snapshot has only as a whole."""

from __future__ import annotations

from tests.unit.tui.model.scenes import series, snapshot

from telemetry.tui.run_knowledge import InFlightPeaks, TokenRates
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

TOKENS = ("llm.output_tokens", ())


def at(second: float, total: float, **more: float) -> MetricsSnapshot:
    stats = [series(TOKENS[0], unit="tokens", total=total, labels={}), series()]
    stats += [series("b.output_tokens", total=value, labels={}) for value in more.values()]
    return snapshot(elapsed_s=second, series=stats)


def test_over_the_window_at_most() -> None:
    """Ten seconds: what came before is forgotten."""
    growth = TokenRates()
    found = [growth.learn(at(second / 4, 100.0 * second if second < 80 else 8_000.0)) for second in range(161)]
    assert found[40][TOKENS] == 400.0
    assert found[80][TOKENS] == 400.0
    assert found[-1][TOKENS] == 0.0
    assert set(found[-1]) == {TOKENS}


def test_the_beginning_is_no_rate() -> None:
    """One snapshot, and two of the same moment, tell none; what was there before it was watched is none."""
    growth = TokenRates()
    assert growth.learn(at(0, 5_000.0)) == growth.learn(at(0.25, 5_100.0)) == {}
    assert growth.learn(at(1, 5_300.0)) == {TOKENS: 300.0}


def test_a_series_that_comes_later_begins_at_nothing() -> None:
    """All of it has come since."""
    growth = TokenRates()
    growth.learn(at(0, 0.0))
    assert growth.learn(at(2, 0.0, b=100.0))["b.output_tokens", ()] == 50.0


def test_a_total_never_shrinks() -> None:
    """A total never shrinks. Where another aggregator knows less, or is another run, the total begins anew."""
    growth = TokenRates()
    growth.learn(at(5, 900.0))
    assert growth.learn(at(6, 100.0)) == {TOKENS: 0.0}
    assert growth.learn(at(2, 100.0)) == {}
    assert growth.learn(at(3, 150.0)) == {TOKENS: 50.0}


def test_a_run_without_a_window() -> None:
    """A run without a window has no last seconds, and so no rates of tokens."""
    growth = TokenRates()
    for second in range(3):
        known = at(second, 9.0 * second)
        assert growth.learn(snapshot(elapsed_s=known.elapsed_s, window_s=0.0, series=known.series)) == {}


def test_the_most_requests_in_flight_are_kept() -> None:
    """The most requests in flight are kept, of all windows of a kind together. Other counters are no requests."""
    peaks = InFlightPeaks()

    def at(issued: float, completed: float, failed: float = 0, warm_up: float = 0) -> MetricsSnapshot:
        values = [("issued", issued, {}), ("completed", completed, {"finish": "stop"})]
        values += [("failed", failed, {"reason": "timeout"}), ("issued", warm_up, {"window": "warm-up"})]
        counters = [
            CounterStat(name=f"llm.{word}", unit="requests", value=value, labels={"model": "m", **labels})
            for word, value, labels in values
        ]
        return snapshot(counters=[*counters, CounterStat(name="jobs.issued", value=99, labels={})])

    found = [peaks.learn(at(*numbers)) for numbers in ((5, 2), (30, 10, 4, 3), (40, 35))]
    assert found == [{("llm", (("model", "m"),)): most} for most in (3.0, 19.0, 19.0)]
