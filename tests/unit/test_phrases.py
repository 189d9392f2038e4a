"""Reports and screens use the same words."""

from __future__ import annotations

from telemetry.ledger import Reason
from telemetry.phrases import REASON_WORDS, batches, ending, error_bound, instrument, outside, producer, waiting
from telemetry.wire.snapshot import CommandFacts, Pending, ProducerStat, SeriesStat


def test_every_reason_has_words() -> None:
    """No loss is reported by its code word alone, and all fit beside their count at 80 columns."""
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
    assert error_bound(SeriesStat(name="a", count=1, min=5.0, unit="ns", resolution=1.0)) == "±0.1 % or ±1.00 ns"


def test_a_producer_is_known_by_name_rank_and_place() -> None:
    """What is unknown is left out; escapes stand for what a terminal would obey."""
    assert producer(ProducerStat(producer="p1")) == "p1"
    assert producer(ProducerStat(producer="p1", name="load", rank=3, host="h", pid=7)) == "load rank 3 (h:7)"
    assert producer(ProducerStat(producer="\x1b[2J")) == "\\x1b[2J"


def test_batches_and_what_is_waited_for_are_counted() -> None:
    """One batch is no batches; nothing is said of what there is none of."""
    assert (batches(1), batches(1_200)) == ("1 batch", "1,200 batches")
    assert list(waiting(Pending(events=3, deferred=2))) == ["3 events without a definition", "2 deferred tasks"]
    assert list(waiting(Pending())) == []


def test_values_that_do_not_fit_are_counted_by_why() -> None:
    """Nothing is said of a series whose values all fit."""
    assert outside(SeriesStat(name="a", below=1, above=2, imprecise=3)) == (
        "1 below the range, 2 above the range, 3 beyond 2^53, rounded"
    )
    assert outside(SeriesStat(name="a")) == ""


def test_a_command_ended_or_did_not() -> None:
    """By a signal, with a code, or not yet."""
    assert ending(CommandFacts(argv=[], exit_code=3)) == "exit code 3"
    assert ending(CommandFacts(argv=[], exit_code=-15, signal="SIGTERM")) == "ended by SIGTERM"
    assert ending(CommandFacts(argv=[])) == "still running"
