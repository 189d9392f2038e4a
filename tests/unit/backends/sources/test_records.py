"""Every record once and in order, from the log and from the stream together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.backends.going import Going

from telemetry.backends.sources.records import Records
from telemetry.wire.events import Mark, Note


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    made = Going(tmp_path)
    yield made
    made.die()


def taken(records: Records) -> list[int]:
    found = []
    while (record := records.peek()) is not None:
        found.append(record.seq)
        records.pop()
    return found


def say(going: Going, count: int, *, logged: bool = True) -> list[int]:
    return [record.seq for record in going.say(*[Mark("m")] * count, logged=logged)]


def test_the_log_is_followed(going: Going) -> None:
    """A reader follows the log from any record on, page after page, and as the log grows."""
    say(going, 1_200)
    records = Records(going.directory, 100)
    assert taken(records) == list(range(100, 1_200))
    say(going, 3)
    assert taken(records) == [1_200, 1_201, 1_202]
    assert (records.known, records.missed, records.next_seq) == (1_203, 0, 1_203)


def test_what_the_log_has_comes_from_there(going: Going) -> None:
    """A record that was published too is no second one."""
    records = Records(going.directory, 0)
    for record in going.say(Mark("a"), Mark("b")):
        records.offer(record)
    assert taken(records) == [0, 1]
    records.offer(going.records[1])
    assert taken(records) == []


def test_what_the_log_lacks_comes_from_the_stream(going: Going) -> None:
    """A disk that is full costs no record of who listens."""
    records = Records(going.directory, 0)
    say(going, 2)
    for record in going.say(Mark("c"), Mark("d"), logged=False):
        records.offer(record)
    assert taken(records) == [0, 1, 2, 3]
    for record in going.say(Mark("e"), logged=False):
        records.offer(record)
    assert taken(records) == [4]
    assert (records.known, records.missed) == (5, 0)


def test_a_gap_in_the_stream_is_filled_from_the_log(going: Going) -> None:
    """A gap in the stream is filled from the log, also behind records that wait."""
    records = Records(going.directory, 0)
    say(going, 1)
    assert records.peek() is not None
    say(going, 3)
    records.offer(going.records[3])
    assert taken(records) == [0, 1, 2, 3]


def test_records_that_nobody_has_are_counted(going: Going) -> None:
    """Records that are nowhere to be had are counted. Without a log only the stream is left."""
    records = Records(None, 5)
    for record in going.say(*[Note("n", "t")] * 10, logged=False)[7:]:
        records.offer(record)
    assert taken(records) == [7, 8, 9]
    assert (records.missed, records.known, records.again(7)) == (2, 10, None)


def test_damaged_lines_are_passed_over(going: Going) -> None:
    """Damaged lines are passed over, counted and reported, and all other records come."""
    say(going, 10)
    path = going.directory.records / "records.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[4] = b"x" * len(lines[4])
    path.write_bytes(b"\n".join(lines))
    records = Records(going.directory, 0)
    assert taken(records) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert records.missed == 1
    assert "line 5" in records.trouble


def test_one_that_was_taken_can_be_had_again(going: Going) -> None:
    """A record that was taken can be had again as long as the log has it."""
    say(going, 3)
    records = Records(going.directory, 3)
    found = records.again(1)
    assert found is not None
    assert found.seq == 1
    assert records.again(9) is None
