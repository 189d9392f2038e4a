"""Report: the last snapshot of a run, and where it came from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from msgspec import Struct

from telemetry.wire.snapshot import (
    TERMINAL,
    Completeness,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    SeriesStat,
    State,
)

Source = Literal["pubsub", "file", "status", "last_live", "journal"]
SOURCE_WORDS: Final[dict[Source, str]] = {
    "pubsub": "the aggregator's final snapshot",
    "file": "final_snapshot.json",
    "status": "the aggregator, while the run goes on",
    "last_live": "the last live snapshot",
    "journal": "the journal",
}

_GOING_ON: Final[dict[State, str]] = {"INITIALIZE": "waiting", "LIVE": "live", "DRAINING": "draining"}

_LATEST_NS: Final = 1 << 63  # of 64 bits with a sign; dates go further

_Stat = TypeVar("_Stat", CounterStat, GaugeStat, SeriesStat)


class Report(Struct, frozen=True, kw_only=True):
    """What a run comes to. `final` tells a result from a state along the way."""

    snapshot: MetricsSnapshot
    source: Source
    source_reason: str = ""
    """Why it did not come from a better source; empty for the best one."""

    @property
    def state(self) -> State:
        return self.snapshot.state

    @property
    def completeness(self) -> Completeness:
        return self.snapshot.completeness

    @property
    def final(self) -> bool:
        return self.snapshot.state in TERMINAL

    @property
    def directory(self) -> str:
        return self.snapshot.directory

    def counter(self, name: str, **labels: str) -> CounterStat:
        """The counter of this name and exactly these labels. Raises KeyError."""
        return _pick(self.snapshot.counters, name, labels)

    def gauge(self, name: str, **labels: str) -> GaugeStat:
        """The gauge of this name and exactly these labels. Raises KeyError."""
        return _pick(self.snapshot.gauges, name, labels)

    def series(self, name: str, **labels: str) -> SeriesStat:
        """The series of this name and exactly these labels. Raises KeyError."""
        return _pick(self.snapshot.series, name, labels)

    @property
    def verdict(self) -> str:
        """How complete the result is, in one word; what the run does while it goes on and could be asked."""
        return _GOING_ON.get(self.state, self.completeness) if self.source == "status" else self.completeness

    @property
    def unknown(self) -> str:
        """What nobody can know of the events, in words; empty if the accounts have all of them.

        Who was cut off heard nothing of what came then; a producer that never ended has said no total.
        """
        if self.verdict == "interrupted" or (self.verdict == "incomplete" and self.state not in TERMINAL):
            return f"what came {_after(self.snapshot.time_ns)} is unknown"
        producers = self.snapshot.producers
        unended = sum(stat.completeness == "incomplete" for stat in producers)
        if self.verdict != "incomplete" or not unended:
            return ""
        return f"{unended:,} of {len(producers):,} {'producer' if len(producers) == 1 else 'producers'} never ended"

    def headline(self) -> str:
        """One line: how complete, what run, how many events, how many lost, or what is unknown of that."""
        account = self.snapshot.accounting
        facts = [f"{account.applied:,} of {account.emitted:,} events applied", f"{account.lost:,} lost"]
        if self.unknown:
            facts = [f"{account.applied:,} events applied", *([facts[1]] if account.lost else []), self.unknown]
        return f"{self.verdict}: {self.snapshot.name}, {', '.join(facts)}"

    def __str__(self) -> str:
        return self.headline()


def _after(wall_ns: int) -> str:
    if not 0 < wall_ns < _LATEST_NS:
        return "later"
    return f"after {datetime.fromtimestamp(wall_ns // 10**9, UTC):%H:%M:%S} UTC"


def _pick(stats: list[_Stat], name: str, labels: dict[str, str]) -> _Stat:
    for stat in stats:
        if stat.name == name and stat.labels == labels:
            return stat
    known = sorted({stat.name for stat in stats})
    raise KeyError(f"{name!r} with labels {labels} is not among {known}")
