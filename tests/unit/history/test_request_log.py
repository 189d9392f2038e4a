"""Requests read back from the log of a run, with the tokens that came later."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from telemetry.history.findings import findings
from telemetry.history.request_log import RequestLog, RequestLogFacts, facts, read
from telemetry.store.final_snapshot import write_final
from telemetry.store.request_log import FILE_NAME, RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import ended
from telemetry.wire.control import TOKEN_COUNTER
from telemetry.wire.report import Report
from telemetry.wire.request_log import LoggedRecords, RequestTokens
from telemetry.wire.snapshot import MetricsSnapshot, RequestLogStat


def logged(directory: RunDirectory, *frames: tuple[str, Sequence[Any]], first: int = 0) -> Path:
    log = RequestLogWriter(directory.requests, resume=True)
    log.append(
        [
            LoggedRecords(producer, 1_000, 7, [Raw(msgspec.msgpack.encode(record)) for record in records])
            for producer, records in frames
        ],
        first,
    )
    log.close()
    return directory.requests / FILE_NAME


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def test_requests_come_with_their_kind_and_clock(run: RunDirectory) -> None:
    """Requests are in the order of the file, and their times plus the shift are wall clock times."""
    logged(run, ("p", [ended(range(2)), ended([2], kind="embed", labels={"m": "a"})]), ("q", [ended([0])]))
    found = list(read(run))
    assert [(one.producer, one.kind, one.labels, one.entry.number) for one in found] == [
        ("p", "llm", {}, 0),
        ("p", "llm", {}, 1),
        ("p", "embed", {"m": "a"}, 2),
        ("q", "llm", {}, 0),
    ]
    assert {(one.offset_ns, one.shift_ns) for one in found} == {(1_000, 1_007)}
    assert found[0].entry == ended([0]).entries[0]


def test_tokens_that_came_later_are_filled_in(run: RunDirectory) -> None:
    """Tokens are filled in by producer, number and word, wherever they are. A program's own numbers stay."""
    unknown = ended(range(3))
    unknown = replace(unknown, entries=[replace(entry, output_tokens=None) for entry in unknown.entries])
    logged(
        run,
        ("p", [unknown]),
        ("q", [unknown, replace(ended([3]), left_out=0)]),
        (
            TOKEN_COUNTER,
            [
                RequestTokens("p", 2, "output_tokens", 22),
                RequestTokens("p", 0, "output_tokens", 20.5),
                RequestTokens("p", 0, "input_tokens", 5),
                RequestTokens("q", 1, "output_tokens", 31),
                RequestTokens("q", 3, "output_tokens", 99),
                RequestTokens("gone", 1, "output_tokens", 99),
            ],
        ),
    )
    found = [(one.producer, one.entry.number, one.entry.input_tokens, one.entry.output_tokens) for one in read(run)]
    assert found == [
        ("p", 0, 5, 20.5),
        ("p", 1, None, None),
        ("p", 2, None, 22),
        ("q", 0, None, None),
        ("q", 1, None, 31),
        ("q", 2, None, None),
        ("q", 3, None, 1),
    ]
    assert [type(tokens) for *_, tokens in found[:3]] == [float, type(None), int]


def test_a_damaged_end_is_told(run: RunDirectory) -> None:
    """The requests before it are read; a half frame, as of a run that is writing, is no damage."""
    path = logged(run, ("p", [ended([0])]), ("p", [ended([1])]))
    log = RequestLog(run)
    os.truncate(path, path.stat().st_size - 3)
    assert [one.entry.number for one in log] == [0]
    assert log.damage == ""
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    assert list(log) == []
    assert log.damage.startswith("can't read ")
    assert log.damage.endswith(f"bytes at the end of {path}: the requests there are left out")


def test_a_record_of_a_newer_version_is_passed_over(run: RunDirectory) -> None:
    """The other records of its frame are read."""
    log = RequestLogWriter(run.requests)
    new, known = Raw(msgspec.msgpack.encode(["new", 1])), Raw(msgspec.msgpack.encode(ended([0])))
    log.append([LoggedRecords("p", 0, 0, [new, known])], 0)
    log.close()
    assert [one.entry.number for one in read(run)] == [0]


def test_facts_are_those_of_the_result(run: RunDirectory) -> None:
    """Facts without a result are counted, and a log without requests has none."""
    assert facts(run) is None
    path = logged(run, ("p", [replace(ended(range(3)), left_out=2)]))
    size = path.stat().st_size
    lacks = "the request log lacks 2 of 5 requests: their programs could not send them in time"
    assert facts(run) == RequestLogFacts(3, 2, size, lacks)
    stat = RequestLogStat(kept=1_200, left_out=2_210, cap_bytes=1 << 28)
    write_final(MetricsSnapshot(run_id="r", name="n", state="COMPLETE", request_log=stat), [run.final])
    first = "the request log has the first 1,200 of 3,410 requests: it is full (run.request_log_cap, 256 MiB)"
    assert facts(run) == RequestLogFacts(1_200, 2_210, size, first)


@pytest.mark.parametrize(
    ("stat", "said"),
    [
        (None, []),
        (RequestLogStat(kept=5), []),
        (
            RequestLogStat(kept=1, left_out=1, cap_bytes=1 << 20),
            ["the request log has the first 1 of 2 requests: it is full (run.request_log_cap, 1.00 MiB)"],
        ),
    ],
)
def test_a_report_says_once_what_the_log_lacks(stat: RequestLogStat | None, said: list[str]) -> None:
    """A run whose log has everything says nothing."""
    snapshot = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", completeness="complete", request_log=stat)
    found = findings(Report(snapshot=snapshot, source="file"), None)
    assert [line for line in found if "request log" in line] == said
