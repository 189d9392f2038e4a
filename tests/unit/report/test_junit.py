"""JUnit XML as the usual readers demand it."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.golden.report.renderings import stored_report

from telemetry.report.junit import render_junit
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot

ATTRIBUTES = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"disabled"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"timestamp", "hostname", "id", "package"},
    ),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"status", "assertions"}),
    "failure": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}
"""Element → attributes it has, and those it may have: the strictest of the schemas in use."""
CHILDREN = {
    "testsuites": r"(testsuite )+",
    "testsuite": r"(properties )?(testcase )*",
    "properties": r"(property )+",
    "testcase": r"(failure |skipped |system-out )?",
}
"""Element → what is in it, in this order."""


def check_shape(element: ElementTree.Element) -> None:
    needed, allowed = ATTRIBUTES[element.tag]
    assert needed <= set(element.keys()) <= needed | allowed, element.tag
    assert re.fullmatch(CHILDREN.get(element.tag, ""), "".join(f"{child.tag} " for child in element)), element.tag
    for name in ("tests", "failures", "errors", "skipped"):
        assert re.fullmatch(r"\d+", element.get(name, "0"))
    assert re.fullmatch(r"\d+(\.\d+)?", element.get("time", "0"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", element.get("timestamp", "2026-03-01T12:00:00"))
    for child in element:
        check_shape(child)


def suite(report: Report) -> ElementTree.Element:
    root = ElementTree.fromstring(render_junit(report))
    check_shape(root)
    (found,) = root
    return found


def report(*gates: GateResult, **facts: object) -> Report:
    snapshot = MetricsSnapshot(**({"run_id": "r", "name": "n", "state": "COMPLETE"} | facts))  # type: ignore[arg-type]
    return Report(snapshot=snapshot, source="file", gates=list(gates))


def test_gates_and_completeness_are_cases() -> None:
    """A gate that failed is a failure, one without an answer is skipped, one that passed says by how much."""
    found = suite(stored_report())
    assert {name: found.get(name) for name in ("tests", "failures", "errors", "skipped", "timestamp")} == {
        "tests": "5",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
        "timestamp": "2026-03-01T12:00:00",
    }
    outcomes = {case.get("name"): [child.tag for child in case] for case in found.findall("testcase")}
    assert outcomes == {
        "the result is complete": ["failure"],
        "the command succeeded": [],
        "p99(latency) < 10ms": ["system-out"],
        "p99.9(latency) < 15ms in every 30s": ["failure"],
        "p99(first_byte) <= baseline * 1.05": ["skipped"],
    }


@pytest.mark.parametrize(
    ("facts", "tags"),
    [
        ({"completeness": "complete"}, []),
        ({"completeness": "lossy"}, ["failure"]),
        ({"completeness": "interrupted", "state": "INTERRUPTED"}, ["failure"]),
    ],
)
def test_only_a_complete_result_passes(facts: dict[str, object], tags: list[str]) -> None:
    """A result that is not complete fails, so that a reader knows that numbers are missing."""
    case = suite(report(**facts)).find("testcase")
    assert case is not None
    assert [child.tag for child in case] == tags


def test_a_command_is_a_case() -> None:
    """A command is a case once it has ended. A run without a command has no such case."""

    def tags(**facts: Any) -> list[list[str]]:
        command = CommandFacts(argv=["x"], **facts)
        cases = suite(report(completeness="complete", command=command)).findall("testcase")
        return [[child.tag for child in case] for case in cases if case.get("classname") == "telemetry.command"]

    assert tags(exit_code=0) == [[]]
    assert tags(exit_code=3) == tags(signal="SIGKILL") == [["failure"]]
    assert tags() == []
    assert len(suite(report(completeness="complete")).findall("testcase")) == 1


def test_a_run_that_goes_on_is_skipped() -> None:
    """A live run is skipped, because it has not failed yet."""
    live = Report(snapshot=MetricsSnapshot(run_id="r", name="n", state="LIVE"), source="status")
    case = suite(live).find("testcase")
    assert case is not None
    assert [child.tag for child in case] == ["skipped"]


def test_what_xml_has_no_place_for_stays_visible() -> None:
    """Control characters, surrogates and markup from outside leave the document whole."""
    name = "a\x00b\x1b[1m<c>&\"'\ud800\ufffe\n]]>"
    gate = GateResult(expression=name, outcome="fail", reason=name)
    found = suite(report(gate, name=name, completeness="complete"))
    shown = "a\\x00b\\x1b[1m<c>&\"'\\ud800\\ufffe\\n]]>"
    assert found.get("name") == shown
    failure = found.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == (shown, shown)
    assert all(line.isprintable() for line in render_junit(report(gate)).split("\n"))
