"""Reports and screens use the same words."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.common.wording import (
    REASON_WORDS,
    backend,
    backend_state,
    batches,
    cause,
    ending,
    error_bound,
    instrument,
    looked_at_ns,
    outside,
    producer,
    resumable,
    shortfall,
    undelivered,
    waiting,
)
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.snapshot import (
    BACKEND_ENDED,
    BackendStat,
    CommandFacts,
    MetricsSnapshot,
    Pending,
    ProducerStat,
    SeriesStat,
)


def test_every_reason_has_words() -> None:
    """Every reason of a loss has words, which fit beside its count at 80 columns."""
    assert set(REASON_WORDS) == {reason.value for reason in Reason}
    assert max(map(len, REASON_WORDS.values())) <= 42


def test_instruments_are_written_one_way() -> None:
    """Labels are sorted, and the unit is named only where numbers don't carry it."""
    assert instrument("a", {"y": "2", "x": "1"}, "ms") == "a{x=1,y=2}"
    assert instrument("a", {}, "tokens") == "a [tokens]"
    assert instrument("a", {}, "1") == "a"


def test_a_bound_says_what_it_is_worth() -> None:
    """Exact, relative, absolute where small values make it matter, or none at all."""
    assert error_bound(SeriesStat(name="a")) == "–"
    assert error_bound(SeriesStat(name="a", count=1, exact=True)) == "exact"
    assert error_bound(SeriesStat(name="a", count=1, min=5, error_bound=None)) == "unbounded"
    assert error_bound(SeriesStat(name="a", count=1, min=5_000.0)) == "±0.1 %"
    assert error_bound(SeriesStat(name="a", count=1, min=10**400, resolution=1.0)) == "±0.1 %"
    assert error_bound(SeriesStat(name="a", count=1, min=1, error_bound=0.0, resolution=1.0)) == "±0 %"
    assert error_bound(SeriesStat(name="a", count=1, min=5.0, unit="ns", resolution=1.0)) == "±0.1 % or ±1.00 ns"


def test_a_producer_is_known_by_name_rank_and_place() -> None:
    """A producer is named by what is known of it.

    Control characters are escaped, so that a terminal does not obey them.
    """
    assert producer(ProducerStat(producer="p1")) == "p1"
    assert producer(ProducerStat(producer="p1", name="load", rank=3, host="h", pid=7)) == "load rank 3 (h:7)"
    assert producer(ProducerStat(producer="\x1b[2J")) == "\\x1b[2J"


def test_batches_and_what_is_waited_for_are_counted() -> None:
    """One batch is no batches; nothing is said of what there is none of."""
    assert (batches(1), batches(1_200)) == ("1 batch", "1,200 batches")
    going_on = MetricsSnapshot(run_id="r", name="n", state="LIVE", pending=Pending(events=3, deferred=2))
    assert list(waiting(going_on)) == ["3 events without a definition", "2 texts not counted yet"]
    over = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", pending=Pending(events=1, deferred=1))
    assert list(waiting(over)) == ["1 event without a definition", "1 text not counted"]
    assert list(waiting(replace(over, pending=Pending()))) == []


def test_values_that_do_not_fit_are_counted_by_why() -> None:
    """The words name each reason with its count. A series whose values all fit has none."""
    assert outside(SeriesStat(name="a", below=1, above=2, imprecise=3)) == (
        "1 below the range, 2 above the range, 3 beyond 2^53, rounded"
    )
    assert outside(SeriesStat(name="a")) == ""


def test_a_command_ended_or_did_not() -> None:
    """A command has ended by a signal, has ended with a code, or still runs."""
    assert ending(CommandFacts(argv=[], exit_code=3)) == "exit code 3"
    assert ending(CommandFacts(argv=[], exit_code=-15, signal="SIGTERM")) == "ended by SIGTERM"
    assert ending(CommandFacts(argv=[])) == "still running"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"signal": "SIGSEGV"}, "segmentation fault"),
        ({"signal": "SIGKILL"}, "perhaps out of memory"),
        ({"signal": "SIGTERM"}, ""),
        ({"exit_code": 137}, "SIGKILL, perhaps out of memory"),
        ({"exit_code": 143}, "SIGTERM"),
        ({"exit_code": 1}, ""),
        ({"exit_code": 255}, ""),
        ({"exit_code": 0}, ""),
        ({}, ""),
    ],
)
def test_why_a_command_failed(facts: dict[str, Any], words: str) -> None:
    """Signals have a meaning; a shell reports them as an exit code."""
    assert cause(CommandFacts(argv=[], **facts)) == words


NOW = 1_772_366_400_000_000_000


def stat(**changes: object) -> BackendStat:
    facts: dict[str, object] = {"name": "wandb", "state": "writing", "time_ns": NOW, "written": 12_300}
    return BackendStat(**facts | changes)  # type: ignore[arg-type]


def test_what_a_writer_does() -> None:
    """One that should have said something is silent, and one whose call takes long hangs; not after its end."""
    assert backend_state(stat(state="idle"), NOW) == ("up to date", "good")
    assert backend_state(stat(), NOW + 5_000_000_000) == ("writing", "good")
    assert backend_state(stat(), NOW + 5_100_000_000) == ("silent for 5 s", "warn")
    assert backend_state(stat(), NOW + 150_000_000_000) == ("silent for 2 min 30 s", "warn")
    assert backend_state(stat(calling_s=6.0), NOW) == ("hanging for 6 s", "warn")
    assert backend_state(stat(state="closing", calling_s=4.0), NOW) == ("closing", "calm")
    assert backend_state(stat(state="closing", calling_s=9.0), NOW) == ("closing for 9 s", "calm")
    assert backend_state(stat(calling_s=6.0), NOW + 6_000_000_000) == ("silent for 6 s", "warn")
    assert backend_state(stat(state="done", calling_s=6.0), 2 * NOW) == ("done", "good")
    assert backend_state(stat(state="starting", time_ns=0), NOW) == ("starting", "calm")
    ended = {state: backend_state(stat(state=state), NOW)[1] for state in BACKEND_ENDED}
    assert ended == {"done": "good", "undelivered": "bad", "failed": "bad"}


def test_a_writer_that_goes_on_after_its_run_is_looked_at_now() -> None:
    """The silence of a writer after its run is measured until now, because no snapshot follows.

    A status from before the end keeps the time of the snapshot.
    """
    over = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", time_ns=NOW)
    assert looked_at_ns(stat(), over) == NOW
    assert looked_at_ns(stat(time_ns=NOW + 1), replace(over, state="LIVE")) == NOW
    stopped = stat(time_ns=time.time_ns() - 9_500_000_000, calling_s=6.0)
    assert backend_state(stopped, looked_at_ns(stopped, over)) == ("silent for 10 s", "warn")


def test_a_backend_in_part_of_a_line() -> None:
    """The part of the line tells what was delivered or what is wrong, how much waits, and why."""
    assert str(backend(stat(queued=400), NOW)) == "✓ 12,300"
    away = stat(state="retrying", queued=3_200, last_error="connection\x1brefused")
    assert str(backend(away, NOW)) == "retrying, 3,200 queued: connection\\x1brefused"
    assert backend(stat(queued=10_001), NOW) == ("✓ 12,300", ", 10,001 queued", "", "warn")
    assert backend(stat(dropped={"refused": 1, "too_large": 2}), NOW) == ("✓ 12,300", ", 3 dropped", "", "warn")


def test_what_was_not_delivered_and_what_to_do() -> None:
    """The sentence tells what is missing, with a command to copy, whatever the directory is called."""
    assert shortfall(stat(state="done"), "/d") == ""
    assert shortfall(stat(state="done", dropped={"b": 1, "a": 1_000}), "/d") == (
        "wandb: 1,001 items were not accepted: 1,000 a, 1 b"
    )
    assert shortfall(stat(state="undelivered", queued=3_200), "/a b") == (
        "wandb: 3,200 records are not delivered; telemetry export --resume '/a b'"
    )
    assert shortfall(stat(state="undelivered", name="a", last_error="b\x1b"), "") == (
        "a: not all is delivered (b\\x1b); telemetry export --resume RUN"
    )
    gone = stat(state="failed", last_error="no file", next_record=3)
    assert undelivered(gone) == "wandb: its writer stopped (no file)"


def test_no_command_goes_on_with_what_never_was() -> None:
    """An unknown backend has no writer to resume. Another one is resumed once the cause is fixed."""
    never = stat(state="failed", time_ns=0, written=0)
    assert (shortfall(never, "/d"), resumable(never)) == ("wandb: its writer could not start", False)
    missing = stat(state="failed", written=0, last_error="no key")
    assert shortfall(missing, "/d") == (
        "wandb: its writer could not start (no key); after fixing the cause, telemetry export --resume /d"
    )
    assert resumable(stat(state="undelivered", time_ns=0))
