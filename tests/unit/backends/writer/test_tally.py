"""Tests of the reports of a writer."""

from __future__ import annotations

import os

import msgspec

from telemetry import limits
from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.sources.source import Position
from telemetry.backends.writer.tally import WriterTally, words
from telemetry.store.backends import Counts
from telemetry.wire.snapshot import BackendStat


def test_a_report_has_everything() -> None:
    """A report includes the counts of earlier processes, and it can be sent to an aggregator."""
    now = [10.0]
    tally = WriterTally("w", "wandb", Counts(written=5, dropped={"x": 1}), restarts=2, clock=lambda: now[0])
    tally.position, tally.known = Position(next_record=7), lambda: 10
    tally.calling_since_s = 8.0
    tally.add("dropped", "x", 2)
    tally.said(ValueError("a\x1b"))
    stat = tally.stat()
    assert (stat.name, stat.kind, stat.pid, stat.restarts) == ("w", "wandb", os.getpid(), 2)
    assert (stat.next_record, stat.queued, stat.written, stat.dropped) == (7, 3, 5, {"x": 3})
    assert (stat.calling_s, stat.last_error) == (2.0, "ValueError: a\\x1b")
    assert msgspec.json.decode(msgspec.json.encode(stat), type=BackendStat) == stat
    assert tally.counts() == Counts(written=5, dropped={"x": 3})


def test_reasons_are_bounded() -> None:
    """A backend that invents one for each item is put together as `other`, and its words are cut."""
    tally = WriterTally("w", "wandb")
    for number in range(100):
        tally.add("dropped", f"reason {number} {'x' * 100}", 1)
    tally.add("no_place", "", 1)
    tally.add("dropped", "none", 0)
    tally.last_error = "e" * limits.TEXT_CHARS
    assert len(tally.dropped) == limits.DROP_REASONS
    assert sum(tally.dropped.values()) == 100
    assert tally.dropped["other"] == 100 - limits.DROP_REASONS + 1
    assert tally.no_place == {"other": 1}
    data = msgspec.json.encode(tally.stat())
    assert msgspec.json.decode(data, type=BackendStat).dropped == tally.dropped


def test_who_reads_sees_whole_tables() -> None:
    """One that somebody is reading does not change."""
    tally = WriterTally("w", "wandb")
    before = tally.dropped
    tally.add("dropped", "x", 1)
    assert before == {}


def test_errors_in_words() -> None:
    """Ours are sentences already; those of others need their kind."""
    assert words(Unavailable("busy")) == "busy"
    assert words(KeyError("x")) == "KeyError: 'x'"
    assert words(TimeoutError()) == "TimeoutError"


def test_what_it_tells_has_no_secrets_and_can_be_told() -> None:
    """An address with a password, a path whose bytes are no text, and an error of any length."""
    tally = WriterTally("w", "mlflow")
    tally.place = "http://me:hunter2@host/\udcff"
    tally.said(OSError(f"http://me:hunter2@host/ answers 500, token=abc123 {'x' * limits.TEXT_CHARS}"))
    data = msgspec.json.encode(tally.stat())
    stat = msgspec.json.decode(data, type=BackendStat)
    assert (b"hunter2" in data, b"abc123" in data) == (False, False)
    assert (stat.place, len(stat.last_error)) == ("http://me:***@host/\\udcff", limits.TEXT_CHARS)


def test_an_error_does_not_say_the_backend_s_name_again() -> None:
    """An error omits the backend's name, which always stands beside it."""
    tally = WriterTally("mine", "prometheus")
    tally.said(NotConfigured("prometheus: port 9599 is taken"))
    assert tally.last_error == "port 9599 is taken"


def test_refused_records_are_named_and_bounded() -> None:
    """The newest ones, also those of processes before."""
    tally = WriterTally("w", "wandb", Counts(refused=[1, 2]))
    before = tally.refused
    tally.refuse([5])
    assert (before, tally.stat().refused, tally.counts().refused) == ([1, 2], [1, 2, 5], [1, 2, 5])
    tally.refuse(range(10, 10 + limits.BACKEND_REFUSED))
    assert tally.refused == [*range(10, 10 + limits.BACKEND_REFUSED)]
    data = msgspec.json.encode(tally.stat())
    assert msgspec.json.decode(data, type=BackendStat).refused == tally.refused


def test_progress_is_a_change() -> None:
    """Another state or position, but not the same again."""
    tally = WriterTally("w", "wandb")
    tally.state, tally.position = "starting", Position()
    assert not tally.changed.is_set()
    tally.state = "idle"
    assert tally.changed.is_set()
    tally.changed.clear()
    tally.position = Position(next_record=1)
    assert tally.changed.is_set()


def test_a_batch_that_begins_is_no_news() -> None:
    """A batch that begins is no news, as its report would hold back the one of its delivery.

    Trouble is news at once.
    """
    tally = WriterTally("t", "t")
    tally.state = "writing"
    tally.changed.clear()
    for state in ("idle", "writing"):
        tally.state = state
        assert not tally.changed.is_set()
    tally.state = "retrying"
    assert tally.changed.is_set()
