"""A gate once it has been read."""

from __future__ import annotations

import pytest

from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.tree import Fact, GateMetric, Number, Operation, Term, nodes


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("p99.90( ttft )<250 ms", "p99.9(ttft) < 250ms"),
        ('p99("a b"{ "k 1" = "v,1", b=/x }) < 1', 'p99("a b"{b=/x,"k 1"="v,1"}) < 1'),
        ("lost-(1-2)-3==0", "lost - (1 - 2) - 3 == 0"),
        ("(lost+1)*2<3", "(lost + 1) * 2 < 3"),
        ("lost*(2/3)<3", "lost * (2 / 3) < 3"),
        ("-(lost+1)<-3", "-(lost + 1) < -3"),
        ("--lost<3", "--lost < 3"),
        ("rate(x)>5 MiB/s", "rate(x) > 5MiB/s"),
        ("p50(x)<=baseline*1.05 in every 30 s", "p50(x) <= baseline * 1.05 in every 30s"),
        ("completeness!=lossy", "completeness != lossy"),
    ],
)
def test_a_gate_is_printed_as_it_would_be_read(text: str, printed: str) -> None:
    """A gate is printed with one spelling and the fewest parentheses, and it reads back the same."""
    gate = parse(text)
    assert str(gate) == printed
    assert parse(printed) == gate
    assert gate.text == text


def test_percentiles_are_named_without_their_letter() -> None:
    """Other functions that begin with it have none."""
    assert Term("p99.9", GateMetric("x")).percentile == "99.9"
    assert [Term(name, GateMetric("x")).percentile for name in ("max", "p", "count")] == ["", "", ""]


def test_all_parts_from_left_to_right() -> None:
    """The terms and nodes of a gate come from left to right. A gate knows whether it uses a baseline."""
    gate = parse("p99(a)/-p50(b) < baseline + count(c)")
    assert [str(term) for term in gate.terms] == ["p99(a)", "p50(b)", "count(c)"]
    assert gate.uses_baseline
    tree = Operation("+", Fact("lost"), Number("1", "ms"))
    assert [str(node) for node in nodes(tree)] == ["lost + 1ms", "lost", "1ms"]
