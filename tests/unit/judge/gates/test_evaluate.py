"""The tree of a gate and a part of a run → a value, with what it may be."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from tests.unit.judge.gates.fakes import ERRORS, REQUESTS, Fake, lossy, series

from telemetry.errors import UsageError
from telemetry.judge.gates.evaluate import EvaluationContext, evaluate
from telemetry.judge.gates.evidence import GateInstrument
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.resolve import bindings
from telemetry.judge.gates.tree import Word
from telemetry.judge.gates.value import Range, Unknown, Value, exactly
from telemetry.wire.report import Straggler, Stragglers
from telemetry.wire.snapshot import (
    Accounting,
    CounterStat,
    Extent,
    MetricsSnapshot,
    NodeStat,
    ProducerStat,
    SeriesStat,
)


def value(text: str, run: Fake, baseline: Value | None = None) -> Value:
    """Return the value of the gate's left side, or of its right side if there is a baseline."""
    gate = parse(f"{text} < 1" if "<" not in text else text)
    (binding,) = bindings(gate, run.instruments)
    scene = EvaluationContext(text=gate.text, evidence=run, bound=binding.bound, baseline=baseline)
    return evaluate(gate.left if baseline is None else gate.right, scene)


HUNDRED = series(*range(1, 101))


def test_a_percentile_has_an_interval_and_samples() -> None:
    """A percentile has its samples and the interval that order statistics give."""
    found = value("p50(ttft)", HUNDRED)
    assert (found.value, found.possible, found.likely, found.samples) == (50, (50, 50), (40, 61), 100)
    assert (found.estimate, found.unit.name) == (True, "ms")


def test_the_hundredth_percentile_is_the_maximum() -> None:
    """The hundredth percentile is the maximum, which is no estimate."""
    found = value("p100(ttft)", HUNDRED)
    assert (found.value, found.likely, found.estimate) == (100, (100, 100), False)


def test_what_losses_leave_possible() -> None:
    """Counts and totals grow, the minimum falls, the maximum grows, the mean goes anywhere above what there is."""
    run = lossy(HUNDRED, 100)
    assert value("count(ttft)", run).possible == (100, 200)
    assert value("rate(ttft)", run).possible == (10, 20)
    assert value("total(ttft)", run).possible == (5050, math.inf)
    assert value("min(ttft)", run).possible == (0, 1)
    assert value("max(ttft)", run).possible == (100, math.inf)
    assert value("mean(ttft)", run).possible == (25.25, math.inf)
    assert value("mean(ttft)", HUNDRED).possible == (50.5, 50.5)


def test_a_ratio_of_counters_carries_both() -> None:
    """A ratio of counters is exact without losses and may be anything with a loss."""
    run = Fake(counters={ERRORS: 3, REQUESTS: 60})
    found = value("rate(errors)/rate(requests)", run)
    assert (found.value, found.possible) == (pytest.approx(0.05), (found.value, found.value))
    assert value("rate(errors)/rate(requests)", lossy(run, 1)).possible == (-math.inf, math.inf)


def test_baseline_stands_for_its_value() -> None:
    """`baseline` stands for its value and may be scaled."""
    found = value("p50(ttft) < baseline * 2 + 1", HUNDRED, baseline=exactly(5.0, value("p50(ttft)", HUNDRED).unit))
    assert (found.value, found.unit.name) == (11, "ms")


def test_facts_come_from_the_snapshot() -> None:
    """Each by its name."""
    account = Accounting(emitted=9, applied=7, missing=1, repaired=4, salvaged=3)
    snapshot = MetricsSnapshot(
        run_id="r", name="n", accounting=account, producers=[ProducerStat(producer="p")], elapsed_s=3.0
    )
    run = Fake(snapshot=snapshot)
    found = {
        name: value(name, run).value
        for name in ("emitted", "applied", "missing", "repaired", "salvaged", "producers")
    }
    assert found == {"emitted": 9, "applied": 7, "missing": 1, "repaired": 4, "salvaged": 3, "producers": 1}
    assert (value("elapsed", run).value, value("elapsed", run).unit.name) == (3.0, "s")


def test_nodes_are_counted_and_those_that_lack_events() -> None:
    """A node that goes on and lacks nothing is well. At the end it has to be complete."""
    well, live = NodeStat(node="a", leaf="a", completeness="complete", producers=8), NodeStat(node="b", leaf="b")
    snapshot = MetricsSnapshot(run_id="r", name="n", state="LIVE", nodes=[well, live], missing_nodes=1)
    facts = ("nodes", "incomplete_nodes", "producers")
    assert [value(name, Fake(snapshot=snapshot)).value for name in facts] == [3, 1, 8]
    ended = structs.replace(snapshot, state="COMPLETE")
    assert [value(name, Fake(snapshot=ended)).value for name in facts] == [3, 2, 8]


def test_the_cost_of_the_worst_slow_rank() -> None:
    """The worst slow rank costs a share of a step or a time, and 0 if no rank is slow.

    The cost is unknown during the run and without work and wait.
    """
    slow = Straggler(
        rank=3, name="rank 3", cost_s=0.02, cost=0.1, step_s=0.2, lag_s=0.03, excess=0.15, work_s=0.2,
        others_s=0.17, first_step=0, last_step=99, steps=100, windows=20, last_in=19, always=True, now=True,
    )  # fmt: skip
    worse = structs.replace(slow, cost=0.2, cost_s=0.01)
    axis = Stragglers(axis="step", ranks=8, steps=100, step_s=0.2, confidence=0.99)
    both = Fake(slow=[structs.replace(axis, slow=[slow]), structs.replace(axis, slow=[worse])])
    share, cost = value("straggler()", both), value("straggler.cost()", both)
    assert (share.value, share.unit.name, cost.value, cost.unit.name) == (0.2, "", 0.02, "s")
    assert value("straggler", Fake(slow=[axis])).value == 0.0
    with pytest.raises(Unknown, match="once the run has ended"):
        value("straggler()", Fake())
    with pytest.raises(Unknown, match="no steps with work and wait"):
        value("straggler()", Fake(slow=[]))


def test_slow_ranks_count_together() -> None:
    """Two slow ranks hide each other, so what both cost together counts. A cost that can't be told is a range."""
    slow = Straggler(
        rank=3, name="rank 3", cost_s=0.001, cost=0.005, step_s=0.2, lag_s=0.03, excess=0.15, work_s=0.2,
        others_s=0.17, first_step=0, last_step=99, steps=100, windows=20, last_in=19, always=True, now=True,
    )  # fmt: skip
    axis = Stragglers(axis="step", ranks=8, steps=100, step_s=0.2, confidence=0.99, slow=[slow, slow])
    both = Fake(slow=[structs.replace(axis, together_s=0.02, together=0.1)])
    assert (value("straggler()", both).value, value("straggler.cost()", both).value) == (0.1, 0.02)
    unsure = structs.replace(slow, cost_s=0.01, cost=0.05, highest_s=0.025, sure=False)
    cost = value("straggler.cost()", Fake(slow=[structs.replace(axis, slow=[slow, unsure], together_s=0.02)]))
    assert (cost.possible, "hide an unknown part" in cost.doubt) == (Range(0.001, 0.025), True)
    assert value("straggler()", Fake(slow=[structs.replace(axis, slow=[unsure])])).possible == Range(0.0, 0.125)


def test_sums_of_what_does_not_fit() -> None:
    """Point at the second of them."""
    with pytest.raises(UsageError, match="`p50\\(ttft\\)` is a time \\(ms\\) and `lost` is a plain number"):
        value("p50(ttft) + lost", HUNDRED)


def test_a_word_has_no_value() -> None:
    """A word has no value: evaluating one raises a `TypeError`, and no caller does it."""
    with pytest.raises(TypeError):
        evaluate(Word("complete"), EvaluationContext(text="", evidence=Fake(), bound={}))


def test_a_sum_is_of_its_counters() -> None:
    """A sum adds its counters. With a loss it may be any larger value."""
    failed = [GateInstrument("counter", "failed", (("reason", reason),), "requests") for reason in ("busy", "gone")]
    run = Fake(counters={failed[0]: 3, failed[1]: 4})
    found = value("sum(failed)", run)
    assert (found.value, found.possible, found.samples, found.unit.name) == (7, (7, 7), None, "requests")
    assert value("sum(failed)", lossy(run, 1)).possible == (7, math.inf)
    mixed = Fake(counters={failed[0]: 3, replace(failed[1], unit="s"): 4})
    with pytest.raises(UsageError, match=r"`sum\(failed\)` adds a plain number \(requests\) to a time"):
        value("sum(failed)", mixed)


ISSUED = GateInstrument("counter", "llm.issued", (), "requests")
LATENCY = GateInstrument("series", "llm.latency", (), "ns")
TOKENS = GateInstrument("series", "llm.output_tokens", (), "tokens")


def requests(extent: Extent | None) -> Fake:
    """Nine of ten requests completed, with a hundred tokens each."""
    second = 10**9
    snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        counters=[
            CounterStat(name="llm.issued", unit="requests", value=10),
            CounterStat(name="llm.completed", unit="requests", value=9),
        ],
        series=[
            SeriesStat(name="llm.latency", unit="ns", count=9, total=9 * second, extent=extent),
            SeriesStat(name="llm.output_tokens", unit="tokens", count=9, total=900, extent=extent),
        ],
    )
    return Fake({LATENCY: [second] * 9, TOKENS: [100] * 9}, {ISSUED: 10}, snapshot=snapshot)


def test_throughput_of_requests_and_of_tokens() -> None:
    """Each definition of throughput has its value for requests and tokens.

    The straggler that ends last stretches only the overall one.
    """
    second = 10**9
    extent = Extent(first_ns=0, last_ns=8 * second, last_done_ns=9 * second, end_ns=60 * second, inside=8)
    run = requests(extent)
    names = ("throughput", "throughput.loadgen", "throughput.overall")
    found = {name: value(f"{name}(llm.latency)", run) for name in names}
    assert [one.value for one in found.values()] == pytest.approx([8 / 8, 8 / 9, 9 / 60])
    assert {(one.unit.name, one.samples) for one in found.values()} == {("requests/s", 9)}
    tokens = value("throughput.overall(llm.output_tokens)", run)
    assert (tokens.value, tokens.unit.name) == (900 / 60, "tokens/s")
    assert value("throughput(llm.latency)", lossy(run, 1)).possible == (0, math.inf)


def test_a_throughput_that_nobody_knows() -> None:
    """A throughput is unknown for a part of a run and without an extent.

    That of tokens is also unknown if they are known for no request or for only some.
    """
    extent = Extent(first_ns=0, last_ns=8, last_done_ns=9, end_ns=60, inside=8)
    for run, word, why in (
        (requests(None), "latency", "its duration is zero or unknown"),
        (replace(requests(extent), whole=False), "latency", "no throughput of llm.latency for a time range"),
        (
            replace(requests(extent), values={LATENCY: [9]}),
            "output_tokens",
            "known for 0 of 1 completed request",
        ),
        (replace(requests(extent), values={LATENCY: [9] * 9, TOKENS: [5]}), "output_tokens", "known for 1 of 9 "),
    ):
        with pytest.raises(Unknown, match=why):
            value(f"throughput(llm.{word})", run)


@pytest.mark.parametrize("word", ["latency", "output_tokens"])
def test_where_no_request_completed_the_throughput_is_nothing(word: str) -> None:
    """Unless they are among what is lost."""
    run = replace(requests(None), values={})
    found = value(f"throughput(llm.{word})", run)
    assert (found.value, found.possible, found.samples) == (0, (0, 0), 0)
    assert value(f"throughput(llm.{word})", lossy(run, 1)).possible == (0, math.inf)
