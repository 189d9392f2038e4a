"""Gates and evidence → outcomes: what passes, what fails, and when nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs
from tests.unit.judge.gates.fakes import ERRORS, FAST, HEAT, REQUESTS, SLOW, TTFT, Fake, in_windows, lossy, series

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.judge.gates.check import Rules, check, check_one, surely
from telemetry.judge.gates.evidence import Evidence, GateInstrument, GaugeLevel, Loss
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.value import Range
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import Accounting, CommandFacts, CounterStat, Extent, MetricsSnapshot, SeriesStat


@dataclass
class Once(Fake):
    """A fake run that keeps the instruments of each call of `windows` in a list."""

    asked: list[list[GateInstrument]] = field(default_factory=list)

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        self.asked.append(list(terms))
        return super().windows(step_s, terms)


def one(text: str, run: Fake, **rules: object) -> GateResult:
    """The only result."""
    (result,) = check_one(parse(text), run, Rules(**rules))  # type: ignore[arg-type]
    return result


def said(text: str, run: Fake, **rules: object) -> tuple[str, str]:
    result = one(text, run, **rules)
    return result.outcome, result.reason


FLOOR = Range(-0.1, 0.1)
THOUSAND = series(*range(1, 1001))


# --- the value decides ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("p99(ttft) < 991ms", "pass", "990 ms < 991 ms"),
        ("p99(ttft) < 990ms", "fail", "990 ms is not < 990 ms"),
        ("p99(ttft) <= 990ms", "pass", "990 ms <= 990 ms"),
        ("p99(ttft) <= 0.99s", "pass", "990 ms <= 990 ms"),
        ("p99(ttft) > 989", "pass", "990 ms > 989 ms"),
        ("p99(ttft) >= 991", "fail", "990 ms is not >= 991 ms"),
        ("p99(ttft) == 990", "pass", "990 ms == 990 ms"),
        ("p99(ttft) != 990", "fail", "990 ms is not != 990 ms"),
        ("p99(ttft) < 990.0001ms", "pass", "990.00000 ms < 990.00010 ms"),
        ("p50(ttft) * 2 < 1001ms", "pass", "1.00 s < 1.00 s"),
        ("p99(ttft) - p50(ttft) < 500ms", "pass", "490 ms < 500 ms"),
        ("p99(ttft) / p50(ttft) < 2", "pass", "1.98 < 2"),
        ("p100(ttft) < 1001ms", "pass", "1.00 s < 1.00 s"),
        ("max(ttft) < 1s", "fail", "1.00 s is not < 1.00 s"),
        ("min(ttft) >= 1ms", "pass", "1.00 ms >= 1.00 ms"),
        ("mean(ttft) < 501ms", "pass", "500 ms < 501 ms"),
        ("total(ttft) == 500500ms", "pass", "500 s == 500 s"),
        ("count(ttft) >= 1k", "pass", "1,000 >= 1,000"),
        ("rate(ttft) > 99/s", "pass", "100/s > 99/s"),
        ("rate(ttft) > 99", "pass", "100/s > 99/s"),
        ("-p50(ttft) < -499ms", "pass", "-500 ms < -499 ms"),
    ],
)
def test_a_value_beside_its_limit(text: str, outcome: str, reason: str) -> None:
    """Each function and relation, of a thousand values from 1 to 1,000 ms in ten seconds."""
    found = said(text, THOUSAND)
    assert found[0] == outcome, found
    if "1.00 s < 1.00 s" not in reason and "500 s" not in reason:
        assert found[1] == reason


@pytest.mark.parametrize("seconds", [3.0, 7.3, 9.1, 49.0])
def test_what_binary_floats_round_decides_nothing(seconds: float) -> None:
    """5 of 500 are 1 %, and 1,001 ms are 1.001 s, though no float is either."""
    run = Fake(counters={ERRORS: 5, REQUESTS: 500}, gauges={HEAT: GaugeLevel(value=1.001)}, seconds=seconds)
    assert said("rate(errors)/rate(requests) <= 1%", run)[0] == "pass"
    assert said("rate(errors)/rate(requests) == 1%", run)[0] == "pass"
    assert said("rate(errors)/rate(requests) < 1%", run)[0] == "fail"
    assert said("rate(errors)/rate(requests) < 1.000000001%", run)[0] == "pass"
    assert said("value(heat) >= 1001ms", run)[0] == "pass"
    assert said("max(ttft) <= 1.001s", series(1001))[0] == "pass"
    assert said("count(ttft) == 1.001k", series(*range(1001)))[0] == "pass"


def test_what_no_float_holds_is_inconclusive() -> None:
    """A value that no float holds is inconclusive. It is neither infinitely many times less nor the same."""
    run = series(1e308, 1e308)
    assert said("total(ttft) / total(ttft) < 2", run)[0] == "inconclusive"
    assert said("total(ttft) - total(ttft) < 2", run)[0] == "inconclusive"
    hours, instants = "*".join(["1h"] * 26), "*".join(["1ns"] * 26)
    assert said(f"count(ttft) * ({hours}) / ({instants}) < 2", run)[0] == "fail"


def test_digits_tell_a_value_from_its_limit() -> None:
    """A value and its limit have as many digits as it takes to tell them apart."""
    assert said("p50(ttft) < 500.01ms", THOUSAND)[1] == "500.000 ms < 500.010 ms"
    assert said("max(ttft) < 1000.001ms", THOUSAND)[1] == "1.0000000 s < 1.0000010 s"


def test_counters_gauges_and_facts() -> None:
    """Shares are in percent where the limit is; facts come from the accounts, the clock and the command."""
    command = CommandFacts(argv=["x"], exit_code=0, wall_s=3.5, cpu_user_s=1.0, max_rss_bytes=1 << 20)
    snapshot = MetricsSnapshot(run_id="r", name="n", completeness="lossy", elapsed_s=10.0, command=command)
    snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        completeness="lossy",
        elapsed_s=10.0,
        command=command,
        accounting=Accounting(emitted=10, applied=7, dropped={"negative": 2}, missing=1),
    )
    run = Fake(
        counters={ERRORS: 3, REQUESTS: 600},
        gauges={HEAT: GaugeLevel(value=2.0, min=1.0, max=5.0)},
        snapshot=snapshot,
    )
    run.loss = Loss()
    assert said("rate(errors)/rate(requests) < 1%", run) == ("pass", "0.5 % < 1 %")
    assert said("value(errors) == 0", run) == ("fail", "3 is not == 0")
    assert said("count(requests) > 599", run) == ("pass", "600 > 599")
    assert said("value(heat) < 3000ms", run) == ("pass", "2.00 s < 3.00 s")
    assert said("max(heat) < 3", run) == ("fail", "5.00 s is not < 3.00 s")
    assert said("elapsed < 1m", run) == ("pass", "10.0 s < 60.0 s")
    assert said("command.exit_code == 0", run)[0] == "pass"
    assert said("command.wall < 3s", run)[0] == "fail"
    assert said("command.cpu < 2s", run)[0] == "pass"
    assert said("command.max_rss < 2MiB", run) == ("pass", "1.00 MiB < 2.00 MiB")
    small = CommandFacts(argv=["x"], max_rss_bound_bytes=30 << 20)
    run.snapshot = structs.replace(snapshot, command=small)
    assert said("command.max_rss < 2GiB", run)[0] == "pass"
    assert said("command.max_rss < 2MiB", run)[0] == "inconclusive"
    run.snapshot = structs.replace(snapshot, command=structs.replace(small, max_rss_bound_bytes=0))
    assert said("command.max_rss < 2MiB", run) == ("inconclusive", "the command's peak memory is unknown")
    run.snapshot = snapshot
    assert said("completeness == complete", run) == ("fail", "it is lossy, not complete")
    assert said("completeness != interrupted", run) == ("pass", "it is lossy")
    assert said("completeness != lossy", run) == ("fail", "it is lossy")
    run.loss = Loss(certain=3, most=3, reason="3 events are lost")
    assert said("lost == 0", run) == ("fail", "3 is not == 0")


def test_a_command_that_a_signal_ended_has_the_code_a_shell_gives_it() -> None:
    """A command that a signal ended has the exit code 128 + n. Without a command, the gate is inconclusive."""
    snapshot = MetricsSnapshot(run_id="r", name="n", command=CommandFacts(argv=["x"], signal="SIGTERM"))
    assert one("command.exit_code == 143", Fake(snapshot=snapshot)).outcome == "pass"
    outcome, reason = said("command.exit_code == 0", Fake())
    assert (outcome, reason) == ("inconclusive", "the run has no command, or the command has not ended")


# --- too few values ------------------------------------------------------------------------------


def test_a_percentile_of_too_few_values_is_inconclusive() -> None:
    """p99 of a hundred values has no upper bound, so nobody knows that it is below a limit."""
    outcome, reason = said("p99(ttft) < 250ms", series(*range(100)))
    assert outcome == "inconclusive"
    assert reason == "98.0 ms vs. limit 250 ms, but 100 values are too few: needs 368"


def test_one_side_is_enough() -> None:
    """A lower limit needs a lower bound, which a hundred values have."""
    assert said("p99(ttft) > 50ms", series(*range(100)))[0] == "pass"


def test_too_few_values_are_too_few_below_a_line_as_well() -> None:
    """The inverse of a percentile without an upper bound has no lower bound, so it is inconclusive."""
    assert said("1 / p99(ttft) > 0.004", series(*range(1, 101)))[0] == "inconclusive"
    assert said("p50(ttft) / p99(ttft) > 0.1", series(*range(1, 101)))[0] == "inconclusive"
    assert said("1 / p99(ttft) < 0.1", series(*range(1, 101)))[0] == "pass"


def test_few_values_that_miss_with_all_their_interval_fail() -> None:
    """A percentile fails if even its lower bound is above the limit: more values would not help."""
    assert said("p99(ttft) < 50ms", series(*([900] * 100)))[0] == "fail"


def test_no_values_are_inconclusive() -> None:
    """All functions but `count` are inconclusive without values."""
    empty = series()
    for text in ("p99(ttft) < 1", "mean(ttft) < 1", "max(ttft) < 1"):
        assert said(text, empty) == ("inconclusive", "ttft has no values")
    assert said("count(ttft) == 0", empty)[0] == "pass"


# --- what is lost --------------------------------------------------------------------------------


def test_losses_that_can_change_nothing_leave_it_conclusive() -> None:
    """Losses leave a gate conclusive if they can't change it.

    With 3 of 1,003 events lost p99 lies between ranks 990 and 993.
    """
    run = lossy(THOUSAND, 3)
    assert said("p99(ttft) < 994ms", run)[0] == "pass"
    outcome, reason = said("p99(ttft) < 993ms", run)
    assert outcome == "inconclusive"
    assert (
        reason == "990 ms vs. limit 993 ms, but 3 events are lost: the true value may be between 990 ms and 993 ms"
    )
    assert said("p99(ttft) < 980ms", run)[0] == "fail"


def test_losses_count_on_both_sides() -> None:
    """The fast ones may be lost as well: p50 is then lower."""
    run = lossy(THOUSAND, 100)
    assert said("p50(ttft) > 449ms", run)[0] == "pass"
    assert said("p50(ttft) > 450ms", run)[0] == "inconclusive"
    assert said("p50(ttft) < 550ms", run)[0] == "inconclusive"
    assert said("p50(ttft) < 551ms", run)[0] == "pass"


def test_more_losses_than_values_beyond_the_percentile_make_it_anything() -> None:
    """Ten lost events may all be above everything."""
    outcome, reason = said("p99.9(ttft) < 1h", lossy(series(*range(5000)), 10))
    assert outcome == "inconclusive"
    assert "10 events are lost: the true value may be" in reason
    assert reason.endswith(" or more")


def test_what_nobody_knows_leaves_only_what_can_grow() -> None:
    """A run that is incomplete has no p99, but a count that is reached stays reached."""
    run = lossy(THOUSAND, math.inf)
    assert said("p99(ttft) < 1h", run)[0] == "inconclusive"
    assert said("count(ttft) >= 1000", run)[0] == "pass"
    assert said("count(ttft) < 500", run)[0] == "fail"
    assert said("count(ttft) < 2000", run)[0] == "inconclusive"
    assert said("max(ttft) < 500ms", run)[0] == "fail"
    assert said("max(ttft) < 1h", run)[0] == "inconclusive"
    assert said("min(ttft) > 5ms", run)[0] == "fail"
    assert said("min(ttft) > 0.5ms", run)[0] == "inconclusive"
    assert said("mean(ttft) < 1h", run)[0] == "inconclusive"


def test_who_was_cut_off_has_not_said_how_much_was_sent() -> None:
    """Counts of a producer that was cut off are inconclusive. More may be missing than is known."""
    run = lossy(Fake(), math.inf)
    assert said("missing == 0", run)[0] == "inconclusive"
    assert said("emitted < 5", run)[0] == "inconclusive"
    assert said("applied == 0", run)[0] == "pass"
    assert said("missing == 0", lossy(Fake(), 3))[0] == "pass"


def test_a_lossy_counter_is_at_least_what_it_is() -> None:
    """`value(errors) == 0` fails of one that was counted, and can't pass of none."""
    assert said("value(errors) == 0", lossy(Fake(counters={ERRORS: 1}), 5))[0] == "fail"
    assert said("value(errors) == 0", lossy(Fake(counters={ERRORS: 0}), 5))[0] == "inconclusive"
    run = lossy(Fake(counters={ERRORS: 1, REQUESTS: 100}), 5)
    assert said("rate(errors)/rate(requests) < 5%", run)[0] == "inconclusive"


def test_a_lossy_gauge_is_anything() -> None:
    """The last value of a lossy gauge is inconclusive, because that value may be lost."""
    run = lossy(Fake(gauges={HEAT: GaugeLevel(value=2.0, min=1.0, max=5.0)}), 1)
    assert said("value(heat) < 1h", run)[0] == "inconclusive"
    assert said("max(heat) < 3s", run)[0] == "fail"
    assert said("min(heat) < 3s", run)[0] == "pass"


def test_a_limit_inside_a_slot_is_inconclusive() -> None:
    """A histogram says between which values a percentile lies, and no more."""
    run = series(*range(1, 1001), width=5.0)
    outcome, reason = said("p50(ttft) < 498ms", run)
    assert outcome == "inconclusive"
    assert reason == "500 ms vs. limit 498 ms, but the true value is only known to be between 495 ms and 500 ms"
    assert said("p50(ttft) < 494ms", run)[0] == "fail"


# --- strictness ----------------------------------------------------------------------------------


def test_confident_demands_the_whole_interval() -> None:
    """`confident` demands that the whole interval passes. p50 of 1 … 1,000 is 469 to 532 with 95 % confidence."""
    result = one("p50(ttft) < 510ms", THOUSAND)
    assert (result.outcome, result.low, result.high, result.samples) == ("pass", 469.0, 532.0, 1000)
    outcome, reason = said("p50(ttft) < 510ms", THOUSAND, confident=True)
    assert outcome == "inconclusive"
    assert reason == "500 ms vs. limit 510 ms, but with 95 % confidence the true value is between 469 ms and 532 ms"
    assert said("p50(ttft) < 533ms", THOUSAND, confident=True)[0] == "pass"
    assert said("p50(ttft) < 469ms", THOUSAND, confident=True)[0] == "fail"
    assert said("p50(ttft) < 490ms", THOUSAND, confident=True)[0] == "inconclusive"


def test_confident_takes_counts_as_they_are() -> None:
    """`confident` takes counts and extremes as they are, because they are no estimates."""
    assert said("count(ttft) == 1000", THOUSAND, confident=True)[0] == "pass"
    assert said("max(ttft) <= 1s", THOUSAND, confident=True)[0] == "pass"


def test_confident_of_a_mean() -> None:
    """`confident` takes 1.96 standard errors to each side of a mean. It needs at least 30 values."""
    assert said("mean(ttft) < 520ms", THOUSAND, confident=True)[0] == "pass"
    assert said("mean(ttft) < 510ms", THOUSAND, confident=True)[0] == "inconclusive"
    outcome, reason = said("mean(ttft) < 1h", series(1, 2, 3), confident=True)
    assert (outcome, "its confidence interval is unknown" in reason) == ("inconclusive", True)
    assert said("mean(ttft) < 1h", series(1, 2, 3))[0] == "pass"


# --- baseline ------------------------------------------------------------------------------------


def test_baseline_is_the_same_figure_of_another_run() -> None:
    """`baseline` is the same figure of another run in the unit of the left side.

    Any arithmetic may be on the right.
    """
    result = one("p50(ttft) <= baseline * 1.05", THOUSAND, baseline=series(*range(1, 961)))
    assert (result.outcome, result.value, result.limit) == ("pass", 500.0, 504.0)
    assert one("p50(ttft) <= baseline", THOUSAND, baseline=series(*range(1, 961))).outcome == "fail"
    assert one("p50(ttft) <= baseline + 20ms", THOUSAND, baseline=series(*range(1, 961))).outcome == "pass"


def test_a_baseline_that_can_t_be_had() -> None:
    """A gate is inconclusive if its baseline is missing or has no series, no values or too few.

    So is one whose baseline lacks its part of the run.
    """
    text = "p50(ttft) <= baseline"
    assert said(text, THOUSAND) == ("inconclusive", "no baseline run: give one with --baseline")
    assert said(text, THOUSAND, no_baseline="gone")[1] == "gone"
    assert said(text, THOUSAND, baseline=Fake()) == ("inconclusive", "the baseline has no series ttft")
    assert said(text, THOUSAND, baseline=series()) == ("inconclusive", "baseline: ttft has no values")
    few = said(text, THOUSAND, baseline=series(1, 2, 600))
    assert few == ("inconclusive", "500 ms vs. limit 2.00 ms, but 3 values of the baseline are too few: needs 6")
    lone = said(text, THOUSAND, baseline=series(600))
    assert lone == ("inconclusive", "500 ms vs. limit 600 ms, but 1 value of the baseline is too few: needs 6")
    unsteady = replace(THOUSAND, obstacle="nothing is steady")
    assert said(text, THOUSAND, baseline=unsteady) == ("inconclusive", "baseline: nothing is steady")


def test_a_lossy_baseline_is_as_uncertain_as_a_lossy_run() -> None:
    """A lossy baseline makes the gate inconclusive, because its value may be on the other side."""
    outcome, reason = said("p50(ttft) <= baseline * 1.01", THOUSAND, baseline=lossy(THOUSAND, 100))
    assert (outcome, "100 events are lost" in reason) == ("inconclusive", True)


def test_a_margin_within_the_noise_is_inconclusive() -> None:
    """A difference that single runs show by themselves says nothing; a larger one does."""
    rules = {"baseline": THOUSAND, "noise": {("p50", "ttft", ()): Range(-0.09, 0.1)}}
    outcome, reason = said("p50(ttft) <= baseline * 1.05", THOUSAND, **rules)
    assert outcome == "inconclusive"
    assert reason == "500 ms <= 525 ms, by 5 % of the baseline, but run-to-run noise is 9 %"
    assert said("p50(ttft) > baseline * 0.905", THOUSAND, **rules)[1].endswith("run-to-run noise is 10 %")
    assert said("p50(ttft) <= baseline * 1.2", THOUSAND, **rules)[0] == "pass"
    assert said("p50(ttft) <= baseline * 0.8", THOUSAND, **rules)[0] == "fail"
    assert said("p90(ttft) <= baseline * 1.05", THOUSAND, **rules)[0] == "pass"
    assert said("p50(ttft) <= 501ms", THOUSAND, **rules)[0] == "pass"


def test_the_noise_of_a_throughput_is_that_of_the_overall_rate() -> None:
    """The overall throughput has the noise that calibrations call `rate`.

    Completions per length of the run have another, and a sum has noise only if it is of one counter.
    """
    extent = Extent(first_ns=0, last_ns=9 * 10**9, last_done_ns=10**10, end_ns=10**10, inside=10)
    latency = GateInstrument("series", "llm.latency", (), "ns")
    run = Fake({latency: [1] * 10}, {replace(ERRORS, name="llm.issued", unit="requests"): 10})
    run.snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        counters=[CounterStat(name=f"llm.{word}", unit="requests", value=10) for word in ("issued", "completed")],
        series=[SeriesStat(name=latency.name, unit="ns", count=10, total=10, extent=extent)],
    )
    rules = {"baseline": run, "noise": {("rate", "llm.latency", ()): FLOOR, ("value", "llm.issued", ()): FLOOR}}
    gate = "{}(llm.latency) >= baseline * 0.95"
    assert said(gate.format("throughput.overall"), run, **rules)[0] == "inconclusive"
    assert said(gate.format("throughput.loadgen"), run, **rules)[0] == "pass"
    assert said(gate.format("rate"), run, **rules)[0] == "pass"
    rules["noise"] = {("rate", "llm.completed", ()): FLOOR, ("value", "llm.issued", ()): FLOOR}
    assert said(gate.format("rate"), run, **rules)[0] == "inconclusive"
    assert said(gate.format("throughput.overall"), run, **rules)[0] == "pass"
    assert said("value(llm.issued) >= baseline * 0.95", run, **rules)[0] == "inconclusive"
    assert said("sum(llm.issued) >= baseline * 0.95", run, **rules)[0] == "inconclusive"
    more = {GateInstrument("counter", "llm.issued", (("window", "w"),), "requests"): 0.0, **run.counters}
    assert said("sum(llm.issued) >= baseline * 0.95", replace(run, counters=more), **rules)[0] == "pass"


# --- windows -------------------------------------------------------------------------------------


def test_every_window_has_to_hold() -> None:
    """The evidence is the worst one."""
    run = in_windows(range(100, 200), range(200, 300), range(150, 250))
    result = one("p50(ttft) < 300ms in every 10s", run)
    assert (result.outcome, result.windows, result.windows_failed) == ("pass", 3, 0)
    assert (result.value, result.start_s, result.end_s) == (249.0, 10.0, 20.0)
    assert result.reason == "249 ms < 300 ms from 10 s to 20 s, the worst of 3 windows of 10 s"
    result = one("p50(ttft) < 190ms in every 10s", run)
    assert (result.outcome, result.windows, result.windows_failed) == ("fail", 3, 2)
    assert result.reason == "249 ms is not < 190 ms from 10 s to 20 s; 2 of 3 windows of 10 s failed"


def test_the_windows_of_all_label_sets_are_read_once() -> None:
    """There may be thousands of sets, and each reading goes through the whole history."""
    parts = [
        Fake({FAST: [1.0] * 9, SLOW: [value] * 9}, whole=False, start_s=at * 10.0, end_s=at * 10.0 + 10.0)
        for at, value in enumerate((2.0, 7.0))
    ]
    run = Once({FAST: [1.0], SLOW: [2.0]}, parts=parts)
    found = check_one(parse("max(ttft) < 5ms in every 10s"), run)
    assert [(result.expression, result.outcome, result.windows) for result in found] == [
        ("max(ttft{route=/fast}) < 5ms in every 10s", "pass", 2),
        ("max(ttft{route=/slow}) < 5ms in every 10s", "fail", 2),
    ]
    assert run.asked == [[FAST, SLOW]]


def test_the_worst_of_a_lower_limit_is_the_lowest() -> None:
    """The worst window has the lowest value for a lower limit. For `==` it has the value that is furthest away."""
    run = in_windows([5] * 50, [2] * 50, [7] * 50)
    assert one("p50(ttft) > 1ms in every 10s", run).value == 2.0
    assert one("count(ttft) == 50 in every 10s", run).outcome == "pass"
    assert one("p50(ttft) == 4ms in every 10s", run).value == 7.0
    assert one("p50(ttft) != 4ms in every 10s", run).outcome == "pass"


def test_windows_with_too_few_values_make_it_inconclusive_if_none_failed() -> None:
    """Windows with too few values are counted and make a gate inconclusive.

    One failed window is enough for a failure.
    """
    run = in_windows(range(100, 200), [1, 2], [])
    result = one("p50(ttft) < 300ms in every 10s", run)
    assert (result.outcome, result.windows, result.windows_failed) == ("inconclusive", 3, 0)
    assert result.reason == (
        "inconclusive in 2 of 3 windows of 10 s, first from 10 s to 20 s: 1.00 ms vs. limit 300 "
        "ms, but 2 values are too few: needs 6"
    )
    assert one("p50(ttft) < 120ms in every 10s", run).outcome == "fail"


def test_no_whole_window_is_inconclusive() -> None:
    """A gate without a whole window is inconclusive.

    So is one whose windows the history lacks or keeps in longer steps.
    """
    assert said("p50(ttft) < 1h in every 1m", THOUSAND)[1] == "the history has no complete window of 60 s in 10.0 s"
    run = in_windows(range(100), range(100), range(100))
    del run.parts[1]
    assert said("p50(ttft) < 1h in every 10s", run) == (
        "inconclusive",
        "the history lacks 1 of 3 windows of 10 s",
    )
    run.parts[0].obstacle = "it is coarse"
    assert "1 of 2 windows of 10 s" in said("p50(ttft) < 1h in every 10s", run)[1]


def test_a_history_that_can_t_be_read_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate on windows is inconclusive if the history can't be read. It raises no error, so other gates go on."""

    def refuse(*_: object) -> None:
        raise RunDirectoryError("no history to read")

    monkeypatch.setattr(Fake, "windows", refuse)
    assert said("p50(ttft) < 1h in every 10s", THOUSAND) == ("inconclusive", "no history to read")


def test_counters_have_no_events_in_a_window() -> None:
    """A window has the increase of a counter, but not its number of events."""
    run = Fake(counters={ERRORS: 5})
    run.parts = [replace(run, whole=False, start_s=0.0, end_s=10.0)]
    assert one("value(errors) < 6 in every 10s", run).outcome == "pass"
    assert one("rate(errors) < 0.5 in every 10s", run).outcome == "fail"
    assert "the number of events of errors" in said("count(errors) < 6 in every 10s", run)[1]


def test_a_share_of_a_count_is_a_plain_number() -> None:
    """A count divided by a count is a plain number.

    A count divided by a written number keeps its unit, and so does a time.
    """
    failed, tokens = (
        GateInstrument("counter", "failed", (), "requests"),
        GateInstrument("series", "tokens", (), "tokens"),
    )
    run = Fake({TTFT: [2.0] * 24, tokens: [200] * 12}, {failed: 1})
    assert said("sum(failed)/count(ttft) < 50%", run) == ("pass", "4.17 % < 50 %")
    assert said("value(failed)/count(ttft) < 0.5", run) == ("pass", "0.0417 < 0.5")
    assert said("total(tokens)/count(ttft) > 99", run) == ("pass", "100 > 99")
    assert said("value(failed)/2 < 1", run) == ("pass", "0.5 requests < 1 requests")
    assert said("total(ttft)/count(ttft) < 3ms", run) == ("pass", "2.00 ms < 3.00 ms")


# --- several instruments -------------------------------------------------------------------------


def test_a_name_of_several_label_sets_is_a_gate_on_each() -> None:
    """Each result says which."""
    run = Fake({FAST: range(100), SLOW: range(1000, 1100)})
    found = check([parse("p50(ttft) < 500ms")], run)
    assert [(result.expression, result.outcome) for result in found] == [
        ("p50(ttft{route=/fast}) < 500ms", "pass"),
        ("p50(ttft{route=/slow}) < 500ms", "fail"),
    ]
    assert [result.outcome for result in check([parse("p50(ttft{route=/fast}) < 500ms")], run)] == ["pass"]


def test_a_set_that_is_not_whole_is_inconclusive() -> None:
    """A ratio is inconclusive for a label set that only one of its terms has."""
    run = Fake({FAST: range(100), SLOW: range(100), TTFT: range(5)})
    run.counters = {replace(REQUESTS, labels=FAST.labels): 5, replace(REQUESTS, labels=SLOW.labels): 5}
    found = check_one(parse("count(ttft)/count(requests) < 50"), run)
    assert [(result.outcome, result.reason) for result in found] == [
        ("pass", "20 < 50"),
        ("pass", "20 < 50"),
        ("inconclusive", 'requests{route=""} is missing for the other terms'),
    ]


def test_a_share_of_requests_that_all_failed_fails() -> None:
    """A share of completed requests is judged for each window of the load generator on its own.

    It passes in a window where all requests completed, and fails where all failed. It is inconclusive in a lossy
    run.
    """
    issued, latency = (
        GateInstrument(*what) for what in (("counter", "q.issued", (), "requests"), ("series", "q.latency"))
    )
    within = (("window", "w"),)
    run = Fake({replace(latency, labels=within): [5.0] * 10}, {replace(issued, labels=within): 10, issued: 3})
    share = "count(q.latency)/value(q.issued) > 90%"
    assert [(result.expression, result.outcome, result.reason) for result in check_one(parse(share), run)] == [
        ("count(q.latency{window=w}) / value(q.issued{window=w}) > 90%", "pass", "100 % > 90 %"),
        ('count(q.latency{window=""}) / value(q.issued{window=""}) > 90%', "fail", "0 % is not > 90 %"),
    ]
    assert [result.outcome for result in check_one(parse(share), lossy(run, math.inf))] == ["inconclusive"] * 2
    assert said('throughput(q.latency{window=""}) > 1/s', run) == ("fail", "0/s while issuing is not > 1/s")
    assert said('p99(q.latency{window=""}) < 1s', run)[0] == "inconclusive"
    assert {result.outcome for result in check_one(parse("value(q.after_end) == 0"), run)} == {"pass"}


# --- what makes no sense -------------------------------------------------------------------------


def test_units_that_don_t_go_together() -> None:
    """A gate that compares or adds different units, such as `p99(ttft) < 5MiB`, raises UsageError.

    The message marks the part with the wrong unit by carets: `^^^^` below `5MiB`.
    """
    for text, place in [
        ("p99(ttft) < 5MiB", "            ^^^^"),
        ("p99(ttft) < 5%", "            ^^"),
        ("p99(ttft) + 3MiB < 5", "            ^^^^"),
        ("rate(ttft) < 5ms", "             ^^^"),
        ("count(ttft) < 5ms", "              ^^^"),
        ("elapsed < 5MiB", "          ^^^^"),
    ]:
        with pytest.raises(UsageError) as caught:
            check_one(parse(text), THOUSAND)
        lines = str(caught.value).splitlines()
        assert "can't be compared or added" in lines[0]
        assert lines[1:] == [f"  {text}", f"  {place}"]


def test_a_division_by_zero_is_inconclusive() -> None:
    """A division by zero is inconclusive, and the reason says what is 0."""
    run = Fake(counters={ERRORS: 1, REQUESTS: 0})
    assert said("rate(errors)/rate(requests) < 1%", run) == (
        "inconclusive",
        "it is a division by zero: rate(requests) is 0",
    )
    assert said("rate(errors) < 1", replace(run, seconds=0.0)) == (
        "inconclusive",
        "a rate needs a duration above 0",
    )


def test_a_part_that_was_not_found_makes_every_gate_inconclusive() -> None:
    """A part that was not found makes every gate inconclusive, also one that needs no instruments."""
    run = replace(THOUSAND, obstacle="no part of the run is steady")
    for text in ("p99(ttft) < 1h", "lost == 0", "completeness == complete"):
        assert said(text, run) == ("inconclusive", "no part of the run is steady")


@pytest.mark.parametrize(
    ("relation", "left", "right", "expected"),
    [
        ("<", (1, 2), (3, 4), True),
        ("<", (3, 4), (1, 3), False),
        ("<", (1, 3), (3, 4), None),
        ("<=", (1, 3), (3, 4), True),
        ("<=", (3, 4), (1, 3), None),
        (">", (3, 4), (1, 2), True),
        (">=", (1, 2), (2, 3), None),
        (">=", (1, 2), (3, 4), False),
        ("==", (3, 3), (3, 3), True),
        ("==", (1, 3), (3, 3), None),
        ("==", (1, 2), (3, 3), False),
        ("!=", (1, 2), (3, 3), True),
        ("!=", (3, 3), (3, 3), False),
        ("!=", (1, 3), (3, 3), None),
        ("<", (-math.inf, math.inf), (3, 3), None),
    ],
)
def test_what_holds_wherever_both_sides_are(
    relation: str, left: tuple[float, float], right: tuple[float, float], expected: bool | None
) -> None:
    """`surely` returns true or false only if it holds wherever both sides may be."""
    assert surely(relation, Range(*left), Range(*right)) is expected  # type: ignore[arg-type]
