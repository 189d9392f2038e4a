"""The promises that hold at each moment and at the end of every story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isclose
from typing import Final

from msgspec.msgpack import Decoder
from tests.simulator.plan import Plan
from tests.simulator.processes import AXIS, STOPPED, SimulatedProducer

from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import decode_snapshot
from telemetry.wire.events import ClosedStep, Mark, Span
from telemetry.wire.request_log import EndedRequests
from telemetry.wire.snapshot import TERMINAL, Accounting, MetricsSnapshot, ProducerStat

_ORDER: Final = {"INITIALIZE": 0, "LIVE": 1, "DRAINING": 2, "COMPLETE": 3, "INTERRUPTED": 3}


_DECODER: Final = Decoder(EndedRequests)

NOT_WRITTEN: Final = "can't write the final file"
"""Warning of a result that is published only. Its run goes on if its aggregator dies."""
NOT_DELIVERED: Final = "the root"
"""Words in each warning of a leaf whose root lacks something."""


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
        self.may_fall = False
        """True once the journal may lack the number of the newest snapshot, so that the next one may be lower."""
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
                self.may_fall or snapshot.seq >= before.seq,
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
        check_sums(stat.producer, stat)
    for node in snapshot.nodes:
        check_sums(node.node, node.account)
    check_sums("all producers", snapshot.accounting)


def check_sums(name: str, account: ProducerStat | Accounting) -> None:
    """Check that an account adds up."""
    lost = sum(account.dropped_by_producer.values())
    hold(
        account.emitted == account.received + lost + account.missing,
        f"{name}: emitted {account.emitted} is not received {account.received} + {lost} + {account.missing}",
    )
    hold(
        account.received == account.applied + sum(account.dropped.values()) + account.waiting,
        f"{name}: received {account.received} is not the sum of its parts",
    )


@dataclass(frozen=True)
class Evidence:
    """What a story knows of a run, besides its result."""

    run_id: str
    producers: Sequence[SimulatedProducer]
    journal: Sequence[float] | None
    """Values of the series in its journal; None if it lacks some."""
    had_power_cut: bool
    had_clock_steps: bool
    """True if wall clocks were set. Then the first events of a producer may have times that are too late."""
    was_recovered: bool
    """True if a person made the result, who knows nothing of the root."""
    is_lossless: bool
    """True if no fault of the story may cost an event of a producer that ends."""
    directory: RunDirectory | None
    result: MetricsSnapshot | None


def check_result(snapshot: MetricsSnapshot, evidence: Evidence) -> None:
    """Check the result of a run on one machine against what was recorded."""
    listed = check_producers(snapshot, evidence)
    recorded = [value for producer in listed for value in producer.values]
    count = _count(snapshot)
    hold(count <= len(recorded), f"{count} values are in the series, and {len(recorded)} were recorded")
    if snapshot.completeness == "complete":
        check_complete(snapshot, listed, had_clock_steps=evidence.had_clock_steps)
    _check_logs(snapshot, evidence, listed, evidence.producers)
    journal = evidence.journal
    if journal is not None:
        twice = [value for value, times in Counter(journal).items() if times > 1]
        hold(not twice, f"{len(twice)} values are in the journal twice, the first {twice[:1]}")
        hold(set(journal) <= set(recorded), "the journal has values that nobody recorded")
        if (
            not evidence.had_power_cut
        ):  # it may take definitions, or the end of the journal after the result was made
            hold(count == len(journal), f"{count} values are in the series, {len(journal)} in the journal")
            _check_figures(snapshot, journal)


def check_producers(snapshot: MetricsSnapshot, evidence: Evidence) -> list[SimulatedProducer]:
    """Check the accounts of producers that send to this aggregator itself. Return those that have one.

    A producer whose first message came too late is in no account, and nothing of it was acknowledged.
    """
    check_accounts(snapshot)
    hold(snapshot.state in TERMINAL, f"the final file is of a run that is {snapshot.state}")
    doubts = [text for text in snapshot.warnings if " reports " in text or "ended twice" in text]
    hold(not doubts, f"an aggregator contradicts producers: {doubts}")
    by_name = {stat.producer: stat for stat in snapshot.producers}
    is_kept = evidence.journal is not None and not evidence.had_power_cut
    for producer in evidence.producers:
        stat = by_name.get(producer.name)
        if stat is None:
            was_taken = producer.acknowledged or (
                producer.ending is not None and producer.ending.account is not None
            )
            is_told = snapshot.completeness in ("incomplete", "interrupted") and snapshot.warnings
            hold(
                not was_taken or (is_told and not is_kept),
                f"{producer.name} is in no account, and events were taken",
            )
            continue
        if is_kept:
            arrived = stat.applied + sum(stat.dropped.values()) + stat.waiting
            taken = producer.acknowledged
            hold(arrived >= taken, f"{producer.name}: {taken} events were acknowledged, and {arrived} kept")
            for events, dropped in producer.confirmed:
                is_there = stat.applied >= events - dropped
                hold(is_there, f"{producer.name}: {events} events were confirmed, and {stat.applied} are there")
        _check_producer(
            producer, stat, is_lossless=evidence.is_lossless, was_interrupted=snapshot.state != "COMPLETE"
        )
    return [producer for producer in evidence.producers if producer.name in by_name]


def check_complete(
    snapshot: MetricsSnapshot, producers: Sequence[SimulatedProducer], *, had_clock_steps: bool
) -> None:
    """Check that a complete result has everything that these producers recorded."""
    recorded = [value for producer in producers for value in producer.values]
    count = _count(snapshot)
    cut = [producer.name for producer in producers if producer.was_cut]
    hold(not cut, f"complete, though the run ended before {cut} finished")
    hold(count == len(recorded), f"complete, with {count} of {len(recorded)} values")
    total = sum(int(each.value) for each in snapshot.counters if each.name == "count")
    hold(total == sum(producer.added for producer in producers), f"complete, and the counter is {total}")
    marks = sorted(text for producer in producers for text in producer.marks)
    shown = sorted(mark.text for mark in snapshot.marks)
    hold(shown == marks, f"complete, with {len(shown)} of {len(marks)} marks")
    levels = {f"level of {producer.name}": producer.level for producer in producers if producer.levels}
    gauges = {gauge.name: gauge.value for gauge in snapshot.gauges if gauge.name.startswith("level of ")}
    hold(gauges == levels or had_clock_steps, f"complete, and the gauges are {gauges}, not {levels}")
    steps = {step for producer in producers for step in producer.steps}
    closed = sum(axis.closed for axis in snapshot.axes if axis.name == AXIS)
    hold(closed == len(steps), f"complete, with {closed} of {len(steps)} steps")
    _check_figures(snapshot, recorded)


def _check_logs(
    snapshot: MetricsSnapshot,
    evidence: Evidence,
    producers: Sequence[SimulatedProducer],
    possible: Sequence[SimulatedProducer],
) -> None:
    """Check the logs beside the result: all that is complete has each step, span and request once.

    `possible` are all producers that may have recorded into it.
    """
    has_trouble = any("record log" in text or "request log" in text for text in snapshot.warnings)
    if evidence.directory is None or evidence.had_power_cut or has_trouble:
        return
    items = list(RecordLog(evidence.directory.records).readable())
    hold([item.seq for item in items] == list(range(len(items))), "the numbers of streamed records have a gap")
    streamed = [item.record for item in items]
    marks = Counter(record.text for record in streamed if isinstance(record, Mark))
    hold(all(times == 1 for times in marks.values()), f"marks were streamed twice: {marks.most_common(1)}")
    steps = _steps([record for record in streamed if isinstance(record, ClosedStep)])
    strange = set(steps) - {step for producer in possible for step in producer.steps}
    hold(not strange, f"steps {sorted(strange)} were published, and nobody recorded them")
    if snapshot.completeness != "complete":
        return
    reported: dict[int, list[float]] = {}
    for producer in producers:
        for step, value in producer.steps.items():
            reported.setdefault(step, []).append(value)
    for step, values in reported.items():
        mean, published = sum(values) / len(values), steps.get(step)
        is_right = published is not None and isclose(published, mean)
        hold(is_right, f"complete, and step {step} is {published}, not {mean}")
    recorded = {text for producer in producers for text in producer.marks}
    hold(set(marks) == recorded, f"complete, with {len(marks)} of {len(recorded)} marks in the record log")
    spans = Counter(record.name for record in streamed if isinstance(record, Span))
    own = [
        producer for producer in producers if producer in evidence.producers
    ]  # a leaf keeps its spans and requests
    wanted = {f"span of {producer.name}": producer.spans for producer in own if producer.spans}
    hold(spans == wanted, f"complete, and the spans are {dict(spans)}, not {wanted}")
    frames = RequestLogReader(evidence.directory.requests).frames()
    logged = [(frame.producer, _DECODER.decode(record)) for frame in frames for record in frame.records]
    requests = Counter((producer, entry.number) for producer, record in logged for entry in record.entries)
    issued = {(producer.name, number): 1 for producer in own for number in range(producer.requests)}
    hold(requests == issued, f"complete, with {requests.total()} of {len(issued)} requests in the log")


def _steps(closed: Sequence[ClosedStep]) -> dict[int, float | None]:
    """Return the last value of each step. Each is published once, and then corrected in order."""
    values: dict[int, float | None] = {}
    revisions: dict[int, int] = {}
    for record in closed:
        expected = revisions.get(record.step, -1) + 1
        hold(record.revision == expected, f"revision {record.revision} of step {record.step} is not {expected}")
        revisions[record.step] = record.revision
        values[record.step] = record.values.get("loss", values.get(record.step))
    return values


def check_root(snapshot: MetricsSnapshot, root: Evidence, leaves: Sequence[Evidence]) -> None:
    """Check the result of a root against the results of its leaves, and what was recorded on all nodes."""
    direct = check_producers(snapshot, root)
    nodes = {node.leaf: node for node in snapshot.nodes}
    connected = [leaf for leaf in leaves if leaf.run_id in nodes]
    recorded = [
        value for evidence in (root, *connected) for producer in evidence.producers for value in producer.values
    ]
    count = _count(snapshot)
    hold(count <= len(recorded), f"{count} values are in the root's series, and {len(recorded)} were recorded")
    had_power_cut = root.had_power_cut or any(leaf.had_power_cut for leaf in leaves)
    listed = list(direct)
    for leaf in connected:
        node = nodes[leaf.run_id]
        account = node.account
        check_sums(leaf.run_id, account)
        if leaf.result is None:
            hold(
                node.completeness != "complete" or leaf.had_power_cut, f"{leaf.run_id} is complete without a result"
            )
            listed += leaf.producers
            continue
        of_leaf = leaf.result.accounting
        applied = f"the root has {account.applied} events of {leaf.run_id}, which has {of_leaf.applied}"
        may_lose = leaf.had_power_cut or leaf.journal is None  # after it has told the root
        hold(account.applied <= of_leaf.applied or may_lose, applied)
        is_delivered = (
            leaf.result.state == "COMPLETE"
            and not leaf.was_recovered
            and not any(NOT_DELIVERED in text for text in leaf.result.warnings)
        )
        if is_delivered and root.journal is not None and not had_power_cut:
            hold(account.applied == of_leaf.applied, f"{applied}, and says that it has delivered them")
        in_leaf = {stat.producer for stat in leaf.result.producers}
        listed += [producer for producer in leaf.producers if producer.name in in_leaf]
        if node.completeness == "complete" and leaf.journal is not None:  # it may forget what it has told the root
            completeness = leaf.result.completeness
            hold(completeness == "complete", f"{leaf.run_id} is complete at the root, and {completeness} itself")
    if snapshot.completeness == "complete":
        bad = [node.node for node in snapshot.nodes if node.completeness != "complete"]
        hold(not bad, f"the root is complete, and {bad} are not")
        check_complete(snapshot, listed, had_clock_steps=root.had_clock_steps)
    _check_logs(
        snapshot, root, listed, [producer for evidence in (root, *leaves) for producer in evidence.producers]
    )
    journals = [evidence.journal for evidence in (root, *connected)]
    journaled = [value for journal in journals for value in journal or ()]
    if count == len(journaled) and not had_power_cut and None not in journals:
        _check_figures(snapshot, journaled)


def check_lossless(snapshot: MetricsSnapshot, plan: Plan, *, was_stopped: bool) -> None:
    """Check what only faults of the disk, or bounds that are met, may spoil."""
    if snapshot.state == "COMPLETE":
        is_cut = plan.cap_bytes < 1 << 24  # the journal loses its oldest segments then
        hold(snapshot.exact or is_cut, f"the percentiles are not exact: {snapshot.exact_reason}")
    if was_stopped:
        hold(STOPPED in snapshot.reason, f"the run was stopped, and its reason is {snapshot.reason!r}")
    was_undisturbed = not (plan.kills or plan.breaks or plan.pauses or plan.producer_kills)
    if was_undisturbed and not plan.interrupts:
        waiting = [stat.producer for stat in snapshot.producers if stat.status != "ended"]
        hold(not waiting, f"the drain did not wait for {waiting}")


def _check_producer(
    producer: SimulatedProducer, stat: ProducerStat, *, is_lossless: bool, was_interrupted: bool
) -> None:
    """Check the account of a producer against what it recorded. An interrupted run may close before the end."""
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
    is_due = is_lossless and account.received == account.emitted and not (producer.was_cut or was_interrupted)
    hold(not is_due or stat.status == "ended", f"{name} was told that it has ended, and is {stat.status}")
    if stat.status == "ended" and not stat.unfinished:
        hold(
            stat.emitted == producer.events, f"{name} recorded {producer.events} events, and emitted {stat.emitted}"
        )
        hold(not is_lossless or stat.completeness == "complete", f"{name} lost events though each of them had room")


def _count(snapshot: MetricsSnapshot) -> int:
    return next((series.count for series in snapshot.series if series.name == "latency"), 0)


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
