"""Codec: every kind of broken frame has its reason, and only `Malformed` is raised."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from telemetry import limits
from telemetry.wire import codec, control
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Mark, OutgoingBatch, Sample, StreamRecord
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

DEPTH_BOMB = b"\x91" * 100_000 + b"\xc0"
BATCH = [[1, 0], "p", 0, 0, [0, 0], {}, [], []]


def events_frame(*fields: object) -> bytes:
    return codec.EVENTS + msgspec.msgpack.encode(fields)


def changed(at: int, value: object) -> bytes:
    return events_frame(*BATCH[:at], value, *BATCH[at + 1 :])


def reason_of(decode: Callable[[bytes], object], data: bytes) -> Reason:
    with pytest.raises(codec.Malformed) as caught:
        decode(data)
    assert len(str(caught.value)) <= 200
    return caught.value.reason


# --- batches -------------------------------------------------------------------------------------


def test_a_batch_keeps_records_and_rows_raw() -> None:
    """One bad record can't cost its neighbours: each is decoded by itself."""
    batch = codec.decode_batch(changed(6, [["mark", "a"], ["nonsense"], 5]))
    assert codec.decode_record(batch.records[0]) == Mark("a")
    assert reason_of(codec.decode_record, batch.records[1]) == Reason.MALFORMED_RECORD
    assert reason_of(codec.decode_record, batch.records[2]) == Reason.MALFORMED_RECORD


def test_a_batch_of_a_later_minor_version_is_read() -> None:
    """Trailing fields are ignored."""
    batch = codec.decode_batch(events_frame([1, 7], *BATCH[1:], {"later": [1]}, "later"))
    assert batch.version == (1, 7)


@pytest.mark.parametrize(
    "frame",
    [
        events_frame([2, 0], *BATCH[1:]),
        events_frame([2, 0], "another", {"layout": 1}),
        events_frame([2, 0]),
        events_frame([0, 9], 1, 2, 3),
    ],
)
def test_another_major_version_is_named_as_such(frame: bytes) -> None:
    """Another major version is named as such, whatever the rest of the frame looks like."""
    assert reason_of(codec.decode_batch, frame) == Reason.WRONG_VERSION


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"ev/1",
        b"ev/2\0\0\0\0" + msgspec.msgpack.encode(BATCH),
        codec.SNAPSHOTS + msgspec.msgpack.encode(BATCH),
    ],
)
def test_a_frame_of_another_topic_is_refused(frame: bytes) -> None:
    """A producer that connected to the wrong socket is told apart from noise."""
    assert reason_of(codec.decode_batch, frame) == Reason.WRONG_TOPIC


@pytest.mark.parametrize(
    "frame",
    [
        codec.EVENTS,
        codec.EVENTS + b"\xc1",
        codec.EVENTS + b"\xdd\xff\xff\xff\xff\x01",
        codec.EVENTS + b"\xdf\xff\xff\xff\xff\x01",
        codec.EVENTS + b"\x98\x92\x01\x00\xdb\xff\xff\xff\xff",
        codec.EVENTS + DEPTH_BOMB,
        events_frame(*BATCH) + b"\x00",
        events_frame(*BATCH)[:-1],
        events_frame(*BATCH[:7]),
        changed(0, [1]),
        changed(0, "1.0"),
        changed(1, ""),
        changed(1, "p" * (limits.PRODUCER_ID_CHARS + 1)),
        changed(2, -1),
        changed(2, 1 << 63),
        changed(2, 1.5),
        changed(3, None),
        changed(4, [0]),
        changed(4, [0, -1]),
        changed(5, {"reason": -1}),
        changed(5, {"": 1}),
        changed(5, {"r" * (limits.REASON_CHARS + 1): 1}),
        changed(5, {str(i): 1 for i in range(limits.DROP_REASONS + 1)}),
        changed(6, [None] * (limits.BATCH_RECORDS + 1)),
        changed(6, {}),
        codec.EVENTS + b"\x98\x92\x01\x00\xa1\xff\x00\x00\x92\x00\x00\x80\x90\x90",
        codec.EVENTS + b"\x98\x92\x01\x00\xa1p\x00\x00\x92\x00\x00\x80\x90" + DEPTH_BOMB,
        codec.EVENTS + b"\x98\x92\x01\x00\xa1p\x00\x00\x92\x00\x00\x80\x91" + DEPTH_BOMB + b"\x90",
        codec.EVENTS + b"\x99\x92\x01\x00\xa1p\x00\x00\x92\x00\x00\x80\x90\x90" + DEPTH_BOMB,
    ],
    ids=lambda frame: frame[8:28].hex() or "empty",
)
def test_a_broken_batch_is_unreadable(frame: bytes) -> None:
    """Truncated, nested without end, of huge declared length, of the wrong types or beyond a limit."""
    assert reason_of(codec.decode_batch, frame) == Reason.FRAME_UNREADABLE


def test_a_frame_beyond_the_limit_is_refused_before_it_is_read() -> None:
    """The limit itself still passes."""
    assert reason_of(codec.decode_batch, bytes(limits.FRAME_BYTES + 1)) == Reason.FRAME_TOO_LARGE
    assert reason_of(codec.decode_batch, bytes(limits.FRAME_BYTES)) == Reason.WRONG_TOPIC


def test_the_text_of_an_error_is_bounded() -> None:
    """The text of an error is bounded.

    `msgspec` quotes what it refused, and a log line must not carry four megabytes of that.
    """
    with pytest.raises(codec.Malformed) as caught:
        codec.decode_record(msgspec.msgpack.encode(["x" * 100_000]))
    assert len(str(caught.value)) == 200


def test_what_a_producer_encodes_is_what_is_decoded() -> None:
    """Both sides of a batch have the same fields in the same order."""
    out = OutgoingBatch((1, 0), "p", 3, 4, (5, 6), {"buffer_full": 7}, [Sample("s", 1.0)], [0.0, 1 << 40, 2.0])
    batch = codec.decode_batch(codec.encode_batch(out))
    for name in ("version", "producer", "seq", "first", "anchor", "dropped"):
        assert getattr(batch, name) == getattr(out, name)
    assert [codec.decode_record(raw) for raw in batch.records] == out.records
    assert msgspec.msgpack.decode(batch.rows.data) == out.rows
    assert [field.name for field in msgspec.structs.fields(OutgoingBatch)] == [
        field.name for field in msgspec.structs.fields(type(batch))
    ]


@pytest.mark.parametrize(
    ("record", "tag"),
    [
        (["define", -1], "define"),
        (["define"], "define"),
        (["later", {"a": 1}], "later"),
        ([], ""),
        ([5], ""),
        ({"tag": 1}, ""),
        (None, ""),
    ],
)
def test_the_tag_of_an_unreadable_record_is_known(record: object, tag: str) -> None:
    """A broken definition has no event number either, so its tag decides."""
    assert codec.record_tag(msgspec.msgpack.encode(record)) == tag


# --- snapshots and the record stream -------------------------------------------------------------


def snapshot_frame(**fields: object) -> bytes:
    return codec.SNAPSHOTS + msgspec.msgpack.encode({"run_id": "r", "name": "n"} | fields)


def test_a_snapshot_round_trips() -> None:
    """A snapshot round-trips as a frame and as JSON."""
    snapshot = MetricsSnapshot(run_id="r", name="n", series=[SeriesStat(name="s", percentiles={"50": 1})])
    assert codec.decode_snapshot(codec.encode_snapshot(snapshot)) == snapshot
    assert codec.snapshot_from_json(codec.snapshot_to_json(snapshot)) == snapshot


def test_a_snapshot_of_a_later_minor_version_is_read() -> None:
    """Unknown keys are ignored at every level."""
    frame = snapshot_frame(protocol=[1, 9], mood="good", series=[{"name": "s", "mood": [1]}])
    assert codec.decode_snapshot(frame).series == [SeriesStat(name="s")]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", Reason.WRONG_TOPIC),
        (codec.RECORDS + b"\x80", Reason.WRONG_TOPIC),
        (codec.SNAPSHOTS, Reason.FRAME_UNREADABLE),
        (codec.SNAPSHOTS + b"\x80", Reason.FRAME_UNREADABLE),
        (codec.SNAPSHOTS + DEPTH_BOMB, Reason.FRAME_UNREADABLE),
        (snapshot_frame(state="ASLEEP"), Reason.FRAME_UNREADABLE),
        (snapshot_frame(protocol=[2, 0]), Reason.WRONG_VERSION),
        (snapshot_frame(protocol=[2, 0], state="ASLEEP"), Reason.WRONG_VERSION),
    ],
    ids=["empty", "topic", "no payload", "no run", "depth bomb", "state", "version", "version and state"],
)
def test_a_broken_snapshot_has_its_reason(frame: bytes, reason: Reason) -> None:
    """A subscriber can tell an older aggregator from a broken one."""
    assert reason_of(codec.decode_snapshot, frame) == reason


def test_json_of_another_schema_is_refused_by_name() -> None:
    """A result file of a later package is not misread."""
    assert reason_of(codec.snapshot_from_json, b'{"schema_version": 2, "anything": 1}') == Reason.WRONG_VERSION
    assert reason_of(codec.snapshot_from_json, b'{"schema_version": 1') == Reason.FRAME_UNREADABLE
    assert reason_of(codec.snapshot_from_json, b"\xff") == Reason.FRAME_UNREADABLE
    assert reason_of(codec.snapshot_from_json, b"[" * 100_000) == Reason.FRAME_UNREADABLE


def test_a_stream_record_round_trips_or_says_why_not() -> None:
    """Topic, version and content are checked."""
    record = StreamRecord((1, 0), "r", 0, "p", 5, Mark("m"))
    assert codec.decode_stream_record(codec.encode_stream_record(record)) == record
    assert reason_of(codec.decode_stream_record, b"") == Reason.WRONG_TOPIC
    assert reason_of(codec.decode_stream_record, codec.RECORDS + b"\x90") == Reason.FRAME_UNREADABLE
    newer = codec.RECORDS + msgspec.msgpack.encode([[2, 0], "?"])
    assert reason_of(codec.decode_stream_record, newer) == Reason.WRONG_VERSION
    same_shape = codec.encode_stream_record(msgspec.structs.replace(record, version=(2, 0)))
    assert reason_of(codec.decode_stream_record, same_shape) == Reason.WRONG_VERSION


# --- control -------------------------------------------------------------------------------------


def test_an_unknown_request_can_be_answered() -> None:
    """An unknown request can be answered, as its id and type are known though it can't be read."""
    data = msgspec.msgpack.encode({"type": "dance", "id": 7, "partner": [1]})
    assert reason_of(codec.decode_request, data) == Reason.FRAME_UNREADABLE
    assert codec.control_head(data) == codec.ControlHead(7, "dance")


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", DEPTH_BOMB, msgspec.msgpack.encode({"id": "seven"})])
def test_the_head_of_noise_is_empty(data: bytes) -> None:
    """Looking for an id never fails."""
    assert codec.control_head(data) == codec.ControlHead()


def test_a_hello_of_another_major_version_is_named_as_such() -> None:
    """A hello of another major version is named as such, even if nothing else of it can be read."""
    data = msgspec.msgpack.encode({"type": "hello", "id": 1, "version": [2, 0], "producer": {"new": "shape"}})
    assert reason_of(codec.decode_request, data) == Reason.WRONG_VERSION


def test_requests_are_bounded_and_responses_are_not() -> None:
    """A status reply may carry a snapshot of any size; what a stranger sends may not."""
    assert reason_of(codec.decode_request, bytes(limits.FRAME_BYTES + 1)) == Reason.FRAME_TOO_LARGE
    large = MetricsSnapshot(run_id="r", name="n", warnings=["w" * limits.FRAME_BYTES])
    status = control.Status(snapshot=large)
    assert codec.decode_response(codec.encode_control(status)) == status


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xc0", b"\x81\xa4type\xa1\xff", DEPTH_BOMB])
def test_noise_on_control_is_unreadable(data: bytes) -> None:
    """Noise on control is unreadable, and no error but `Malformed` comes out."""
    assert reason_of(codec.decode_request, data) == Reason.FRAME_UNREADABLE
    assert reason_of(codec.decode_response, data) == Reason.FRAME_UNREADABLE


def test_an_id_is_found_beside_a_version_that_is_none() -> None:
    """An id is read beside a version that is none.

    A peer that asks in an unknown shape still learns which of its questions was not understood.
    """
    data = msgspec.msgpack.encode({"version": "one", "type": "dance", "id": 7})
    assert codec.control_head(data) == codec.ControlHead(7, "dance")
    data = msgspec.msgpack.encode({"version": [2, 0], "type": 5, "id": "x"})
    assert codec.control_head(data) == codec.ControlHead(version=(2, 0))


@pytest.mark.parametrize("word", ["a\nb", "\x1b[2J", "\x00", "\u202e", "\x85"])
def test_a_refusal_is_one_printable_line(word: str) -> None:
    """A refusal is one printable line.

    Words from a stranger are quoted in logs and answers, and must not move their cursor.
    """
    with pytest.raises(codec.Malformed) as caught:
        codec.decode_request(msgspec.msgpack.encode({"type": word}))
    assert str(caught.value).isprintable()
