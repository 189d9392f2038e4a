"""Fuzz targets behind the decoders.

They are an aggregator that is fed anything, and a client that is told anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import numpy as np
from tests.fuzz import valid
from tests.fuzz.file_forms import Segment, Toml
from tests.fuzz.file_targets import JOURNAL_FORMS, encode_segment_checkpoint, segment, small_buffers
from tests.fuzz.memory_files import folder
from tests.fuzz.msgpack_form import Msgpack, Pieces, join_pieces, split_pieces
from tests.fuzz.target import MIB, Target, refused
from tests.fuzz.wire_targets import check_refusal

from telemetry import limits
from telemetry.aggregator import (
    Aggregator,
    AggregatorConfig,
    SnapshotFacts,
    apply,
    batch_rows,
    checkpoint,
    notes,
    registry,
    rows,
    text_queue,
)
from telemetry.aggregator import records as aggregator_records
from telemetry.aggregator.producers import account, book, ids
from telemetry.aggregator.series import extents
from telemetry.client.recorders import python_recorders
from telemetry.client.sending import outbox as sending_outbox
from telemetry.client.sending.outbox import Outbox
from telemetry.client.sending.session import ProducerSession
from telemetry.daemon import numbers
from telemetry.daemon.recovery import rebuild
from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.store import journal
from telemetry.testing import FakeClock
from telemetry.testing.builders import MONO_NS, WALL_NS, frame
from telemetry.transport.endpoints import seen_from
from telemetry.wire import codec, sequence
from telemetry.wire.codec import Malformed
from telemetry.wire.control import CannotResend, End, Hello, Ping, Request, Response
from telemetry.wire.drop_reasons import FRAME_REASONS
from telemetry.wire.events import Define, EventBatch
from telemetry.wire.snapshot import MetricsSnapshot

_CONFIG: Final = AggregatorConfig(percentiles=("50", "99.9"), series_cap=20)
_FACTS: Final = SnapshotFacts(run_id="r", name="n", state="LIVE")
_NOW_NS: Final = MONO_NS + 10**9
_NOW_WALL_NS: Final = WALL_NS + 10**9
_MOST_PIECES: Final = 64
_GOOD: Final = "the good one, whose name nobody else has"

EVENTS, APPLY, CONTROL, ROLL = 1, 2, 3, 4


def check_laws(snapshot: MetricsSnapshot) -> None:
    """Every event is somewhere, nothing is negative, and the snapshot can be sent and read."""
    for account_ in (*snapshot.producers, snapshot.accounting):
        assert account_.received == account_.applied + sum(account_.dropped.values()) + account_.waiting
        assert account_.emitted == account_.received + sum(account_.dropped_by_producer.values()) + account_.missing
        assert min(account_.emitted, account_.received, account_.applied, account_.missing, account_.waiting) >= 0
        assert min(account_.repaired, account_.unrepairable, account_.duplicates) >= 0
    sent = codec.encode_snapshot(codec.decode_snapshot(codec.encode_snapshot(snapshot)))
    assert codec.encode_snapshot(codec.decode_snapshot(sent)) == sent


def take_request(aggregator: Aggregator, data: bytes) -> None:
    """Pass the request of a peer to the aggregator if it changes numbers."""
    try:
        request = codec.decode_request(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return
    match request:
        case Hello() if request.producer:
            aggregator.hello(request, _NOW_NS, _NOW_WALL_NS)
        case Ping():
            aggregator.ping(request.producer, _NOW_NS)
        case End():
            aggregator.end(request, _NOW_NS)
            aggregator.book.ended(request.producer)
        case CannotResend():
            aggregator.cannot_resend(request.producer, request.first, request.last, _NOW_NS)


def take_frame(aggregator: Aggregator, data: bytes) -> EventBatch | None:
    try:
        batch = codec.decode_batch(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        aggregator.bad_frame(error.reason)
        return None
    return batch if aggregator.admit(batch, _NOW_NS) else None


def run_aggregator(data: bytes) -> int:
    """A script of frames and requests; beside it a good producer, all of whose events have to arrive."""
    aggregator = Aggregator(_CONFIG)
    pieces = split_pieces(data)[:_MOST_PIECES]
    batches: list[EventBatch] = []
    good = _good_frames()
    aggregator.hello(Hello(producer=_GOOD), _NOW_NS, _NOW_WALL_NS)
    batches += _admitted(aggregator, good[:1])
    for kind, payload in pieces:
        if kind == EVENTS:
            batches += _admitted(aggregator, [payload])
        elif kind == CONTROL:
            take_request(aggregator, payload)
        else:
            _apply(aggregator, batches)
            if kind == ROLL:
                aggregator.roll(WALL_NS, _NOW_WALL_NS, 10**9)
                aggregator.pass_time(20 * 10**9)
    batches += _admitted(aggregator, good[1:])
    _apply(aggregator, batches)
    aggregator.end(End(producer=_GOOD, batches=2, emitted=_GOOD_EVENTS), _NOW_NS)
    aggregator.close()
    snapshot = aggregator.snapshot(_FACTS, _NOW_NS, _NOW_WALL_NS)
    check_laws(snapshot)
    own = next(stat for stat in snapshot.producers if stat.producer == _GOOD)
    assert (own.completeness, own.applied, own.missing) == ("complete", _GOOD_EVENTS, 0)
    assert next(stat.value for stat in snapshot.counters if stat.name == _GOOD) == _GOOD_EVENTS
    return sum(kind in (EVENTS, CONTROL) and payload not in _VERBATIM for kind, payload in pieces)


_GOOD_EVENTS: Final = 5


def _good_frames() -> list[bytes]:
    define = Define(0, _GOOD, "counter")
    return [
        bytes(frame(_GOOD, 0, 0, records=[define], rows=[(0, MONO_NS, 1.0)] * 2)),
        bytes(frame(_GOOD, 1, 2, rows=[(0, MONO_NS, 1.0)] * 3)),
    ]


def _admitted(aggregator: Aggregator, frames: Sequence[bytes]) -> list[EventBatch]:
    return [batch for data in frames if (batch := take_frame(aggregator, data)) is not None]


def _apply(aggregator: Aggregator, batches: list[EventBatch]) -> None:
    if batches:
        aggregator.apply(batches, _NOW_NS, _NOW_WALL_NS)
        batches.clear()


def scripts() -> list[bytes]:
    """Sessions of several producers: in order, in other orders, in one turn and in several."""
    frames = [(EVENTS, data) for data in valid.frames()]
    more = [[(EVENTS, data) for data in valid.session(producer)] for producer in ("r", "s", "t", "u")]
    said = [(CONTROL, codec.encode_control(request)) for request in valid.requests()[:7]]
    apply_, roll = (APPLY, b""), (ROLL, b"")
    mixed = [piece for pieces in zip(*more, strict=True) for piece in pieces]
    return [
        join_pieces([*said[:2], *frames[:3], *more[0], *mixed, *frames[3:], *said[4:7]]),
        join_pieces([*frames[::-1], *mixed[::-1], roll, *said, *more[0]]),
        join_pieces([*said, *mixed, apply_, *mixed[::2], *frames[1:3]]),
        join_pieces([frames[0], apply_, *more[1], frames[6], frames[5], said[4], *more[2][::-1], *said[4:]]),
    ]


def _verbatim() -> frozenset[bytes]:
    return frozenset(payload for script in scripts() for _, payload in split_pieces(script))


_VERBATIM: Final = _verbatim()
"""Valid input does not count as hostile, in whatever order it comes."""


# --- checkpoints ---------------------------------------------------------------------------------


def run_restore(data: bytes) -> int:
    """Check that a restored aggregator takes batches, rolls, and can be saved again, like any other."""
    try:
        aggregator = Aggregator.restore(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return 1
    if crc32(data) & 3:  # the rest costs much, and much of what is changed is only a number
        return 1
    with np.errstate(all="ignore"):  # NaNs that no arithmetic makes
        _go_on(aggregator)
    return 1


def _go_on(aggregator: Aggregator) -> None:
    saved = aggregator.checkpoint()
    assert Aggregator.restore(saved).checkpoint() == saved
    codec.encode_snapshot(aggregator.snapshot(_FACTS, _NOW_NS, _NOW_WALL_NS))
    _apply(aggregator, _admitted(aggregator, valid.frames()))
    aggregator.end(End(producer="p", batches=4, emitted=79), _NOW_NS)
    codec.encode_interval(aggregator.roll(WALL_NS, _NOW_WALL_NS, 10**9))
    aggregator.pass_time(60 * 10**9)
    aggregator.close()
    codec.encode_snapshot(aggregator.snapshot(_FACTS, _NOW_NS, _NOW_WALL_NS))


def checkpoints() -> list[bytes]:
    fresh = Aggregator(_CONFIG)
    small = Aggregator(_CONFIG)
    _apply(small, _admitted(small, valid.frames()[2:4]))
    few = bytes(fresh.checkpoint()), bytes(small.checkpoint())
    return [few[0], *few, *few, bytes(valid.aggregator().checkpoint())]  # the whole one costs most


def run_fold(data: bytes) -> int:
    """A journal of anything gives numbers, or says why not."""
    pieces = split_pieces(data)[:4]
    with small_buffers(), np.errstate(all="ignore"):
        reader = journal.JournalReader(folder({f"{kind:08d}.seg": file for kind, file in pieces}))
        taken = 0
        try:
            folded = rebuild.Fold(reader)
            for entry in folded.entries():
                taken += len(entry.data)
                step = folded.apply(entry)
                if step.interval is not None:
                    codec.encode_interval(step.interval)
            folded.end_interval()
            folded.how_it_ended()
            run = folded.numbers
            codec.encode_snapshot(run.aggregator.snapshot(_FACTS, folded.now_ns, run.wall_ns(folded.now_ns)))
        except RunDirectoryError as error:
            refused(error)
    return max(1, taken)


def journals() -> list[bytes]:
    """Return journals of a run that began with nothing, in one segment and in two."""
    fresh = encode_segment_checkpoint(Aggregator(_CONFIG).checkpoint())
    notes_ = list(map(codec.encode_note, valid.notes()))
    turns = [valid.session("r"), valid.session("s"), list(valid.frames()[2:6])]
    first = [([fresh], 1, journal.CHECKPOINT), (notes_[:2], 2, journal.NOTE), (turns[0], 3, journal.BATCH)]
    more = [(turns[1], 4, journal.BATCH), (notes_[4:6], 5, journal.NOTE), (turns[2], 6, journal.BATCH)]
    last = [(notes_[2:4], 7, journal.NOTE), (notes_[6:], 8, journal.NOTE)]
    return [
        join_pieces([(0, segment(journal.MAGIC, first + more + last))]),
        join_pieces([(0, segment(journal.MAGIC, first + more)), (1, segment(journal.MAGIC, first[:1] + last))]),
        join_pieces([(1, segment(journal.MAGIC, first[:1] + more)), (3, segment(journal.MAGIC, first))]),
    ]


# --- the client ----------------------------------------------------------------------------------

SAID, FLUSH, RECORD, WAIT, END = 1, 2, 3, 4, 5


class _Link:
    """A stand-in for the sockets of a producer: it receives the responses in `heard`, and counts what is sent."""

    def __init__(self) -> None:
        self.heard: list[Response] = []
        self.sent = 0
        self.said = 0
        self.taking = True

    def connect_events(self, address: str) -> None:
        if not address.startswith(("ipc://", "tcp://")):
            raise EndpointError(f"{address!r} is not an address")

    def send_events(self, data: bytes | bytearray) -> bool:
        self.sent += self.taking
        return self.taking

    def send_control(self, message: Request) -> bool:
        codec.decode_request(codec.encode_control(message))
        self.said += 1
        return True

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        heard, self.heard = self.heard, []
        return heard

    def close(self, linger_s: float) -> None:
        pass


def run_conversation(data: bytes) -> int:
    """Check that the producer's account stays true and its memory bounded for any aggregator."""
    clock = FakeClock()
    recorders = python_recorders(now=clock.monotonic_ns)
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    outbox = Outbox("p", recorders.buffer, [], tallies={}, row_bound=50)
    link = _Link()
    talk = ProducerSession(link, outbox, Hello(producer="p"), "tcp://h:1", ring_bytes=4_096, clock=clock)
    emitted = 0
    pieces = split_pieces(data)[:_MOST_PIECES]
    for kind, payload in pieces:
        if kind == SAID:
            _hear(talk, link, payload)
        elif kind == FLUSH:
            talk.flush()
        elif kind == RECORD:
            for _ in range(len(payload) % 16):
                record(1.0)
                emitted += 1
        elif kind == WAIT:
            clock.advance(len(payload) % 4)
            link.taking = not link.taking
        elif kind == END:
            talk.say_end()
        talk.step()
        outbox.settle()
        assert outbox.emitted + outbox.waiting == emitted
        kept = talk.ring.kept()
        assert talk.ring.bytes == sum(limits.RESEND_BATCH_BYTES + len(talk.ring.get(seq) or b"") for seq in kept)
        assert len(talk._again) == len(set(talk._again)) <= _MOST_PIECES
    assert link.said <= 20 * (len(pieces) + 1)
    return max(1, sum(kind == SAID for kind, _ in pieces))


def _hear(talk: ProducerSession, link: _Link, payload: bytes) -> None:
    try:
        link.heard.append(codec.decode_response(payload))
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
    talk.step()


def conversations() -> list[bytes]:
    said = [(SAID, codec.encode_control(response)) for response in valid.responses()]
    welcome, again, pong, draining, ack, resend, ended, error = (said[at] for at in (0, 1, 2, 3, 4, 5, 6, 13))
    some = [(RECORD, b"12345"), (FLUSH, b"")]
    return [
        join_pieces([welcome, *some, *some, pong, resend, (FLUSH, b""), ack, *some, draining, (END, b""), ended]),
        join_pieces(
            [welcome, *some, (WAIT, b"123"), *some, again, (FLUSH, b""), resend, (WAIT, b"1"), (FLUSH, b"")]
        ),
        join_pieces([error, welcome, *some, ack, resend, (END, b""), resend]),
    ]


def run_address(data: bytes) -> int:
    """Addresses that an aggregator names."""
    advertised, _, own = data.decode("utf-8", "replace").partition("\n")
    for endpoint in (own, "tcp://127.0.0.1:5555", "ipc:///x"):
        try:
            assert isinstance(seen_from(advertised, endpoint), str)
        except EndpointError as error:
            refused(error)
    return 1


_APPLYING: Final = (
    *(apply, rows, aggregator_records, book, ids, ids, registry, account, sequence, batch_rows, notes),
    *(extents, extents, text_queue),
)

TARGETS: Final = (
    Target(
        name="aggregator",
        arrays=True,
        run=run_aggregator,
        form=Pieces({EVENTS: Msgpack(8), CONTROL: Msgpack()}, density=0.6),
        seeds=scripts,
        covers=_APPLYING,
        base_bytes=8 * MIB,
        bytes_each=2_000,
    ),
    Target(
        name="restore",
        arrays=True,
        run=run_restore,
        form=Msgpack(),
        seeds=checkpoints,
        covers=(checkpoint, Aggregator.restore),
        base_bytes=16 * MIB,
        bytes_each=2_000,
    ),
    Target(
        name="fold",
        arrays=True,
        run=run_fold,
        form=Pieces(dict.fromkeys(range(4), Segment(JOURNAL_FORMS, density=0.3)), density=0.3),
        seeds=journals,
        share=0.1,
        covers=(rebuild, numbers),
        base_bytes=32 * MIB,
        bytes_each=2_000,
    ),
    Target(
        name="conversation",
        run=run_conversation,
        form=Pieces({SAID: Msgpack()}),
        seeds=conversations,
        covers=(ProducerSession, sending_outbox),
        base_bytes=4 * MIB,
        bytes_each=500,
    ),
    Target(
        name="address",
        run=run_address,
        form=Toml(),
        seeds=lambda: [b"tcp://0.0.0.0:5\ntcp://[::1]:7", b"ipc:///run/x\n", b"tcp://*:0\ntcp://h:65535"],
        covers=(seen_from,),
        head=b"tcp://",
    ),
)
