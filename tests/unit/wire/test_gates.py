"""Tests of the results of gates."""

from __future__ import annotations

import msgspec
import pytest

from telemetry.wire.gates import GateResult, Outcome, worst


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "pass"),
        (["pass"], "pass"),
        (["pass", "inconclusive"], "inconclusive"),
        (["inconclusive", "fail", "pass"], "fail"),
    ],
)
def test_the_worst_of_them(outcomes: list[Outcome], expected: Outcome) -> None:
    """A failure is worse than what nobody can tell."""
    results = [GateResult(expression="", outcome=outcome, reason="") for outcome in outcomes]
    assert worst(results) == expected


def test_a_result_is_strict_json() -> None:
    """A result is strict JSON, with null for what there is not."""
    result = GateResult(expression="lost == 0", outcome="pass", reason="0 == 0", value=0.0)
    found = msgspec.json.decode(msgspec.json.encode(result))
    assert (found["value"], found["low"], found["windows"]) == (0.0, None, 0)
    assert msgspec.json.decode(msgspec.json.encode(result), type=GateResult) == result
