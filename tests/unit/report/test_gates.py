"""Tests of the results of gates as text and Markdown."""

from __future__ import annotations

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.common.wording import gate_evidence
from telemetry.report import render_as
from telemetry.report.gates import gate_lines, tally
from telemetry.report.markdown import escape
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report

PASS = GateResult(
    expression="p99(ttft) < 250ms",
    outcome="pass",
    reason="212 ms < 250 ms",
    value=212.0,
    limit=250.0,
    unit="ms",
    low=205.0,
    high=219.0,
    samples=10_000,
)
FAIL = GateResult(
    expression="value(errors|`x`) == 0\x1b", outcome="fail", reason="3 is not == 0", value=3.0, limit=0.0
)
UNCLEAR = GateResult(
    expression="p99.99(ttft) < 1s", outcome="inconclusive", reason="1 value is too few", low=1.0, samples=1
)


def _report(*gates: GateResult) -> Report:
    return replace(stored_report(), gates=list(gates))


def test_what_failed_comes_first() -> None:
    """A line each."""
    section = gate_lines([PASS, UNCLEAR, FAIL])
    assert section.lines == [
        "fail: value(errors|`x`) == 0\\x1b · 3 is not == 0",
        "inconclusive: p99.99(ttft) < 1s · 1 value is too few (95 %: 1 to –, 1 value)",
        "pass: p99(ttft) < 250ms · 212 ms < 250 ms (95 %: 205 ms to 219 ms, 10,000 values)",
    ]
    assert not gate_lines([])


def test_units_from_a_file_are_no_more_than_text() -> None:
    """Control characters in a unit are escaped, because the units in `gates.json` are not checked."""
    odd = [replace(PASS, unit=unit) for unit in ("\x1b[2J", "a\nb", "\x1b/s")]
    assert [gate_evidence(result) for result in odd] == [
        "95 %: 205 \\x1b[2J to 219 \\x1b[2J, 10,000 values",
        "95 %: 205 a\\nb to 219 a\\nb, 10,000 values",
        "95 %: 205/s to 219/s, 10,000 values",
    ]
    assert gate_lines(odd).lines[0].isprintable()


def test_thousands_of_label_sets_are_not_thousands_of_lines() -> None:
    """JSON has all of them."""
    lines = gate_lines([PASS] * 150).lines
    assert len(lines) == 101
    assert lines[-1] == "pass: 50 more in the JSON form"


def test_text() -> None:
    """The worst outcome and the run first; colours only where they are wanted."""
    report = _report(PASS, FAIL)
    assert render_as("gates", report, span="\n") == (
        f"fail: 1 fail, 1 pass · {report.headline()}\\n\n"
        "  fail  value(errors|`x`) == 0\\x1b\n"
        "      3 is not == 0\n"
        "  pass  p99(ttft) < 250ms\n"
        "      212 ms < 250 ms (95 %: 205 ms to 219 ms, 10,000 values)\n"
    )
    assert "\x1b[1;31mfail\x1b[0m" in render_as("gates", _report(FAIL), color=True)


def test_markdown() -> None:
    """A table whose cells nothing breaks out of."""
    report = _report(PASS, FAIL)
    assert render_as("gates", report, "md").splitlines() == [
        f"**fail: 1 fail, 1 pass** · {escape(report.headline())}",
        "",
        "| outcome | gate | why | evidence |",
        "|---|---|---|---|",
        "| fail | `value(errors\\|'x') == 0\\x1b` | 3 is not == 0 |  |".replace("'x'", "'x'"),
        "| pass | `p99(ttft) < 250ms` | 212 ms \\< 250 ms | 95 %: 205 ms to 219 ms, 10,000 values |",
    ]


def test_evidence_in_its_unit() -> None:
    """Shares, rates and plain numbers have theirs."""
    share = GateResult(expression="", outcome="pass", reason="", unit="%", low=0.5, high=1.5)
    rate = GateResult(expression="", outcome="pass", reason="", unit="B/s", low=1024.0, high=2048.0)
    assert gate_evidence(share) == "95 %: 0.5 % to 1.50 %"
    assert gate_evidence(rate) == "95 %: 1.00 KiB/s to 2.00 KiB/s"
    assert gate_evidence(FAIL) == ""
    assert tally([]) == "none"
