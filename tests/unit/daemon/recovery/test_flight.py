"""The flight recording: the last seconds of a journal, value by value, and no more than its bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.trace_checker import problems

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.flight import FlightRecording, record_flight
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import RunDirectoryError
from telemetry.store.journal import JournalWriter, segment_files
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import FakeClock, frame
from telemetry.wire.control import Hello
from telemetry.wire.events import Count, Define, EventRecord, Gauge, Mark, Sample, Span
from telemetry.wire.journal import RunState

NS = 10**9
DEFINITIONS = (
    Define(0, "latency", "series", "ms", {"route": "/a"}),
    Define(1, "requests", "counter"),
    Define(2, "temperature", "gauge", "°C"),
)


class Run:
    """A run that writes its journal on a clock of its own, one batch a turn."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        now_ns, wall_ns = self.clock.monotonic_ns(), self.clock.wall_ns()
        self.directory = RunDirectory.create(root, "job", "r1", wall_ns)
        self.started_ns = now_ns
        run = RunState(
            run_id="r1", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        self.numbers = Numbers(Aggregator(AggregatorConfig()), run)
        self.journal = JournalWriter(self.directory.journal, self.numbers.checkpoint(), now_ns)
        self.book = WriteAheadLog(self.numbers, self.journal, self.clock, now_ns)
        self._sent: dict[str, tuple[int, int]] = {}

    def send(self, producer: str, *records: EventRecord, rows: list[tuple[float, float]] | None = None) -> None:
        """Apply a batch whose rows (id, value) have the time now."""
        now_ns = self.clock.monotonic_ns()
        seq, first = self._sent.get(producer, (0, 0))
        timed = [(row_id, now_ns, value) for row_id, value in rows or []]
        events = len(timed) + sum(not isinstance(record, Define) for record in records)
        self._sent[producer] = (seq + 1, first + events)
        anchor = (now_ns, self.clock.wall_ns())
        self.book.turn([bytes(frame(producer, seq, first, rows=timed, records=records, anchor=anchor))])

    def go(self, producer: str = "p", seconds: int = 60) -> None:
        """Record three values a second, which are the second. Each ten seconds have a segment."""
        for second in range(seconds):
            if second % 10 == 9:
                self.journal.begin(self.numbers.checkpoint(), self.book.stamp())
            records = DEFINITIONS if second == 0 else ()
            self.send(producer, *records, rows=[(0, second), (1, second), (2, -second)])
            self.clock.advance(1.0)

    def record(self, seconds: float) -> FlightRecording:
        """Return a recording that the strict checker accepts."""
        found = record_flight(self.directory, seconds, self.clock.monotonic_ns(), "a test")
        assert problems(found.trace) == []
        return found


def events(found: FlightRecording, kind: str, name: str) -> list[dict[str, Any]]:
    return [one for one in json.loads(found.trace)["traceEvents"] if (one["ph"], one["name"]) == (kind, name)]


def values(found: FlightRecording, name: str) -> list[float]:
    return [next(iter(one["args"].values())) for one in events(found, "C", name)]


def facts(found: FlightRecording) -> dict[str, Any]:
    return dict(json.loads(found.trace)["otherData"])


def test_the_last_seconds_have_every_value_and_older_ones_are_absent(tmp_path: Path) -> None:
    """Definitions came long before, in segments that are not read: the checkpoint knows them."""
    run = Run(tmp_path)
    run.go()
    assert len(segment_files(run.directory.journal)) > 3
    found = run.record(5.0)
    assert values(found, "latency{route=/a} (ms)") == [55, 56, 57, 58, 59]
    assert values(found, "requests") == [55, 56, 57, 58, 59]
    assert values(found, "temperature (°C)") == [-55, -56, -57, -58, -59]
    assert [one["ts"] for one in events(found, "C", "requests")] == [second * 1e6 for second in range(55, 60)]
    assert events(found, "C", "requests")[0]["args"] == {"increment": 55.0}
    assert (found.values, found.records, found.left_out) == (15, 0, 0)
    assert facts(found) == {
        "start_unix_ns": 1_700_000_000 * NS,
        "run_id": "r1",
        "run": "job",
        "reason": "a test",
        "seconds": 5.0,
        "until_unix_ns": 1_700_000_060 * NS,
    }


def test_a_recording_may_be_longer_than_the_run(tmp_path: Path) -> None:
    """Or than what is left of its journal."""
    run = Run(tmp_path)
    run.go()
    assert values(run.record(600.0), "requests") == list(range(60))
    segment_files(run.directory.journal)[0].unlink()
    left = values(run.record(600.0), "requests")
    assert left == list(range(60))[-len(left) :]
    assert 0 < len(left) < 60


def test_spans_and_marks_of_the_last_seconds(tmp_path: Path) -> None:
    """A span counts by its end: one that began long ago is there, one that ended before is not."""
    run = Run(tmp_path)
    hello = Hello(producer="p", name="train", host="here", pid=7, rank=3)
    assert run.book.hello(hello) == ""
    run.clock.advance(60.0)
    now_ns = run.clock.monotonic_ns()
    run.send("p", Mark("early", now_ns - 50 * NS), Mark("late", now_ns - NS, {"a": "b"}))
    run.send("p", Span("gone", now_ns - 50 * NS, now_ns - 40 * NS), Span("long", now_ns - 50 * NS, now_ns - NS))
    run.clock.advance(1.0)
    found = run.record(10.0)
    assert [one["dur"] for one in events(found, "X", "long")] == [49e6]
    assert [one["args"] for one in events(found, "i", "late")] == [{"a": "b"}]
    assert events(found, "X", "gone") == events(found, "i", "early") == []
    assert found.records == 2
    names = {one["args"]["name"] for one in events(found, "M", "process_name")}
    assert names == {"run", "rank 3 · train (7 on here)"}


def test_values_that_describe_themselves_and_those_of_two_producers(tmp_path: Path) -> None:
    """Each is on the track of its own process, also if both arrive in one turn."""
    run = Run(tmp_path)
    now_ns = run.clock.monotonic_ns()
    anchor = (now_ns, run.clock.wall_ns())
    batches = [
        frame("p", rows=[(4, now_ns, 1.0), (4, now_ns, 2.0)], records=[Define(4, "x", "series")], anchor=anchor),
        frame("q", rows=[(9, now_ns, 3.0)], records=[Define(9, "x", "series"), Gauge("g", -1.0)], anchor=anchor),
        frame("r", records=[Sample("x", 4.0), Count("c", 2.0)], anchor=anchor),
    ]
    run.book.turn([bytes(one) for one in batches])
    found = run.record(10.0)
    named = {one["pid"]: one["args"]["name"] for one in events(found, "M", "process_name")}
    told = sorted((named[one["pid"]], one["args"]["value"]) for one in events(found, "C", "x"))
    assert told == [("p", 1.0), ("p", 2.0), ("q", 3.0), ("r", 4.0)]
    assert (values(found, "g"), values(found, "c")) == ([-1.0], [2.0])


def test_values_that_were_dropped_are_absent(tmp_path: Path) -> None:
    """A recording has what is in the numbers."""
    run = Run(tmp_path)
    run.send("p", *DEFINITIONS, rows=[(0, 1.0), (0, -1.0), (0, float("nan")), (2, -1.0), (77, 5.0)])
    found = run.record(10.0)
    assert (values(found, "latency{route=/a} (ms)"), found.values) == ([1.0], 2)


def test_a_journal_that_is_still_written_ends_in_half_a_frame(tmp_path: Path) -> None:
    """All before that is there."""
    run = Run(tmp_path)
    run.go(seconds=20)
    last = segment_files(run.directory.journal)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    found = run.record(5.0)
    assert values(found, "requests") == [15, 16, 17, 18]
    assert "damaged" not in facts(found)


def test_damage_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    """Values are found again from the next segment on, with the instruments of its checkpoint."""
    run = Run(tmp_path)
    run.go()
    damaged = segment_files(run.directory.journal)[-2]
    content = bytearray(damaged.read_bytes())
    content[-200] ^= 1
    damaged.write_bytes(content)
    found = run.record(600.0)
    left = values(found, "requests")
    assert (left[:3], left[-1], facts(found)["damaged"]) == ([0, 1, 2], 59, True)
    assert len(left) < 60


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the others is in the file."""
    monkeypatch.setattr(limits, "FLIGHT_VALUES", 7)
    monkeypatch.setattr(limits, "FLIGHT_RECORDS", 2)
    run = Run(tmp_path)
    run.go(seconds=20)
    for text in ("one", "two", "three"):
        run.send("p", Mark(text))
    found = run.record(10.0)
    assert values(found, "requests") == [18, 19]
    assert values(found, "temperature (°C)") == [-17, -18, -19]
    assert (found.values, found.records, found.left_out) == (7, 2, 23 + 1)
    assert facts(found)["left_out"] == 24
    assert [len(events(found, "i", text)) for text in ("one", "two", "three")] == [0, 1, 1]


def test_a_step_of_the_wall_clock_moves_values_and_marks_alike(tmp_path: Path) -> None:
    """Values and marks of the same moment stand together after a step of the wall clock."""
    run = Run(tmp_path)
    run.go(seconds=10)
    run.clock._wall_ns += 3_600 * NS
    run.book.roll(1)
    run.clock.advance(1.0)
    now_ns = run.clock.monotonic_ns()
    run.send("p", Mark("now", now_ns), rows=[(1, 99.0)])
    run.clock.advance(0.5)
    found = run.record(1.0)
    assert values(found, "requests") == [99.0]
    assert [one["ts"] for one in events(found, "C", "requests")] == [one["ts"] for one in events(found, "i", "now")]
    assert facts(found)["until_unix_ns"] == run.clock.wall_ns() - 3_600 * NS


def test_a_run_without_a_journal_has_no_recording(tmp_path: Path) -> None:
    """The error says so."""
    directory = RunDirectory.create(tmp_path, "job", "r1", NS)
    directory.journal.mkdir()
    with pytest.raises(RunDirectoryError, match="there is no journal"):
        record_flight(directory, 30.0, NS)
