"""Conditions on a run: their text, what they make of a recorded run, and the file of what they came to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.fuzz import valid
from tests.fuzz.file_forms import Json
from tests.fuzz.file_targets import key_lines, segment, small_buffers
from tests.fuzz.memory_files import MemoryPath, folder
from tests.fuzz.target import KIB, MIB, Target, refused
from tests.fuzz.text_forms import GateText

from telemetry import limits
from telemetry.common import slo
from telemetry.common.formatting import columns
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history import RecordedRun
from telemetry.judge.gates import (
    catalog,
    check,
    evaluate,
    explain,
    functions,
    lexer,
    parser,
    resolve,
    run_evidence,
    tree,
    units,
)
from telemetry.judge.gates.check import Rules
from telemetry.judge.gates.run_evidence import RunEvidence
from telemetry.judge.gates.value import Range
from telemetry.report import FORMATS, gate_report, junit, render
from telemetry.report import gates as shown
from telemetry.store import gate_results as gates_file
from telemetry.store.gate_results import read_gates
from telemetry.store.intervals import levels
from telemetry.wire import codec
from telemetry.wire.control import SeriesKey
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, CommandFacts, CounterStat

_GATES: Final = (
    "p99(latency) < 250ms",
    "p50(size) <= 9 in every 1s",
    "rate(requests)/count(latency) < 1%",
    "p99(latency) <= baseline * 1.05",
    "p99.9(latency{route=/a}) < 2 s in every 30s",
    'count("odd name"{"odd key"="odd, \\"value\\"",route=/a}) >= 1.5k',
    "-(mean(latency{route=/a}) - min(latency)) * 2 != -3e2ms",
    "total(size)/(1 + lost/emitted) > 10k",
    "value(queue) == -(max(queue)) in every 2s",
    "rate(latency) + count(requests)/3601s >= baseline - 3/s",
    "mean(latency) < 5ms in every 1s",
    "count(size) >= 1 in every 2s",
    "rate(requests{route=/b}) <= baseline + 1k/s",
    "value(depth) > 1 in every 1s",
    "mean(size) < baseline * 1.01",
    "completeness == complete",
    "command.max_rss <= 2 GiB",
    "sum(q.failed)/value(q.issued) < 1%",
    "sum(requests) + sum(q.completed{finish=stop}) > 3 in every 1s",
    "throughput(q.latency) > 100/s",
    "throughput.loadgen(q.latency{window=w}) >= baseline * 0.95",
    "throughput.overall(q.latency) == 2",
    "goodput(q) >= 20/s",
    "attainment(q.ttft{window=w}) >= 99% in every 1s",
    "share(latency < 200ms) >= 99%",
    "share(size{route=/a} >= 5k)/2 < 1 in every 2s",
    "last(loss) < 0.1",
    "best(train/loss) <= baseline",
    "max(reward{axis=train}) - first(reward) > 2",
    "steps(train) >= 1000",
    "p99(ttft) < 200ms",
)


def _text(data: bytes) -> str:
    """Decode text as a command line does, and keep bytes that are not UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def _parsed(text: str) -> tree.Gate | None:
    """Return the gate, or None if the text is refused with a proper error."""
    try:
        return parser.parse(text)
    except UsageError as error:
        _check_error(error)
        return None


def _check_error(error: UsageError) -> None:
    """One line, or three with a caret within the second."""
    said, *rest = str(error).split("\n")
    refused(UsageError(said), 60)
    assert all(line.isprintable() for line in (said, *rest))
    if rest:
        text, caret = rest
        assert text.startswith("  ")
        assert re.fullmatch(r"  *\^+", caret)
        assert len(caret) <= max(columns(text) + 1, 3)


def run_gate(data: bytes) -> int:
    """A condition that is read is printed as it would be read again; an error says where."""
    gate = _parsed(_text(data))
    if gate is None:
        return 1
    assert gate.text == _text(data)
    printed = str(gate)
    if len(printed) <= limits.GATE_CHARS:  # it has spaces that the text may lack
        again = parser.parse(printed)
        assert again == gate
        assert str(again) == printed
    if gate.every is not None:
        assert parser.every_s(gate.every) >= 1
    for term in gate.terms:
        assert term.function in functions.FUNCTIONS or 0 < float(term.percentile) <= 100
    return 1


def run_slo(data: bytes) -> int:
    """Limits that are read are written as they would be read again."""
    try:
        by_kind = slo.parse_by_kind(_text(data))
    except UsageError as error:
        refused(error)
        return 1
    assert slo.parse_by_kind(slo.by_kind_to_text(by_kind)) == by_kind
    for found in by_kind.values():
        assert found == slo.parse(slo.to_text(found))
        assert all(0 <= limit <= 86_400 * 10**9 for limit in found.values())
        assert "e+" not in slo.describe(found)
    return 1


# --- a run ---------------------------------------------------------------------------------------


class _Folder(MemoryPath):
    """A history that is there."""

    def is_dir(self) -> bool:
        return True


def _history() -> MemoryPath:
    """Return a history of six seconds in a row and of another second far behind them."""
    seconds = (*range(6), 3_600)
    frames = []
    for at in seconds:
        begin_ns = valid.WALL_NS + at * 10**9
        interval = replace(valid.INTERVAL, start_ns=begin_ns, end_ns=begin_ns + 10**9)
        frames.append(([codec.encode_interval(interval)], at, levels.INTERVAL))
    depth = SeriesKey(index=0, name="depth", kind="gauge", unit="items")
    keys = key_lines() + msgspec.json.encode(depth) + b"\n"
    files = {"keys.jsonl": keys, "1s-0000000000-5.seg": segment(levels.MAGIC, frames)}
    return _Folder("history", entries=files)


@cache
def _run(*, lossy: bool) -> RecordedRun:
    """Instruments that share a name, and a history; `lossy`: nobody knows how much is missing."""
    directory: Any = SimpleNamespace(history=_history(), path="r")
    snapshot, requests = valid.whole_snapshot(), valid.requests_snapshot()
    other = {"route": "/b"}
    snapshot = replace(
        snapshot,
        state="COMPLETE",
        started_ns=valid.WALL_NS,
        time_ns=valid.WALL_NS + 3_601 * 10**9,
        elapsed_s=3_601.0,
        series=[*snapshot.series, replace(snapshot.series[0], labels=other), *requests.series],
        counters=[*snapshot.counters, CounterStat(name="requests", labels=other, value=1e308), *requests.counters],
        command=CommandFacts(argv=["a"], exit_code=0, wall_s=4.5, max_rss_bytes=1 << 30),
    )
    if not lossy:
        whole = Accounting(emitted=90, received=90, applied=90)
        snapshot = replace(snapshot, completeness="complete", accounting=whole)
    curves = [
        StepCurve(axis=axis.name, name=name, count=2, first=1.0, last=value, min=value, max=2.0)
        for axis in snapshot.axes
        for name, value in axis.values.items()
    ]
    return RecordedRun(Report(snapshot=snapshot, source="file", curves=curves), directory)


_NOISE: Final = {
    ("mean", "size", ()): Range(-0.05, 0.05),
    ("mean", "latency", (("route", "/a"),)): Range(-0.1, 0.12),
    ("lost", "", ()): Range(-0.2, 0.25),
}


def run_gate_check(data: bytes) -> int:
    """Check that each expression is answered, or makes no sense for what was recorded.

    Answers can be kept and read back.
    """
    gate = _parsed(_text(data))
    if gate is None:
        return 1
    size = len(data)
    baseline = RunEvidence(_run(lossy=size % 5 == 0)) if size % 3 else None
    rules = Rules(confident=size % 2 == 0, baseline=baseline, noise=_NOISE)
    with small_buffers():
        try:
            results = check.check_one(gate, RunEvidence(_run(lossy=size % 7 == 0)), rules)
        except UsageError as error:
            _check_error(error)
            return 1
    assert results
    for result in results:
        refused(UsageError(result.reason))
        assert result.reason.isprintable()
        assert result.reason
    _show(_with_run(results))
    assert read_gates(folder({gates_file.GATES: _file(results)})) == results
    return 1


# --- gates.json ----------------------------------------------------------------------------------


def _file(results: Sequence[GateResult]) -> bytes:
    return msgspec.json.encode(gates_file._GatesFile(gates=list(results)))


def _with_run(results: list[GateResult]) -> Report:
    return Report(snapshot=valid.small_snapshot(), source="file", gates=results)


def _show(report: Report) -> None:
    """Check what the commands `gate` and `run` show."""
    for text in (gate_report.gates_text(report), gate_report.gates_markdown(report)):
        assert all(line.isprintable() for line in text.split("\n"))
    for line in shown.gate_lines(report.gates).lines:
        assert line.isprintable()


def run_gates(data: bytes) -> int:
    """Check that gates that can be read can be shown, alone and in every form of a report."""
    try:
        results = read_gates(folder({gates_file.GATES: data}))
    except RunDirectoryError as error:
        refused(error)
        return 1
    made = _with_run(results)
    _show(made)
    junit.render_junit(made)
    if results and len(data) % 8 == 0:  # it takes long
        for form in FORMATS:
            text = render(made, form, width=100)
            assert form == "json" or all(
                line.isprintable() for line in text.replace("\N{NO-BREAK SPACE}", " ").split("\n")
            ), form
    return 1


def _results() -> list[bytes]:
    told = {
        "samples": 12,
        "start_s": 1.0,
        "end_s": 31.0,
        "windows": 3,
        "windows_failed": 1,
        "low": 1.5,
        "high": 9.0,
    }
    results = [
        GateResult(
            expression="p99(ttft) < 250ms", outcome="fail", reason="it is 9", value=9.0, limit=1.0, unit="ms"
        ),
        GateResult(expression="lost == 0", outcome="pass", reason="0 == 0", value=0.0, limit=0.0),
        GateResult(expression="rate(a) > 1/s", outcome="inconclusive", reason="why", unit="B/s", value=2.5, **told),  # type: ignore[arg-type]
    ]
    return [_file(results), _file(results[:1]), _file(results[2:]), _file([])]


TARGETS: Final = (
    Target(
        name="gate",
        run=run_gate,
        form=GateText(),
        seeds=lambda: [text.encode() for text in _GATES],
        covers=(parser, lexer, tree),
        head=b"p99(latency) ",
        base_bytes=256 * KIB,
        bytes_each=400,
    ),
    Target(
        name="slo",
        run=run_slo,
        form=GateText(),
        seeds=lambda: [
            b"ttft:200 tpot:50ms",
            b"chat=ttft:.2s,gap:30us e2el:1min",
            b"tps:20 llm=latency:0,corrected:7ns",
        ],
        covers=(
            slo.parse_by_kind,
            slo.parse,
            slo._words,
            slo._pairs,
            slo._limit,
            slo.by_kind_to_text,
            slo.describe,
        ),
        share=0.2,
        head=b"ttft:200 ",
        base_bytes=256 * KIB,
    ),
    Target(
        name="gate_check",
        arrays=True,
        run=run_gate_check,
        form=GateText(),
        seeds=lambda: [text.encode() for text in _GATES],
        covers=(check, evaluate, resolve, run_evidence, catalog, units, check, explain),
        head=b"p99(latency) ",
        base_bytes=16 * MIB,
        bytes_each=2_000,
        share=0.1,
    ),
    Target(
        name="gates",
        run=run_gates,
        form=Json(),
        seeds=_results,
        covers=(gates_file.read_gates, shown, gate_report, junit),
        head=b'{"gates":[{"expression":"",',
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.1,
    ),
)
