"""Any gate prints as text that reads back the same; any text is a gate, or an error that points into it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.judge.gates.fakes import Sorted

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.history.intervals.histograms import Histograms
from telemetry.judge.gates.evidence import Loss
from telemetry.judge.gates.functions import FACTS, FUNCTIONS, SHARE, WORD_FACTS
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.rank_bounds import SlotOrder, quantile, share
from telemetry.judge.gates.tree import (
    BaselineTerm,
    Fact,
    Gate,
    GateMetric,
    Negated,
    Node,
    Number,
    Operation,
    ShareCondition,
    Term,
    Word,
)
from telemetry.judge.gates.units import LITERALS
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank

RELATIONS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
DIGITS = st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?(e-?[0-9])?", fullmatch=True)
NUMBERS = st.builds(Number, DIGITS, st.sampled_from(["", *LITERALS, *(f"{unit}/s" for unit in LITERALS), "/s"]))
NAMES = st.text(min_size=1, max_size=12)
METRICS = st.builds(
    lambda name, labels: GateMetric(name, tuple(sorted(labels.items()))),
    NAMES,
    st.dictionaries(NAMES, st.text(max_size=12), max_size=3),
)
PERCENTILES = st.sampled_from(["p50", "p99", "p99.9", "p0.1", "p100", "p12.3456789"])
RATES = sorted(name for name, function in FUNCTIONS.items() if function.rate)
OF_STEPS = ["best", "first", "last", "steps"]
CONDITIONS = st.builds(ShareCondition, st.sampled_from(["<", "<=", ">", ">="]), NUMBERS)
IN_WINDOWS = st.one_of(
    st.builds(
        Term,
        st.one_of(st.sampled_from(sorted(FUNCTIONS.keys() - {*OF_STEPS, *RATES, SHARE})), PERCENTILES),
        METRICS,
    ),
    st.builds(Term, st.just(SHARE), METRICS, condition=CONDITIONS),
)
LOSSES = st.builds(lambda metric: replace(metric, name=f"{metric.name}/loss"), METRICS)
TERMS = st.one_of(
    IN_WINDOWS,
    st.builds(Term, st.sampled_from(RATES), METRICS),
    st.builds(Term, st.sampled_from(OF_STEPS), LOSSES),
)
FACTS_ONLY = st.builds(Fact, st.sampled_from(sorted(FACTS)))
SIGNS = st.sampled_from(["+", "-", "*", "/"])


def sums(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.builds(Negated, inner), st.builds(Operation, SIGNS, inner, inner)),
        max_leaves=6,
    )


MEASURED = st.one_of(TERMS, FACTS_ONLY)
LEFT = st.one_of(
    MEASURED,
    st.builds(Operation, SIGNS, MEASURED, sums(NUMBERS)),
    st.builds(Operation, SIGNS, sums(NUMBERS), MEASURED),
)
RIGHT = sums(st.one_of(NUMBERS, MEASURED, st.just(BaselineTerm())))
GATES = st.one_of(
    st.builds(Gate, LEFT, RELATIONS, RIGHT),
    st.builds(
        Gate,
        IN_WINDOWS,
        RELATIONS,
        sums(NUMBERS),
        st.builds(Number, st.sampled_from(["1", "30", "90"]), st.just("s")),
    ),
    *(
        st.builds(Gate, st.just(Fact(name)), st.sampled_from(["==", "!="]), st.builds(Word, st.sampled_from(words)))
        for name, words in WORD_FACTS.items()
    ),
)


@given(GATES)
def test_a_printed_gate_reads_back(gate: Gate) -> None:
    """Names may hold anything, also quotes and line ends."""
    text = str(gate)
    if len(text) <= limits.GATE_CHARS:
        assert parse(text) == gate


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["p99", "rate", "(", ")", "x", "{", "}", "a", "=", "<", "<=", "==", "5", "ms", "%", "/s", " "]
        ),
        st.sampled_from(
            ["lost", "completeness", "complete", "baseline", "in", "every", "30s", "-", "*", '"', "\\", ","]
        ),
        st.text(max_size=3),
    ),
    max_size=14,
).map("".join)


@given(st.one_of(PIECES, st.text(max_size=40)))
def test_any_text_is_a_gate_or_an_error_that_points_into_it(text: str) -> None:
    """Three lines, the caret never further than one behind the end; and what is a gate prints as one."""
    try:
        gate = parse(text)
    except UsageError as error:
        said, shown, carets = str(error).split("\n")
        assert said
        assert carets.strip(" ")
        assert set(carets.strip(" ")) == {"^"}
        assert len(carets) <= max(len(shown) + 1, 3) or not text.isascii()
        return
    assert parse(str(gate)) == gate


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=30),
    st.lists(st.integers(0, 50), max_size=10),
    st.sampled_from(["1", "50", "90", "99", "99.9"]),
)
def test_what_was_lost_lies_within_what_is_possible(kept: list[int], gone: list[int], key: str) -> None:
    """The percentile of all values lies between the bounds that rest and loss count give.

    This holds whatever the lost values were.
    """
    found = quantile(Sorted(kept), key, Loss(certain=len(gone), most=len(gone)))
    assert found is not None
    everything = sorted([*kept, *gone])
    true = everything[rank(parse_percentile(key), len(everything)) - 1]
    assert found.possible.low <= true <= found.possible.high
    assert found.possible.low <= found.value <= found.possible.high


@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=200),
    st.integers(0, 10**7),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.sampled_from([1, 2, 3]),
)
def test_a_share_holds_the_one_of_the_raw_values(values: list[int], limit: int, relation: str, digits: int) -> None:
    """A share from a histogram of any resolution holds the share of the raw values.

    The share is a point if the limit is in no slot of several values.
    """
    raw = np.array(values)
    true = int({"<": raw < limit, "<=": raw <= limit, ">": raw > limit, ">=": raw >= limit}[relation].sum())
    layout = Layout.of(digits)
    slots, counts = np.unique(layout.slot_of(raw), return_counts=True)
    histogram = Histograms(
        digits=np.array([digits]),
        ticks_per_unit=np.ones(1),
        seconds=np.ones(1),
        count=np.array([len(values)]),
        total=np.array([raw.sum()], float),
        min=np.array([raw.min()], float),
        max=np.array([raw.max()], float),
        ends=np.array([slots.size]),
        slots=slots,
        counts=counts,
    )
    found = share(SlotOrder(histogram, "bytes"), relation, float(limit))
    assert found is not None
    assert found.least <= true <= found.most
    assert found.samples == len(values)
    shared = layout.lowest_of(slots) != layout.highest_of(slots)
    inside = (layout.lowest_of(slots) <= limit) & (limit <= layout.highest_of(slots)) & shared
    assert found.least == found.most or inside.any()
    assert (found.slot is None) == (found.least == found.most)
    exact = share(Sorted(values), relation, float(limit))
    assert exact is not None
    assert (exact.least, exact.most, exact.slot) == (true, true, None)
