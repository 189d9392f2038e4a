"""Spans by producer, from a record log."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry import limits
from telemetry.history.run import span_spreads
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Mark, Span, StreamRecord
from telemetry.wire.version import PROTOCOL

MS = 1_000_000


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path, "job", "r1", 10**18)
    records = [
        ("a", Span("step", 0, 2 * MS)),
        ("a", Span("step", 2 * MS, 5 * MS)),
        ("b", Mark("between")),
        ("b", Span("step", 0, 9 * MS)),
        ("c", Span("step", 0, 1 * MS)),
        ("a", Span("alone", 0, 1 * MS)),
    ]
    log = RecordLog(made.records)
    log.append([StreamRecord(PROTOCOL, "r1", seq, key, 10**18, one) for seq, (key, one) in enumerate(records)])
    log.close()
    return made


def test_totals_are_compared_by_producer(run: RunDirectory) -> None:
    """A span of a single producer has no spread."""
    [found] = span_spreads(run)
    assert (found.name, found.producers, found.mean_ms) == ("step", 3, 5.0)
    assert (found.least, found.least_ms, found.most, found.most_ms) == ("c", 1.0, "b", 9.0)


def test_a_damaged_line_costs_its_record_only(run: RunDirectory) -> None:
    """The others count."""
    path = run.records / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"9000000", b"9900000")
    path.write_bytes(b"".join(lines))
    [found] = span_spreads(run)
    assert (found.producers, found.most, found.most_ms) == (2, "a", 5.0)


def test_a_large_log_is_not_read(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report takes no minutes."""
    monkeypatch.setattr(limits, "READ_SPANS_BYTES", 100)
    assert span_spreads(run) == []


def test_without_a_log_there_is_nothing(tmp_path: Path) -> None:
    """A run directory without a span log gives no spreads and no error."""
    assert span_spreads(RunDirectory.create(tmp_path, "job", "r1", 10**18)) == []
