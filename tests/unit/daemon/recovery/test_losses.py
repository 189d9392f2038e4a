"""Tests of the warnings about a journal that was not read to its end, and about incomplete files."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.backfill import file_losses, journal_losses
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.store.framing import frame
from telemetry.store.journal import BATCH, JournalReader, JournalWriter
from telemetry.wire.journal import RunState

SECOND_NS = 10**9
NOON_NS = 1_772_366_400 * SECOND_NS


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    run = RunState(
        run_id="r", name="job", started_ns=NOON_NS, started_mono_ns=0, rolled_wall_ns=NOON_NS, rolled_mono_ns=0
    )
    writer = JournalWriter(tmp_path, Numbers(Aggregator(AggregatorConfig()), run).checkpoint(), 0)
    writer.note([b"of a newer version"], SECOND_NS)
    writer.note([b"another"], 2 * SECOND_NS)
    writer.close()
    return tmp_path / "00000000.seg"


def said(path: Path) -> list[str]:
    fold = Fold(JournalReader(path.parent))
    for entry in fold.entries():
        fold.apply(entry)
    return list(journal_losses(fold))


def test_a_torn_end(journal: Path) -> None:
    """The bytes of a torn end are counted; only the data that was being written is lost."""
    with journal.open("ab") as file:
        file.write(b"".join(frame([b"x" * 2_000], 3 * SECOND_NS, BATCH))[:1_234])
    assert said(journal) == [
        "the journal ended with 1,234 incomplete bytes, which are skipped",
        "2 notes of the journal are from a newer version and skipped",
    ]


def test_a_damaged_end(journal: Path) -> None:
    """The warning names the bytes that are left out and the time after which events are missing."""
    data = bytearray(journal.read_bytes())
    data[-1] ^= 1
    journal.write_bytes(data + bytes(20_000))
    lost, _ = said(journal)
    assert re.fullmatch(
        r"20,\d\d\d bytes at the end of the journal are damaged and skipped: "
        r"events after 2026-03-01 12:00:01 UTC are not in the result",
        lost,
    )


def test_one_is_singular(journal: Path) -> None:
    """A byte, a note, a second, a record."""
    with journal.open("ab") as file:
        file.write(b"".join(frame([b"x"], 3 * SECOND_NS, BATCH))[:1])
    assert said(journal)[0] == "the journal ended with 1 incomplete byte, which is skipped"
    filler: Any = SimpleNamespace(
        history=None,
        records=None,
        requests=None,
        lost_seconds=1,
        lost_records=1,
        lost_logged=1,
        unjournaled_records=lambda fold: 1,
    )
    none: Any = None
    assert list(file_losses(none, filler)) == [
        "1 second of the history is lost",
        "1 record of the stream is lost",
        "1 batch of the request log is lost",
        "the journal lost 1 record that the record log has; records that were sent again appear in it twice",
    ]
    one: Any = SimpleNamespace(
        reader=SimpleNamespace(tail_damaged=True, tail_bytes=1, damaged=False),
        numbers=SimpleNamespace(wall_ns=lambda _: 0),
        now_ns=0,
        unreadable=1,
    )
    damaged, newer = journal_losses(one)
    assert damaged.startswith("1 byte at the end of the journal is damaged and skipped: ")
    assert newer == "1 note of the journal is from a newer version and skipped"


def test_files_that_lack_something() -> None:
    """Each lack is a line with its number."""
    filler: Any = SimpleNamespace(
        history=SimpleNamespace(failed="full", notices=["it passed its cap"]),
        records=SimpleNamespace(failed=""),
        requests=SimpleNamespace(failed="full too"),
        lost_seconds=1_000,
        lost_records=2,
        lost_logged=3,
        unjournaled_records=lambda fold: 3,
    )
    fold: Any = None
    assert list(file_losses(fold, filler)) == [
        "can't write the history: full",
        "can't write the request log: full too",
        "it passed its cap",
        "1,000 seconds of the history are lost",
        "2 records of the stream are lost",
        "3 batches of the request log are lost",
        "the journal lost 3 records that the record log has; records that were sent again appear in it twice",
    ]
