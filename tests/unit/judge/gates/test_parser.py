"""Text → gate: what can be written, and what is said of everything else."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.judge.gates.functions import FACTS, FUNCTIONS, SHARE, WORD_FACTS
from telemetry.judge.gates.parser import every_s, near, parse, parse_all
from telemetry.judge.gates.tree import BaselineTerm, Fact, Gate, GateMetric, Number, Operation, Term, Word

X = GateMetric("x")
ERRORS: list[tuple[str, int, int, str]] = [
    ("", 0, 1, "expected a comparison, such as `p99(latency) < 250ms`, found nothing"),
    ("p99(ttft) 250ms", 10, 3, "expected a comparison (<=, >=, ==, !=, <, >), found `250`"),
    ("p99(ttft", 8, 1, "expected `)`, found the end"),
    ("p99(ttft < 3", 9, 1, "expected `)`, found `<`; did you mean `p99(ttft) < …`?"),
    ("avg(x) < 3", 0, 3, "`avg` is not a function; did you mean `mean`?"),
    ("p90th(x) < 3", 0, 5, "`p90th` is not a function; did you mean `p90`?"),
    (
        "zebra(x) < 3",
        0,
        5,
        "`zebra` is not a function; the functions are count, rate, mean, min, max, total, value, "
        "sum, share, first, last, best, steps, attainment, throughput, throughput.loadgen, throughput.overall, "
        "goodput, goodput.issuing, goodput.loadgen and p50, p99, …",
    ),
    ("p0(x) < 3", 0, 2, "`p0` is not a percentile: it must be above 0 and up to 100"),
    ("p999(x) < 3", 0, 4, "`p999` is not a percentile: it must be above 0 and up to 100"),
    ("p99.(x) < 1", 0, 4, "`p99.` is not a percentile: write it like p50 or p99.9, with at most 7 decimals"),
    (
        "p99.12345678(x) < 1",
        0,
        12,
        "`p99.12345678` is not a percentile: write it like p50 or p99.9, with at most 7 decimals",
    ),
    (
        "ttft < 5ms",
        0,
        4,
        "`ttft` is not a fact of a run; write a figure of a metric as `p99(ttft)`, `value(ttft)`, …",
    ),
    ("p99 latency < 250ms", 0, 11, "`p99` is a function; did you mean `p99(latency)`?"),
    ("mean latency{route=/a} < 5", 0, 22, "`mean` is a function; did you mean `mean(latency{route=/a})`?"),
    ('p99 "a b" < 5', 0, 9, '`p99` is a function; did you mean `p99("a b")`?'),
    ("latency p99 < 250ms", 0, 11, "`p99` is a function; did you mean `p99(latency)`?"),
    ("p99 < 3", 0, 3, "`p99` is a function: write it with a metric, such as `p99(latency)`"),
    ("p99(latency < 250ms)", 12, 1, "expected `)`, found `<`; did you mean `p99(latency) < …`?"),
    ("losst == 0", 0, 5, "`losst` is not a fact of a run; did you mean `lost`?"),
    ("exit_code == 0", 0, 9, "`exit_code` is not a fact of a run; did you mean `command.exit_code`?"),
    ("lost = 0", 5, 1, "`=` is not a comparison; did you mean `==`?"),
    ("lost => 0", 5, 2, "`=>` is not a comparison; did you mean `>=`?"),
    ("lost ≤ 0", 5, 1, "`≤` is not a comparison; did you mean `<=`?"),
    ("lost <> 0", 5, 2, "`<>` is not a comparison; did you mean `!=`?"),
    (
        "5 < lost",
        0,
        1,
        "the left side must contain a measurement, such as `p99(latency)`; put the limit on the right",
    ),
    ("lost < 5 < 6", 9, 1, "a gate has one comparison; write a second gate for the second one"),
    ("lost < 5 in every 3s", 0, 4, "`lost` is only known for the whole run, not for each window"),
    (
        "throughput(c.output_tokens) < 5 in every 3s",
        0,
        27,
        "`throughput` counts from the first issue of all requests, so it is only known for the "
        "whole run, not for each window: remove `in every`, or write `total(c.output_tokens) / "
        "3s`, the completions in each window",
    ),
    (
        "p9(x) < 3 in every 500ms",
        19,
        5,
        "the history has a resolution of one second, so a window must be 1s, 2s, … long",
    ),
    (
        "p9(x) < 3 in every 1.5s",
        19,
        4,
        "the history has a resolution of one second, so a window must be 1s, 2s, … long",
    ),
    ("p9(x) < 3 in every 5", 19, 1, "the length of a window must be a time, such as `30s` or `5m`"),
    ("p9(x) < 3 in every", 18, 1, "expected the length of a window, such as `30s`, found the end"),
    ("p9(x) < 3 in evry 5s", 13, 4, "expected `every`, such as `in every 30s`, found `evry`"),
    ("p9(x) < 3 every 5s", 10, 5, "expected `in every`, such as `in every 30s`, found `every`"),
    (
        "completeness == complet",
        16,
        7,
        "expected `complete`, `lossy`, `incomplete` or `interrupted`; did you mean `complete`?",
    ),
    ("completeness == 5", 16, 1, "expected `complete`, `lossy`, `incomplete` or `interrupted`"),
    ("completeness < lossy", 13, 1, "`completeness` is a word: compare it only with `==` or `!=`"),
    ("completeness == complete in every 5s", 25, 2, "expected the end, found `in`"),
    ("completeness + 1 < 3", 13, 1, "expected a comparison (<=, >=, ==, !=, <, >), found `+`"),
    ("lost == completeness", 8, 12, "`completeness` must stand alone on the left: `completeness == complete`"),
    ("p99(a+b) < 3", 5, 1, "expected `)`, found `+`; put a name with special characters in quotes"),
    ('p99("a) < 3', 4, 1, 'this quote is not closed, or contains a `\\` that is neither `\\\\` nor `\\"`'),
    ('p99("") < 3', 4, 2, "the name of a metric can't be empty"),
    (
        "p99(x) < 3sec",
        10,
        3,
        ("`sec` is not a unit; units are %, B, GB, GiB, KB, KiB, M, MB, MiB, h, k, kB, m, min, ms, ns, s, us, µs"),
    ),
    ("p99(x) < 3Mib", 10, 3, "`Mib` is not a unit; did you mean `MiB`?"),
    ("p99(x) < 1e999", 9, 5, "this number is too large"),
    ("p99(x{a}) < 1", 7, 1, "expected `=` after the label's name, found `}`"),
    ("p99(x{}) < 1", 6, 1, "expected a label, such as `route=/fast`, found `}`"),
    ("p99(x{a=}) < 1", 8, 1, "expected the label's value, found `}`"),
    ("p99(x{a=1,a=2}) < 1", 10, 1, "the label `a` is given twice"),
    ("p99(x{a=1) < 1", 11, 1, "expected `,` or `}` after the label, found `<`"),
    ("baseline < p9(x)", 0, 8, "`baseline` is the left side in another run, so put it on the right"),
    ("p9(x) < (3", 10, 1, "expected `)` for the `(` at character 9, found the end"),
    (
        "p9(x) < ",
        8,
        1,
        "expected a number, a figure such as `p99(latency)`, or a fact such as `lost`, found the end",
    ),
    ("p9() < 3", 3, 1, "expected the name of a metric, in quotes if it has special characters, found `)`"),
    ("p9(x) < 3 &", 10, 1, "expected the end or `in every 30s`, found `&`"),
    ("in < 3", 0, 2, "expected a number, a figure or a fact, found `in`"),
    ("p9(x) < zz", 8, 2, "`zz` is not a fact of a run; write a figure of a metric as `p99(zz)`, `value(zz)`, …"),
    (
        "p9(x) <== 5",
        8,
        1,
        "expected a number, a figure such as `p99(latency)`, or a fact such as `lost`, found `=`",
    ),
    ("p9(x) < 5 6", 10, 1, "expected the end or `in every 30s`, found `6`"),
    ("(p9(x) < 5", 7, 1, "expected `)` for the `(` at character 1, found `<`"),
    ("p99(x)) < 5", 6, 1, "expected a comparison (<=, >=, ==, !=, <, >), found `)`"),
]
"""(gate, column of the first caret, carets, what is said)"""


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("p99(x) < 250ms", Gate(Term("p99", X), "<", Number("250", "ms"))),
        ("p99.950(x) >= 1.5e3", Gate(Term("p99.95", X), ">=", Number("1.5e3"))),
        ("p099(x) != 1", Gate(Term("p99", X), "!=", Number("1"))),
        ("p100(x) > 1", Gate(Term("p100", X), ">", Number("1"))),
        (
            "mean(x{b=2, a=/y}) <= 5k",
            Gate(Term("mean", GateMetric("x", (("a", "/y"), ("b", "2")))), "<=", Number("5", "k")),
        ),
        (
            "rate(x)/rate(y) < 1 %",
            Gate(Operation("/", Term("rate", X), Term("rate", GateMetric("y"))), "<", Number("1", "%")),
        ),
        (
            "p50(x) <= baseline * 1.05 in every 2 m",
            Gate(Term("p50", X), "<=", Operation("*", BaselineTerm(), Number("1.05")), Number("2", "m")),
        ),
        ("lost == 0", Gate(Fact("lost"), "==", Number("0"))),
        ("completeness == complete", Gate(Fact("completeness"), "==", Word("complete"))),
    ],
)
def test_what_is_written_is_what_is_meant(text: str, gate: Gate) -> None:
    """Space matters nowhere, and a percentile has one spelling."""
    assert parse(text) == gate
    assert parse(f"  {text}\t") == gate


@pytest.mark.parametrize(("text", "column", "carets", "said"), ERRORS, ids=[repr(error[0]) for error in ERRORS])
def test_an_error_says_what_was_expected_and_points_there(text: str, column: int, carets: int, said: str) -> None:
    """Three lines: what is wrong, the gate, and carets under the place."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).split("\n") == [said, f"  {text}", f"  {' ' * column}{'^' * carets}"]
    assert caught.value.exit_code == 2


def test_operators_bind_as_everywhere() -> None:
    """Products before sums, from left to right."""
    gate = parse("lost - 1 - 2 * 3 < 1")
    one, two, three = Number("1"), Number("2"), Number("3")
    assert gate.left == Operation("-", Operation("-", Fact("lost"), one), Operation("*", two, three))


def test_every_function_and_fact_can_be_written() -> None:
    """Every function and every fact of the tables can be written in a gate."""
    for function in (*FUNCTIONS, "p0.5", "p99.9999"):
        inside = "x < 1" if function == SHARE else "loss"
        assert parse(f"{function}({inside}) < 1").terms[0].function == function
    for fact in FACTS:
        assert parse(f"{fact} < 1").left == Fact(fact)
    for fact, words in WORD_FACTS.items():
        assert [str(parse(f"{fact} == {word}").right) for word in words] == list(words)


def test_windows_are_whole_seconds_in_any_unit() -> None:
    """Windows are whole seconds, written in any unit up to hours."""
    lengths = {text: parse(f"p9(x) < 1 in every {text}").every for text in ("30s", "5m", "1.5m", "1h", "2000ms")}
    assert {text: every_s(number) for text, number in lengths.items() if number} == {
        "30s": 30,
        "5m": 300,
        "1.5m": 90,
        "1h": 3600,
        "2000ms": 2,
    }


def test_a_gate_has_bounds() -> None:
    """Length, operands, and how many there may be."""
    with pytest.raises(UsageError, match="1,001 characters is too long"):
        parse("p" * 1001)
    with pytest.raises(UsageError, match=f"the limit is {limits.GATE_OPERANDS} operands"):
        parse("-" * 100 + "lost < 1")
    with pytest.raises(UsageError, match=f"the limit is {limits.GATE_OPERANDS} operands"):
        parse("lost" + "+1" * 100 + " < 1")
    with pytest.raises(UsageError, match="101 gates are too many"):
        parse_all(["lost == 0"] * 101)
    assert len(parse_all(["lost == 0"] * 100)) == 100


def test_bytes_that_are_no_text_are_refused() -> None:
    """Bytes that are no text are refused, because they could not be written to the result."""
    with pytest.raises(UsageError) as caught:
        parse("p99(\udcff) < 1")
    assert str(caught.value).splitlines()[0] == "these bytes are not valid UTF-8"
    assert "\udcff" not in str(caught.value)


def test_near_words() -> None:
    """The hint names a word with a like spelling, or one that others use for the same thing."""
    assert near("maen", FUNCTIONS) == "; did you mean `mean`?"
    assert near("average", FUNCTIONS) == "; did you mean `mean`?"
    assert near("zebra", FUNCTIONS) == ""
