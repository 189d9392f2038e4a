"""The report as JUnit XML: a test case for each gate, one for completeness, and one for the command."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.common.wording import failure
from telemetry.report.brief import alarms
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report

_ENDED: Final = {"lossy", "incomplete", "interrupted"}
_SUITE: Final = "telemetry"


def render_junit(report: Report) -> str:
    """Return one XML document, ending with a newline.

    An inconclusive gate is skipped, and so is the completeness of a live run. Characters that are invalid in XML
    become visible escapes.
    """
    snapshot = report.snapshot
    cases = list(_cases(report))
    suite = _element("testsuite", name=snapshot.name or _SUITE, tests=len(cases))
    for outcome, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(outcome) is not None for case in cases)))
    suite.set("time", f"{snapshot.elapsed_s:.3f}" if math.isfinite(snapshot.elapsed_s) else "0")
    moment = formatting.timestamp(snapshot.started_ns)
    if snapshot.started_ns and moment != formatting.NOTHING:
        suite.set("timestamp", moment.removesuffix(" UTC").replace(" ", "T"))
    properties = SubElement(suite, "properties")
    for name, value in _properties(report).items():
        properties.append(_element("property", name=name, value=value))
    suite.extend(cases)
    counts = {name: suite.get(name, "0") for name in ("tests", "failures", "errors", "time")}
    root = _element("testsuites", name=_SUITE, **counts)
    root.append(suite)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _cases(report: Report) -> Iterator[Element]:
    whole = _element("testcase", classname=f"{_SUITE}.completeness", name="the result is complete", time=0)
    if report.verdict in _ENDED:
        whole.append(_said("failure", report.headline(), report.verdict))
    elif report.verdict != "complete":
        whole.append(_said("skipped", f"the run is still going: {report.headline()}"))
    yield whole
    command = report.snapshot.command
    failed = failure(report.snapshot)
    if failed or (command is not None and command.exit_code is not None):
        case = _element("testcase", classname=f"{_SUITE}.command", name="the command succeeded", time=0)
        if failed:
            case.append(_said("failure", next(alarms(report)), "command"))
        yield case
    for gate in report.gates:
        yield _gate(gate)


def _gate(gate: GateResult) -> Element:
    case = _element("testcase", classname=f"{_SUITE}.gates", name=gate.expression, time=0)
    if gate.outcome == "fail":
        case.append(_said("failure", gate.reason, "gate"))
    elif gate.outcome == "inconclusive":
        case.append(_said("skipped", f"inconclusive: {gate.reason}"))
    else:
        case.append(_element("system-out", gate.reason))
    return case


def _said(tag: str, message: str, kind: str = "") -> Element:
    """Return an element with its message both as attribute and as text: some readers show only one of them."""
    element = _element(tag, message, message=message)
    if kind:
        element.set("type", kind)
    return element


def _properties(report: Report) -> Mapping[str, str]:
    snapshot = report.snapshot
    properties = {
        "run_id": snapshot.run_id,
        "verdict": report.verdict,
        "headline": report.headline(),
        "directory": snapshot.directory,
    }
    if report.time_range is not None:
        properties |= {"start_s": f"{report.time_range.start_s:g}", "end_s": f"{report.time_range.end_s:g}"}
    return {name: value for name, value in properties.items() if value}


def _element(tag: str, text: str = "", **attributes: str | int) -> Element:
    element = Element(tag, {name: printable(str(value)) for name, value in attributes.items()})
    element.text = printable(text) or None
    return element
