"""The writer of a leaf's outbox: numbers without gaps, sums that wait for room, and a count of what is dropped."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig, StreamedRecord
from telemetry.daemon.upstream.intervals import LeafInterval, Numbering, OutboxWriter, Packable, pack
from telemetry.limits import BATCH_RECORDS, KIB, UPSTREAM_BATCH_BYTES
from telemetry.store.outbox import DiskOutbox
from telemetry.testing import builders
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.control import Hello
from telemetry.wire.events import Count, Define, EventBatch, Mark, Sample
from telemetry.wire.nodes import NodeAccount, NodeInterval, Relay

SECOND = 1_000_000_000


class Node:
    """The aggregator of a leaf, rolled by hand."""

    def __init__(self, outbox: DiskOutbox) -> None:
        self.aggregator = Aggregator(AggregatorConfig(leaf=True))
        self.writer = OutboxWriter(outbox, "leaf")
        self.roll = self.seq = 0

    def second(self, *values: float, marks: int = 0, closing: bool = False) -> None:
        """Record values, end an interval and write it."""
        now_ns, wall_ns = builders.MONO_NS + self.roll * SECOND, builders.WALL_NS + self.roll * SECOND
        records = [Sample("value", value, now_ns) for value in values] + [Count("n", 1.0, now_ns) for _ in values]
        batch = builders.batch("p", self.seq, 2 * self.seq, records=records, anchor=(now_ns, wall_ns))
        if values and self.aggregator.admit(batch, now_ns):
            self.aggregator.apply([batch], now_ns, wall_ns)
            self.seq += 1
        interval = self.aggregator.roll(wall_ns, wall_ns + SECOND, SECOND)
        streamed = [StreamedRecord("p", wall_ns, Mark("m" * 1_000)) for _ in range(marks)]
        self.writer.take(
            LeafInterval(
                roll=self.roll,
                start_ns=interval.start_ns,
                end_ns=interval.end_ns,
                anchor=(now_ns, wall_ns),
                account=self.aggregator.node_account(self.roll),
                sums=self.aggregator.leaf.take_interval(),
                records=tuple(streamed),
                closing=closing,
            )
        )
        self.writer.release()
        self.roll += 1


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], Node]]:
    """`make()` returns a node whose outbox is full after 64 KiB."""
    outbox = DiskOutbox(tmp_path, 64 * KIB)
    yield lambda: Node(outbox)
    outbox.close()


def batches(outbox: DiskOutbox, seq: int = 0) -> list[EventBatch]:
    found = []
    while (stored := outbox.read(seq)) is not None:
        found.append(decode_batch(bytes(stored.frame)))
        seq = stored.seq + 1
    return found


def records(outbox: DiskOutbox, seq: int = 0) -> list[Any]:
    return [decode_record(raw) for batch in batches(outbox, seq) for raw in batch.records]


def at_root(outbox: DiskOutbox) -> Aggregator:
    """An aggregator that was fed all batches of the outbox."""
    root = Aggregator(AggregatorConfig())
    root.hello(Hello(producer="leaf", node="a", mono_ns=builders.MONO_NS), builders.MONO_NS, builders.WALL_NS)
    for batch in batches(outbox):
        assert root.admit(batch, builders.MONO_NS)
        root.apply([batch], builders.MONO_NS, builders.WALL_NS)
    return root


def test_each_second_is_a_batch_with_the_account_last(make: Callable[[], Node]) -> None:
    """Definitions once, then the sums, the account at the end; numbers of events without gaps."""
    node = make()
    node.second(1.0, 2.0)
    node.second(3.0, marks=2)
    first, second = batches(node.writer.outbox)
    assert [batch.seq for batch in (first, second)] == [0, 1]
    kinds = [[type(decode_record(raw)) for raw in batch.records] for batch in (first, second)]
    assert kinds[0][-2:] == [NodeInterval, NodeAccount]
    assert kinds[0].count(Define) >= 2
    assert kinds[1] == [NodeInterval, Relay, Relay, NodeAccount]
    assert (first.first, second.first, node.writer.outbox.emitted) == (0, 2, 6)
    assert at_root(node.writer.outbox).series.stats()[0].count == 3


def test_a_full_outbox_adds_intervals_up(make: Callable[[], Node]) -> None:
    """Sums wait as one, and come in one interval of the newest number once there is room."""
    node = make()
    node.second(1.0, marks=70)
    for number in range(5):
        node.second(2.0, float(number))
    outbox = node.writer.outbox
    assert outbox.full
    assert (outbox.rolls, node.writer.added_up) == (1, 5)
    outbox.acknowledge(1)
    node.second(9.0)
    [late] = [record for record in records(outbox, 1) if isinstance(record, NodeInterval)]
    assert (late.roll, late.end_ns - late.start_ns) == (6, 6 * SECOND)
    assert node.writer.added_up == 0
    account = [record for record in records(outbox) if isinstance(record, NodeAccount)][-1]
    assert account.values == 2 * (1 + 10 + 1)


def test_records_beyond_the_bound_are_dropped_and_counted(
    make: Callable[[], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped records have numbers, as any producer's, so the root can tell them from missing ones."""
    monkeypatch.setattr("telemetry.limits.UPSTREAM_RECORDS_BYTES", 10_000)
    node = make()
    node.second(1.0, marks=30)
    outbox = node.writer.outbox
    [batch] = batches(outbox)
    kept = sum(isinstance(record, Relay) for record in records(outbox))
    assert 5 < kept < 10
    assert batch.dropped == {"buffer_full": 30 - kept}
    assert (batch.first, node.writer.dropped) == (30 - kept, 30 - kept)
    assert outbox.emitted == 32
    node.second(2.0)
    assert batches(outbox)[-1].dropped == {"buffer_full": 30 - kept}
    root = at_root(outbox).book["leaf"]
    assert root.account.missing == 0


def test_a_disk_that_fails_for_a_while_costs_nothing(
    make: Callable[[], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that could not be written wait for the next second."""
    node = make()
    outbox = node.writer.outbox
    append = outbox.append

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(outbox, "append", refuse)
    node.second(1.0, marks=1)
    assert node.writer.failed == "No space left on device"
    monkeypatch.setattr(outbox, "append", append)
    node.second(2.0)
    assert node.writer.failed == ""
    [interval] = [record for record in records(outbox) if isinstance(record, NodeInterval)]
    assert (interval.roll, interval.end_ns - interval.start_ns) == (1, 2 * SECOND)
    assert sum(isinstance(record, Relay) for record in records(outbox)) == 1


def test_the_closing_interval_is_written_whatever_waits(make: Callable[[], Node]) -> None:
    """The end of a leaf may exceed the cap by one interval, so that the root can get everything."""
    node = make()
    node.second(1.0, marks=70)
    node.second(2.0)
    assert node.writer.added_up == 1
    node.second(closing=True)
    outbox = node.writer.outbox
    assert (outbox.rolls, outbox.closing, node.writer.added_up) == (3, True, 0)


def test_batches_are_bounded() -> None:
    """The bytes and the records of a batch do not exceed the bounds, except for one large record."""
    numbering = Numbering("leaf", 7, 100, {})
    large = [Packable(mark_of(300_000)) for _ in range(10)]
    made = pack(large, (1, 2), 3, numbering)
    assert max(len(batch.frame) for batch in made) < UPSTREAM_BATCH_BYTES + KIB
    assert [batch.seq for batch in made] == list(range(7, 7 + len(made)))
    assert [batch.first for batch in made] == [100 + 3 * at for at in range(len(made))]
    many = pack([Packable(mark_of(1)) for _ in range(BATCH_RECORDS + 1)], (1, 2), 3, numbering)
    assert [batch.events for batch in many] == [BATCH_RECORDS, 1]
    [alone] = pack([Packable(mark_of(2 * UPSTREAM_BATCH_BYTES))], (1, 2), 3, numbering)
    assert alone.events == 1


def mark_of(size: int) -> bytes:
    return msgspec.msgpack.encode(["mark", "m" * size])
