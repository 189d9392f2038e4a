"""Why a gate came out as it did, in one line."""

from __future__ import annotations

import math

from tests.unit.judge.gates.fakes import Fake

from telemetry.judge.gates.evidence import Loss
from telemetry.judge.gates.explain import Verdict, interval_words, loss_words, value_words
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.units import unit_of
from telemetry.judge.gates.value import Range, Value, exactly

MS = unit_of("ms")
LIMIT = exactly(250.0, MS)


def about(low: float, high: float) -> Value:
    where = Range(low, high)
    return Value(value=200.0, unit=MS, possible=where, likely=where, samples=5, estimate=True)


def test_a_value_beside_its_limit() -> None:
    """The text puts a value beside its limit with the relation, or with "is not" before the relation."""
    gate = parse("p99(ttft) < 250ms")
    assert value_words(gate, about(1, 2), LIMIT, True) == "200 ms < 250 ms"
    assert value_words(gate, about(1, 2), LIMIT, False) == "200 ms is not < 250 ms"


def test_a_rate_of_requests_names_its_definition() -> None:
    """Reports show the overall rate, so only the other ones need a name."""
    rate = exactly(31.0, unit_of("requests").per_second())
    limit = exactly(20.0, rate.unit)
    words = {
        name: value_words(parse(f"{name}(q.latency) > 20/s"), rate, limit, True).removesuffix(" > 20/s")
        for name in ("throughput", "throughput.loadgen", "throughput.overall")
    }
    assert words == {
        "throughput": "31/s while issuing",
        "throughput.loadgen": "31/s as LoadGen counts",
        "throughput.overall": "31/s",
    }


def test_what_losses_leave_open() -> None:
    """The text names the range that losses leave open, or says that the value may be anything."""
    lost = [Loss(most=3, reason="3 events are lost"), Loss()]
    assert loss_words(about(100, 300), LIMIT, lost).endswith(
        "3 events are lost: the true value may be between 100 ms and 300 ms"
    )
    assert loss_words(about(100, math.inf), LIMIT, lost).endswith("the true value may be 100 ms or more")
    assert loss_words(about(0, math.inf), LIMIT, lost).endswith("the true value may be anything")
    assert loss_words(about(-math.inf, 300), LIMIT, lost).endswith("the true value may be 300 ms or less")
    assert "but the true value is only known to be" in loss_words(about(100, 300), LIMIT, [Loss()])


def test_what_confidence_leaves_open() -> None:
    """An interval, or none."""
    assert interval_words(about(100, 300), LIMIT).endswith(
        "with 95 % confidence the true value is between 100 ms and 300 ms"
    )
    assert interval_words(about(-math.inf, math.inf), LIMIT).endswith("but its confidence interval is unknown")


def test_a_verdict_becomes_a_result() -> None:
    """Infinite bounds are none, a value without an interval has none, and the reason is one printable line."""
    verdict = Verdict("pass", "a\x1b", about(100, math.inf), LIMIT)
    result = verdict.result("gate", Fake(whole=False, start_s=1.0, end_s=2.0), windows=3, failed=1)
    assert (result.value, result.limit, result.unit, result.low, result.high) == (200.0, 250.0, "ms", 100.0, None)
    assert (result.samples, result.start_s, result.end_s, result.windows, result.windows_failed) == (
        5,
        1.0,
        2.0,
        3,
        1,
    )
    assert result.reason == "a\\x1b"
    whole = Verdict("pass", "", exactly(1.0), exactly(2.0)).result("gate", Fake())
    assert (whole.low, whole.high, whole.start_s, whole.end_s) == (None, None, None, None)
