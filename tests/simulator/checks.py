"""The promises that hold at each moment and at the end of every story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Final

from tests.simulator.processes import SimulatedProducer

from telemetry.wire.codec import decode_snapshot
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, ProducerStat

_ORDER: Final = {"INITIALIZE": 0, "LIVE": 1, "DRAINING": 2, "COMPLETE": 3, "INTERRUPTED": 3}


NOT_WRITTEN: Final = "can't write the final file"
"""Warning of a result that is published only. Its run goes on if its aggregator dies."""


class BrokenPromiseError(AssertionError):
    """A promise does not hold."""


def hold(condition: object, what: str) -> None:
    if not condition:
        raise BrokenPromiseError(what)


class Observer:
    """A subscriber that gets each published snapshot.

    It keeps what it finds: an exception in the thread of the aggregator would be a failure of that.
    """

    def __init__(self) -> None:
        self.failure: BrokenPromiseError | None = None
        self.had_power_cut = False
        """True once the journal may have lost the number of the newest snapshot."""
        self.newest: MetricsSnapshot | None = None
        self.terminal: MetricsSnapshot | None = None

    def take(self, frame: bytes) -> None:
        try:
            self._check(decode_snapshot(frame))
        except BrokenPromiseError as error:
            self.failure = self.failure or error

    def _check(self, snapshot: MetricsSnapshot) -> None:
        before = self.newest
        if before is not None:
            hold(
                self.had_power_cut or snapshot.seq >= before.seq,
                f"snapshot {snapshot.seq} comes after {before.seq}",
            )
            if snapshot.epoch == before.epoch:
                hold(_ORDER[snapshot.state] >= _ORDER[before.state], f"{snapshot.state} comes after {before.state}")
        terminal = self.terminal
        if terminal is not None and (
            snapshot.epoch == terminal.epoch or NOT_WRITTEN not in "".join(terminal.warnings)
        ):
            hold(snapshot == terminal, f"{snapshot.state} comes after {terminal.state}, or another result")
        elif snapshot.state in TERMINAL:
            self.terminal = snapshot
        check_accounts(snapshot)
        self.newest = snapshot


def check_accounts(snapshot: MetricsSnapshot) -> None:
    """Check that what was emitted is applied, dropped for a reason, missing or waiting."""
    for stat in snapshot.producers:
        lost = sum(stat.dropped_by_producer.values())
        hold(
            stat.emitted == stat.received + lost + stat.missing,
            f"{stat.producer}: emitted {stat.emitted} is not received {stat.received} + {lost} + {stat.missing}",
        )
        hold(
            stat.received == stat.applied + sum(stat.dropped.values()) + stat.waiting,
            f"{stat.producer}: received {stat.received} is not the sum of its parts",
        )


def check_result(
    snapshot: MetricsSnapshot,
    producers: Sequence[SimulatedProducer],
    journal: Sequence[float] | None,
    *,
    had_power_cut: bool,
    is_sturdy: bool,
) -> None:
    """Check the final file against what was recorded. `journal` has the values in the journal; None without one.

    A producer whose first message came too late is in no account, and nothing of it was acknowledged. `is_sturdy`
    tells that no fault of the story may cost an event of a producer that ends.
    """
    check_accounts(snapshot)
    hold(snapshot.state in TERMINAL, f"the final file is of a run that is {snapshot.state}")
    by_name = {stat.producer: stat for stat in snapshot.producers}
    strangers = [producer for producer in producers if producer.name not in by_name]
    for producer in strangers:
        was_taken = producer.acknowledged or (producer.ending is not None and producer.ending.account is not None)
        is_told = snapshot.completeness in ("incomplete", "interrupted") and snapshot.warnings
        may_be_lost = is_told and (journal is None or had_power_cut)
        hold(not was_taken or may_be_lost, f"{producer.name} is in no account, and events were taken")
    producers = [producer for producer in producers if producer.name in by_name]
    for producer in producers if journal is not None and not had_power_cut else ():
        stat = by_name[producer.name]
        arrived = stat.applied + sum(stat.dropped.values()) + stat.waiting
        taken = producer.acknowledged
        hold(arrived >= taken, f"{producer.name}: {taken} events were acknowledged, and {arrived} kept")
    recorded = [value for producer in producers for value in producer.values]
    series = next((each for each in snapshot.series if each.name == "latency"), None)
    count = series.count if series is not None else 0
    hold(count <= len(recorded), f"{count} values are in the series, and {len(recorded)} were recorded")
    for producer in producers:
        _check_producer(producer, by_name[producer.name], is_sturdy=is_sturdy)
    if snapshot.completeness == "complete":
        cut = [producer.name for producer in producers if producer.was_cut]
        hold(not cut, f"complete, though the run ended before {cut} finished")
        hold(count == len(recorded), f"complete, with {count} of {len(recorded)} values")
        total = sum(int(each.value) for each in snapshot.counters if each.name == "count")
        hold(total == sum(producer.added for producer in producers), f"complete, and the counter is {total}")
        marks = sorted(text for producer in producers for text in producer.marks)
        shown = sorted(mark.text for mark in snapshot.marks)
        hold(shown == marks, f"complete, with {len(shown)} of {len(marks)} marks")
        _check_figures(snapshot, recorded)
    if journal is not None:
        twice = [value for value, times in Counter(journal).items() if times > 1]
        hold(not twice, f"{len(twice)} values are in the journal twice, the first {twice[:1]}")
        hold(set(journal) <= set(recorded), "the journal has values that nobody recorded")
        if not had_power_cut:  # it may take definitions, or the end of the journal after the result was made of it
            hold(count == len(journal), f"{count} values are in the series, {len(journal)} in the journal")
            _check_figures(snapshot, journal)


def _check_producer(producer: SimulatedProducer, stat: ProducerStat, *, is_sturdy: bool) -> None:
    """Check the account of a producer against what it recorded."""
    name = producer.name
    if stat.completeness == "complete":
        losses = stat.missing or stat.dropped or stat.dropped_by_producer
        hold(not losses, f"{name} is complete with losses")
        hold(stat.applied == producer.events, f"{name} is complete: {stat.applied} of {producer.events} events")
        hold(not stat.unfinished, f"{name} is complete, though it was still recording")
    if stat.status == "ended" and stat.missing:
        hold(stat.unrepairable, f"{name} has ended, and {stat.missing} events are missing in no batch")
    ending = producer.ending
    if ending is None or ending.account is None:
        return
    account = ending.account
    parts = account.received + producer.dropped + account.missing
    hold(parts == account.emitted, f"{name} was told an account whose parts don't add up: {account}")
    is_due = is_sturdy and account.received == account.emitted and not producer.was_cut
    hold(not is_due or stat.status == "ended", f"{name} was told that it has ended, and is {stat.status}")
    if stat.status == "ended" and not stat.unfinished:
        hold(
            stat.emitted == producer.events, f"{name} recorded {producer.events} events, and emitted {stat.emitted}"
        )
        hold(not is_sturdy or stat.completeness == "complete", f"{name} lost events though each of them had room")


def _check_figures(snapshot: MetricsSnapshot, values: Sequence[float]) -> None:
    """Check count, sum, extremes and, if they are exact, percentiles by brute force."""
    series = next((each for each in snapshot.series if each.name == "latency"), None)
    if not values:
        hold(series is None or not series.count, "a series has values of nobody")
        return
    hold(series is not None, f"there is no series, though {len(values)} values were recorded")
    assert series is not None
    ordered = sorted(values)
    hold(series.count == len(values), f"count {series.count}, not {len(values)}")
    hold(series.total == sum(values), f"total {series.total}, not {sum(values)}")
    hold((series.min, series.max) == (ordered[0], ordered[-1]), f"extremes {series.min}, {series.max}")
    if series.exact:
        for name, value in series.percentiles.items():
            rank = max(1, ceil(Fraction(name) / 100 * len(ordered)))
            hold(value == ordered[rank - 1], f"p{name} is {value}, not {ordered[rank - 1]}")
