"""Shares of values within a limit, attainment and goodput of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.unit.judge.gates.fakes import TTFT, Fake, counter, in_windows, lossy, series

from telemetry.errors import UsageError
from telemetry.history.request_model import request_counts
from telemetry.judge.gates.check import Rules, check, check_one
from telemetry.judge.gates.evidence import GateInstrument
from telemetry.judge.gates.parser import parse
from telemetry.statistics.confidence import wilson
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat

NS = 10**9


def one(text: str, evidence: Any, **rules: Any) -> GateResult:
    (result,) = check_one(parse(text), evidence, Rules(**rules))
    return result


def load(
    good: int, completed: int, failed: int = 0, expired: int = 0, ttft: int | None = None, **more: Any
) -> Fake:
    """A run with one kind of request with limits, which took 10 s."""
    counts: dict[GateInstrument, float] = {
        counter("llm.issued", "requests"): completed + failed + expired,
        counter("llm.completed", "requests", finish="stop"): completed,
        counter("llm.failed", "requests", reason="busy"): failed,
        counter("llm.expired", "requests"): expired,
        counter("llm.good", "requests"): good,
        counter("llm.met", "requests", slo="ttft"): good if ttft is None else ttft,
    }
    latency = SeriesStat(
        name="llm.latency", unit="ns", count=completed, extent=Extent(first_ns=NS, last_ns=9 * NS, end_ns=11 * NS)
    )
    snapshot = MetricsSnapshot(
        run_id="r",
        name="job",
        state="COMPLETE",
        completeness="complete",
        elapsed_s=10.0,
        counters=[
            CounterStat(name=item.name, unit=item.unit, labels=dict(item.labels), value=value, events=1)
            for item, value in counts.items()
        ],
        series=[latency] if completed else [],
    )
    return Fake(counters=counts, snapshot=snapshot, **more)


def test_attainment_is_the_share_of_all_that_ended() -> None:
    """Failed and expired requests count. The interval is the one that reports show."""
    run = load(960, 980, failed=15, expired=5)
    found = one("attainment(llm) >= 95%", run)
    assert (found.outcome, found.value, found.unit, found.samples) == ("pass", 96.0, "%", 1000)
    low, high = wilson(960, 1000)
    assert (found.low, found.high) == (pytest.approx(low * 100), pytest.approx(high * 100))
    assert one("attainment(llm) >= 97.5%", run).outcome == "fail"
    assert one("attainment(llm) >= 0.95", run).outcome == "pass"


def test_one_limit_has_an_attainment_of_its_own() -> None:
    """One limit has an attainment of its own, which is at least that of all limits together."""
    run = load(900, 1000, ttft=970)
    assert one("attainment(llm.ttft) >= 96%", run).value == 97.0
    found = one("attainment(ttft) >= 96%", run)
    assert (found.value, found.expression) == (97.0, "attainment(llm.ttft) >= 96%")


def test_few_requests_cannot_show_much() -> None:
    """99 % of 100 requests can't be told, whether they are 100 or 99. 90 of them are a failure all the same."""
    for good in (100, 99, 98):
        found = one("attainment(llm) >= 99%", load(good, 100))
        assert found.outcome == "inconclusive"
        assert found.reason == f"{good} % vs. limit 99 %, but 100 values are too few: needs 381"
    assert one("attainment(llm) >= 99%", load(90, 100)).outcome == "fail"
    assert one("attainment(llm) >= 99%", load(381, 381)).outcome == "pass"
    assert one("attainment(llm) < 1%", load(0, 100)).outcome == "inconclusive"
    assert one("attainment(llm) < 1%", load(0, 400)).outcome == "pass"


def test_a_limit_of_all_is_about_this_run() -> None:
    """A limit of 100 % is about this run. No number of requests shows that requests are always good."""
    assert one("attainment(llm) >= 100%", load(5, 5)).outcome == "pass"
    assert one("attainment(llm) == 1", load(5, 5)).outcome == "pass"
    assert one("attainment(llm) >= 100%", load(4, 5)).outcome == "fail"
    assert one("attainment(llm) >= 100%", load(5, 5), confident=True).outcome == "inconclusive"


def test_confident_needs_the_whole_interval() -> None:
    """`confident` needs the whole interval.

    Between its ends the gate is inconclusive, with the interval as the reason.
    """
    run = load(990, 1000)
    assert one("attainment(llm) >= 99%", run).outcome == "pass"
    found = one("attainment(llm) >= 99%", run, confident=True)
    assert found.outcome == "inconclusive"
    assert "with 95 % confidence the true value is between 98.2 % and 99.5 %" in found.reason
    assert one("attainment(llm) >= 98%", run, confident=True).outcome == "pass"
    assert one("attainment(llm) >= 99.9%", run, confident=True).outcome == "fail"


def test_lost_events_may_be_any_request() -> None:
    """Each may be an outcome that is not good, or one that is."""
    run = load(990, 1000)
    assert one("attainment(llm) >= 98%", lossy(run, 5)).outcome == "pass"
    found = one("attainment(llm) >= 99%", lossy(run, 5))
    assert found.outcome == "inconclusive"
    assert "5 events are lost" in found.reason
    assert one("attainment(llm) >= 1%", lossy(run, float("inf"))).outcome == "inconclusive"
    assert one("goodput(llm) >= 20/s", lossy(run, 1)).outcome == "inconclusive"


def test_goodput_is_the_one_of_reports() -> None:
    """Good requests over the span from the first issue to the last end, to the last digit."""
    run = load(77, 100)
    (counts,) = request_counts(run.snapshot)
    found = one("goodput(llm) >= 7/s", run)
    assert (found.outcome, found.value, found.unit) == ("pass", counts.goodput_per_s, "requests/s")
    assert found.value == 7.7
    assert one("goodput(llm) >= 8/s", run).outcome == "fail"
    assert one("goodput(llm) >= 1/s", load(0, 0, failed=3)).value == 0


def test_goodput_by_other_definitions_is_the_good_share_of_their_throughput() -> None:
    """Goodput while issuing and by LoadGen's definition is the good share of that throughput."""
    run = load(50, 100)
    extent = Extent(first_ns=NS, last_ns=9 * NS, inside=80, last_done_ns=10 * NS, end_ns=11 * NS)
    latency = structs.replace(run.snapshot.series[0], extent=extent)
    run = replace(run, snapshot=structs.replace(run.snapshot, series=[latency]))
    assert one("goodput.issuing(llm) >= 5/s", run).value == 5.0
    assert one("goodput.loadgen(llm) >= 5/s", run).value == 5.5


def test_goodput_needs_the_whole_run() -> None:
    """Goodput needs the whole run, because it counts from the first issue on."""
    part = replace(load(5, 10), whole=False)
    assert "for a time range" in one("goodput(llm) > 1/s", part).reason
    with pytest.raises(UsageError, match=r"write `rate\(llm\.good\)`, the good requests in each window"):
        parse("goodput(llm) > 1/s in every 30s")


def test_attainment_in_windows_is_that_of_each() -> None:
    """A window of which no request has ended can't tell."""
    whole = load(150, 200)
    parts = [
        replace(load(good, 100), whole=False, start_s=at * 10.0, end_s=(at + 1) * 10.0, seconds=10.0)
        for at, good in enumerate((95, 55))
    ]
    run = replace(whole, parts=parts, end_s=20.0)
    found = one("attainment(llm) >= 60% in every 10s", run)
    assert (found.outcome, found.value, found.windows_failed) == ("fail", 55.0, 1)
    assert one("attainment(llm) >= 50% in every 10s", run).outcome == "pass"
    empty = replace(run, parts=[replace(load(0, 0), whole=False, end_s=10.0)], end_s=10.0)
    assert "no request of llm has ended" in one("attainment(llm) >= 50% in every 10s", empty).reason


def test_a_baseline_has_an_attainment_too() -> None:
    """A baseline has attainment and goodput of its own requests."""
    base = load(990, 1000)
    assert one("attainment(llm) >= baseline * 0.99", load(985, 1000), baseline=base).outcome == "pass"
    assert one("attainment(llm) >= baseline", load(900, 1000), baseline=base).outcome == "fail"
    assert one("goodput(llm) >= baseline", load(1000, 1000), baseline=base).outcome == "pass"
    without = replace(base, counters={counter("llm.issued", "requests"): 3})
    found = one("attainment(llm) >= baseline", load(985, 1000), baseline=without)
    assert found.outcome == "inconclusive"
    assert "the baseline has no counter llm.good" in found.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("goodput(lm) > 1/s", "no kind of request is named lm; did you mean llm?"),
        ("attainment(xyz.ttft) > 1%", "no kind of request is named xyz.ttft; the run has llm"),
        ("attainment(llm.e2el) > 1%", "the requests of llm have no limit for e2el; they have ttft"),
        ("attainment(llm{window=w}) > 1%", "no counter matches llm{window=w}; the run has"),
    ],
)
def test_what_has_no_limits_is_said(text: str, said: str) -> None:
    """The reason for a name without limits gives what there is instead."""
    found = one(text, load(5, 10))
    assert found.outcome == "inconclusive"
    assert found.reason.startswith(said)


def test_requests_without_limits_say_how_to_give_them() -> None:
    """Requests without limits are no goodput of 0: the reason says how to give limits."""
    run = Fake(counters={counter("llm.issued", "requests"): 5, counter("llm.completed", "requests"): 5})
    assert "telemetry run --goodput" in one("goodput(llm) > 1/s", run).reason
    assert one("goodput(x) > 1/s", series(1.0)).reason == "no kind of request is named x: the run has none"


def test_each_window_of_requests_has_a_result() -> None:
    """Labels choose them, as for any instrument."""
    counts = {
        counter(f"llm.{word}", "requests", window=window): value
        for window, good in (("warm", 10), ("measured", 500))
        for word, value in (("issued", 500), ("completed", 500), ("good", good))
    }
    found = list(check([parse("attainment(llm) >= 95%")], Fake(counters=counts)))
    assert [(result.expression, result.outcome) for result in found] == [
        ("attainment(llm{window=warm}) >= 95%", "fail"),
        ("attainment(llm{window=measured}) >= 95%", "pass"),
    ]
    assert one("attainment(llm{window=measured}) >= 95%", Fake(counters=counts)).value == 100.0


def test_a_share_counts_values_on_one_side() -> None:
    """A value at the limit belongs to `<=` and `>=`."""
    run = series(*([1.0] * 50 + [2.0] * 30 + [3.0] * 20))
    shares = {text: one(f"share(ttft {text}) >= 0", run).value for text in ("< 2ms", "<= 2ms", "> 2ms", ">= 2ms")}
    assert shares == {"< 2ms": 0.5, "<= 2ms": 0.8, "> 2ms": 0.2, ">= 2ms": 0.5}
    assert one("share(ttft < 0.002s) >= 40%", run).outcome == "pass"
    assert one("share(ttft < 2000us) >= 40%", run).unit == "%"
    assert one("share(ttft < 2) >= 40%", run).outcome == "pass"


def test_a_share_needs_values_like_the_percentile_that_it_is() -> None:
    """A share needs as many values as its percentile and has the interval of a proportion."""
    few, many = series(*[1.0] * 100), series(*[1.0] * 400)
    assert "100 values are too few: needs 381" in one("share(ttft < 2ms) >= 99%", few).reason
    found = one("share(ttft < 2ms) >= 99%", many)
    assert (found.outcome, found.samples) == ("pass", 400)
    assert found.low == pytest.approx(wilson(400, 400)[0] * 100)
    assert one("share(ttft >= 2ms) < 1%", many).outcome == "pass"
    assert one("share(ttft >= 2ms) < 1%", few).outcome == "inconclusive"
    assert "has no values" in one("share(ttft < 2ms) >= 99%", Fake(values={TTFT: ()})).reason


def test_a_limit_inside_a_slot_is_said() -> None:
    """The values of that slot may be on either side."""
    run = series(*[float(value) for value in range(1, 1001)], width=0.5)
    found = one("share(ttft < 500.7ms) >= 50.05%", run)
    assert found.outcome == "inconclusive"
    assert "the limit 500.7ms lies between 500 ms and 501 ms, where a histogram has 1 value" in found.reason
    assert one("share(ttft < 500.7ms) >= 50%", run).outcome == "pass"


def test_lost_values_may_be_on_either_side() -> None:
    """Lost values may be on either side of the limit, and their number bounds the share."""
    run = series(*([1.0] * 900 + [9.0] * 100))
    assert one("share(ttft < 5ms) >= 85%", lossy(run, 10)).outcome == "pass"
    assert one("share(ttft < 5ms) >= 90%", lossy(run, 10)).outcome == "inconclusive"
    assert one("share(ttft < 5ms) >= 10%", lossy(run, float("inf"))).outcome == "inconclusive"


def test_a_share_in_windows() -> None:
    """The worst one counts."""
    run = in_windows([1.0] * 50, [1.0] * 30 + [9.0] * 20)
    found = one("share(ttft < 5ms) >= 70% in every 10s", run)
    assert (found.outcome, found.value, found.start_s) == ("fail", 60.0, 10.0)


def test_a_limit_of_another_unit_is_a_mistake() -> None:
    """A limit of another unit is an error that marks its place."""
    with pytest.raises(UsageError, match=r"`5MB` is a size \(MB\) and `ttft` is a time \(ms\)") as caught:
        check_one(parse("share(ttft < 5MB) > 1%"), series(1.0))
    assert str(caught.value).splitlines()[2] == "  " + " " * 13 + "^^^"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("share(ttft) > 1%", "expected `<`, `<=`, `>` or `>=` and a limit"),
        ("share(ttft <) > 1%", "expected a limit such as `200ms`"),
        ("share(ttft < 5ms > 1%", "expected `)`"),
        ("p99(ttft < 5ms) > 1%", "expected `)`"),
    ],
)
def test_a_share_that_is_cut_off(text: str, said: str) -> None:
    """Says what is missing."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).startswith(said)
