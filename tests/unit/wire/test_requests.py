"""Tests of the names of the instruments of requests."""

from __future__ import annotations

from telemetry.wire import requests as words
from telemetry.wire.events import KINDS
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat
from telemetry.wire.units import TIME_NS


def test_every_word_is_an_instrument_once() -> None:
    """Every word is an instrument once: no word is without a meaning, and none has two."""
    labels = {words.WINDOW, words.REASON, words.FINISH, words.TURN, words.SLO}
    said = [value for name, value in vars(words).items() if name.isupper() and isinstance(value, str)]
    assert sorted(set(said) - labels) == sorted(words.INSTRUMENTS)
    assert len(said) == len(set(said))
    assert {kind for kind, _ in words.INSTRUMENTS.values()} <= set(KINDS)


def test_what_lies_within_the_latency_has_it_to_lie_in() -> None:
    """A series in a unit of time."""
    kind, unit = words.INSTRUMENTS[words.LATENCY]
    assert kind == "series"
    assert unit in TIME_NS
    assert set(words.INSTRUMENTS) >= words.WITHIN


def test_a_name_is_the_kind_and_the_word() -> None:
    """Joined by a dot, as all names are."""
    assert words.name_of("llm", words.TURN_TTFT) == "llm.turn.ttft"


def test_windows_are_as_old_as_their_first_requests() -> None:
    """Windows are as old as their first requests, whatever completes first.

    Windows that only series have come after them.
    """
    stats = [SeriesStat(name="llm.latency", labels={"window": window}) for window in ("own", "measured", "warm-up")]
    issued = [CounterStat(name="llm.issued", labels={"window": window}) for window in ("warm-up", "measured")]
    completed = CounterStat(name="llm.completed", labels={"window": "measured"})
    known = MetricsSnapshot(run_id="r", name="n", state="LIVE", counters=[completed, *issued], series=stats)
    assert words.window_ages(known) == {"": 0, "warm-up": 1, "measured": 2, "own": 3}
