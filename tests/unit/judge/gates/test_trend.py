"""Tests of which way the left side of a gate can move while a run goes on."""

from __future__ import annotations

import pytest
from tests.unit.judge.gates.fakes import ERRORS, HEAT, REQUESTS, TTFT

from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.watch import cannot_recover, gone_beyond, trend
from telemetry.wire.gates import GateResult

KNOWN = [TTFT, ERRORS, REQUESTS, HEAT]


@pytest.mark.parametrize(
    ("left", "way"),
    [
        ("value(errors)", 1),
        ("value(heat)", 0),
        ("value(nobody)", 0),
        ("sum(errors)", 1),
        ("count(ttft)", 1),
        ("max(ttft)", 1),
        ("p100(ttft)", 1),
        ("total(ttft)", 1),
        ("min(ttft)", -1),
        ("p99(ttft)", 0),
        ("rate(errors)", 0),
        ("lost", 1),
        ("missing", 0),
        ("elapsed", 1),
        ("command.exit_code", 0),
        ("-lost", -1),
        ("value(errors) + value(requests)", 2),
        ("value(errors) - value(requests)", 0),
        ("value(errors) / value(requests)", 0),
        ("value(errors) * 2", 1),
        ("2 * value(errors)", 1),
        ("value(errors) * -2", -1),
        ("value(errors) * 0", 0),
        ("value(errors) / 60", 1),
        ("60 / value(errors)", 0),
        ("5 - lost", -1),
        ("lost - 5", 1),
    ],
)
def test_what_only_grows_and_what_only_falls(left: str, way: int) -> None:
    """Anything else may turn."""
    found = trend(parse(f"{left} < 1").left, KNOWN)
    assert (found > 0) - (found < 0) == (way > 0) - (way < 0)


@pytest.mark.parametrize(
    ("gate", "final"),
    [
        ("value(errors) < 5", True),
        ("value(errors) <= 5", True),
        ("value(errors) == 0", True),
        ("value(errors) != 0", False),
        ("sum(errors) < 5", True),
        ("sum(errors) + sum(requests) < 5", True),
        ("sum(errors) + value(requests) < 5", False),
        ("value(errors) > 5", False),
        ("min(ttft) > 5ms", True),
        ("min(ttft) < 5ms", False),
        ("min(ttft) == 5ms", False),
        ("lost <= baseline", True),
        ("value(errors) < value(requests)", False),
        ("p99(ttft) < 5ms", False),
    ],
)
def test_beyond_a_limit_that_stands_still(gate: str, final: bool) -> None:
    """A gate can't pass any more only if its left side is beyond a limit that stands still."""
    assert cannot_recover(parse(gate), KNOWN) is final


def test_what_grows_towards_a_number_is_not_beyond_it() -> None:
    """`count == 1000` fails at 10 and is lost at 1,001."""
    for value, beyond in ((10.0, False), (1001.0, True), (None, False)):
        result = GateResult(expression="", outcome="fail", reason="", value=value, limit=1000.0)
        assert gone_beyond(parse("count(ttft) == 1000"), result) is beyond
        assert gone_beyond(parse("count(ttft) < 1000"), result)
