"""Records and readings make one sequence, of which nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.backends.going import LATENCY, PERCENTILES, Going, closed, keys

from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records
from telemetry.backends.sources.sequence import Sequence
from telemetry.backends.sources.snapshots import window_reading
from telemetry.backends.sources.source import Position
from telemetry.errors import RunDirectoryError
from telemetry.history.interval_source import DiskIntervals
from telemetry.testing.builders import WALL_NS


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    made = Going(tmp_path)
    yield made
    made.die()


def sequence(going: Going, position: Position | None = None) -> Sequence:
    position = position or Position()
    past = DiskIntervals(going.directory.history)
    readings = HistoryReadings(past, WALL_NS, 2.0, PERCENTILES, position.reading_until_ns)
    return Sequence(Records(going.directory, position.next_record), readings, position)


def play(going: Going, seconds: int) -> None:
    for second in range(seconds):
        going.say(closed(second))
        going.second((LATENCY, 1.0))


def test_no_more_than_asked_for(going: Going) -> None:
    """A call takes at most as many items as it asks for, and each item has the position after it."""
    play(going, 4)
    of = sequence(going)
    first = of.take(2, last=True)
    assert keys(first) == ["r0", "r1"]
    assert first[0].position == Position(next_record=1)
    assert of.position == first[1].position == Position(next_record=2)
    assert [key[0] for key in keys(of.take(10, last=True))] == ["t", "r", "r", "t"]
    assert of.take(10, last=True) == []


def test_what_was_taken_is_handed_out_before_an_error(going: Going, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items taken before an error are handed out first.

    Otherwise they would be lost, as the position is behind them.
    """
    play(going, 1)
    of = sequence(going)
    monkeypatch.setattr(Records, "_read", _once(Records._read))
    assert keys(of.take(10, last=False)) == ["r0"]
    with pytest.raises(RunDirectoryError):
        of.take(10, last=False)


def test_the_rest_of_a_history_can_be_had_before_it_is_gone(going: Going) -> None:
    """A prepared sequence has the rest of a history before it is gone.

    A reader on another machine can't ask for it afterwards.
    """
    play(going, 3)
    of = sequence(going)
    of.prepare()
    (going.directory.history / "keys.jsonl").unlink()
    assert [key[0] for key in keys(of.take(10, last=True))] == ["r", "r", "t", "r", "t"]
    assert of.notes() == []


def test_readings_from_elsewhere_come_once(going: Going) -> None:
    """Readings from elsewhere come once: a moment that was read before brings no other reading."""
    play(going, 1)
    of = Sequence(Records(None, 0), None, Position(reading_until_ns=WALL_NS + 10**9))
    for elapsed_s in (1.0, 2.0, 2.0, 3.0):
        of.add_reading(window_reading(going.snapshot(), elapsed_s))
    assert [read.position.reading_until_ns - WALL_NS for read in of.take(10, last=False)] == [2 * 10**9, 3 * 10**9]


def test_the_result_comes_once(going: Going) -> None:
    """The result comes once, also if an earlier process had it."""
    result = going.end()
    of = sequence(going)
    assert keys(of.conclude(result, live=False)) == ["final"]
    assert of.conclude(result, live=True) == []
    assert sequence(going, of.position).conclude(result, live=True) == []


def test_what_is_said_is_said_once(going: Going) -> None:
    """However often it happens."""
    of = sequence(going)
    for words in ("a", "b", "a"):
        of.say(words)
    assert of.notes() == ["a", "b"]
    of.say("a")
    of.say("c")
    assert of.notes() == ["c"]


def test_records_are_had_again_as_items(going: Going) -> None:
    """Records are had again as items by their number."""
    play(going, 2)
    item = sequence(going).again(1)
    assert item is not None
    assert item.key == "r1"
    assert sequence(going).again(7) is None


def _once(read):  # type: ignore[no-untyped-def]
    """The first call works, the others can't read."""
    calls = []

    def reading(self):  # type: ignore[no-untyped-def]
        calls.append(self)
        if len(calls) > 1:
            raise RunDirectoryError("the disk is gone")
        return read(self)

    return reading


def test_what_nobody_has_is_missed_where_it_would_have_been(going: Going) -> None:
    """An item before a damaged record knows nothing of it, also if it has been looked at; the ones after it do."""
    play(going, 4)
    path = going.directory.records / "records.jsonl"
    lines = path.read_bytes().split(b"\n")
    for number in (2, 3):
        lines[number] = b"x" * len(lines[number])
    path.write_bytes(b"\n".join(lines))
    of = sequence(going)
    found = of.take(10, last=True)
    assert [key[0] for key in keys(found)] == ["r", "t", "r", "t"]
    assert [dict(read.left_out) for read in found] == [{}, {}, {"missed": 2}, {"missed": 2}]
    assert [read.position.next_record for read in found] == [1, 1, 4, 4]
