"""Codec laws: what is encoded is decoded, and nothing but `Malformed` comes of broken bytes.

Values are drawn from the structs' own annotations, limits included, so a new field is tested when it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as mi

from telemetry.wire import codec, control, events, history, journal, snapshot
from telemetry.wire.drop_reasons import FRAME_REASONS, Reason

SIZE = 3
INT64 = (-(1 << 63), (1 << 63) - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "version": st.tuples(st.just(1), st.integers(0, 1_000)),
    "protocol": st.tuples(st.just(1), st.integers(0, 1_000)),
    "schema_version": st.just(1),
}
"""Fields of which any value of their type would not do."""


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Every value a type lets through, except NaN and infinity, which no comparison or JSON survives."""
    return from_info(mi.type_info(kind))


def text_of(kind: mi.StrType) -> st.SearchStrategy[str]:
    if kind.pattern is not None:
        return st.from_regex(kind.pattern, fullmatch=True)
    return st.text(
        st.characters(codec="utf-8"), min_size=kind.min_length or 0, max_size=min(kind.max_length or 20, 20)
    )


def whole_of(kind: mi.IntType) -> st.SearchStrategy[int]:
    low = kind.ge if kind.ge is not None else kind.gt + 1 if kind.gt is not None else INT64[0]
    high = kind.le if kind.le is not None else kind.lt - 1 if kind.lt is not None else INT64[1]
    return st.integers(low, high)


def struct_of(kind: mi.StructType) -> st.SearchStrategy[Any]:
    return OWN[kind.cls] if kind.cls in OWN else st.builds(kind.cls, **fields_of(kind.cls))


@st.composite
def series_columns(draw: st.DrawFn) -> history.SeriesColumns:
    """Columns that fit together."""
    occupied = draw(st.lists(st.integers(0, SIZE), max_size=SIZE))
    lengths = {"count": 8, "total": 8, "min": 8, "max": 8, "index": 4}
    drawn = {name: draw(column_of(len(occupied) * width)) for name, width in lengths.items()}
    slots, counts = (draw(column_of(4 * sum(occupied))) for _ in range(2))
    return history.SeriesColumns(
        **drawn, occupied=b"".join(number.to_bytes(4, "little") for number in occupied), slots=slots, counts=counts
    )


def column_of(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def value_columns(count: int) -> st.SearchStrategy[history.ValueColumns]:
    return st.builds(history.ValueColumns, column_of(4 * count), column_of(8 * count))


OWN: dict[type, st.SearchStrategy[Any]] = {
    history.SeriesColumns: series_columns(),
    history.ValueColumns: st.integers(0, SIZE).flatmap(value_columns),
}
"""Structs whose fields have to agree with each other."""


def fields_of(kind: type) -> dict[str, st.SearchStrategy[Any]]:
    info = mi.type_info(kind)
    assert isinstance(info, mi.StructType)
    return {
        field.name: FIELDS[field.name] if field.name in FIELDS else from_info(field.type) for field in info.fields
    }


def dict_of(kind: mi.DictType) -> st.SearchStrategy[Any]:
    return st.dictionaries(from_info(kind.key_type), from_info(kind.value_type), max_size=SIZE)


MAKERS: dict[type, Callable[[Any], st.SearchStrategy[Any]]] = {
    mi.NoneType: lambda kind: st.none(),
    mi.BoolType: lambda kind: st.booleans(),
    mi.IntType: whole_of,
    mi.FloatType: lambda kind: st.floats(kind.ge, kind.le, allow_nan=False, allow_infinity=False),
    mi.StrType: text_of,
    mi.BytesType: lambda kind: st.binary(max_size=16),
    mi.LiteralType: lambda kind: st.sampled_from(kind.values),
    mi.UnionType: lambda kind: st.one_of([from_info(member) for member in kind.types]),
    mi.ListType: lambda kind: st.lists(from_info(kind.item_type), min_size=kind.min_length or 0, max_size=SIZE),
    mi.TupleType: lambda kind: st.tuples(*[from_info(item) for item in kind.item_types]),
    mi.RawType: lambda kind: st.just(msgspec.Raw(b"\x90")),
    mi.DictType: dict_of,
    mi.StructType: struct_of,
}


def from_info(kind: mi.Type) -> st.SearchStrategy[Any]:
    return MAKERS[type(kind)](kind)


number = st.floats(allow_nan=False) | st.integers(0, (1 << 64) - 1)
record = values_of(events.EventRecord)
batch = st.builds(
    events.OutgoingBatch,
    **fields_of(events.RawBatch) | {"records": st.lists(record, max_size=SIZE), "rows": st.lists(number)},
)
stream_record = values_of(events.StreamRecord)
whole_snapshot = values_of(snapshot.MetricsSnapshot)
request = st.one_of([values_of(kind) for kind in get_args(control.Request)])
note = st.one_of([values_of(kind) for kind in journal.NOTES])
response = st.one_of([values_of(kind) for kind in get_args(control.Response)])

DECODERS: dict[str, tuple[Callable[[bytes], object], st.SearchStrategy[bytes]]] = {
    "batch": (codec.decode_batch, batch.map(lambda value: bytes(codec.encode_batch(value)))),
    "snapshot": (codec.decode_snapshot, whole_snapshot.map(codec.encode_snapshot)),
    "stream record": (codec.decode_stream_record, stream_record.map(codec.encode_stream_record)),
    "interval": (codec.decode_interval, values_of(history.Interval).map(codec.encode_interval)),
    "request": (codec.decode_request, request.map(codec.encode_control)),
    "response": (codec.decode_response, response.map(codec.encode_control)),
    "note": (codec.decode_note, note.map(codec.encode_note)),
    "checkpoint": (codec.decode_checkpoint, values_of(journal.Checkpoint).map(codec.encode_checkpoint)),
}
TOPIC = {"batch": codec.EVENTS, "snapshot": codec.SNAPSHOTS, "stream record": codec.RECORDS}


@given(record)
def test_records_round_trip(value: events.EventRecord) -> None:
    """Every record type, every field."""
    data = msgspec.msgpack.encode(value)
    assert codec.decode_record(data) == value
    assert codec.record_tag(data) == type(value).__struct_config__.tag


@given(record)
def test_records_round_trip_as_json(value: events.EventRecord) -> None:
    """The record log keeps them as JSON lines."""
    assert msgspec.json.decode(msgspec.json.encode(value), type=events.EventRecord) == value


@given(batch)
def test_batches_round_trip(value: events.OutgoingBatch) -> None:
    """The header field by field, records one by one, rows as numbers."""
    decoded = codec.decode_batch(codec.encode_batch(value))
    names = ("version", "producer", "seq", "first", "anchor", "dropped")
    assert [getattr(decoded, name) for name in names] == [getattr(value, name) for name in names]
    assert [codec.decode_record(raw) for raw in decoded.records] == value.records
    assert msgspec.msgpack.decode(decoded.rows.data) == value.rows


@given(stream_record)
def test_stream_records_round_trip(value: events.StreamRecord) -> None:
    """Records of the stream come back with their place in the sequence."""
    assert codec.decode_stream_record(codec.encode_stream_record(value)) == value


@given(whole_snapshot)
def test_snapshots_round_trip_as_frame_and_as_file(value: snapshot.MetricsSnapshot) -> None:
    """The wire and the final file hold the same values."""
    assert codec.decode_snapshot(codec.encode_snapshot(value)) == value
    assert codec.snapshot_from_json(codec.snapshot_to_json(value)) == value


@given(request)
def test_requests_round_trip(value: control.Request) -> None:
    """Every request, and its head can be read alone."""
    data = codec.encode_control(value)
    assert codec.decode_request(data) == value
    assert codec.control_head(data).id == value.id


@given(response)
def test_responses_round_trip(value: control.Response) -> None:
    """Every response; raw intervals pass through unread."""
    data = codec.encode_control(value)
    decoded = codec.decode_response(data)
    assert codec.encode_control(decoded) == data
    if not isinstance(value, control.History):
        assert decoded == value


@given(note)
def test_notes_of_the_journal_round_trip(value: journal.Note) -> None:
    """A reader of a journal gets the note that was written into it."""
    assert codec.decode_note(codec.encode_note(value)) == value


@given(values_of(history.Interval))
def test_intervals_round_trip(value: history.Interval) -> None:
    """Columns are bytes and stay as they are."""
    assert codec.decode_interval(codec.encode_interval(value)) == value


def refusal(decode: Callable[[Any], object], data: Any) -> codec.Malformed | None:
    try:
        decode(data)
    except codec.Malformed as error:
        return error
    return None


def only_malformed(decode: Callable[[bytes], object], data: bytes) -> None:
    refused = refusal(decode, data)
    assert refused is None or (refused.reason in FRAME_REASONS and len(str(refused)) <= 200)


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_random_bytes_raise_nothing_but_malformed(kind: str, data: st.DataObject) -> None:
    """Random bytes raise nothing but `Malformed`, behind the right topic as well as without one."""
    noise = data.draw(st.binary(max_size=200))
    only_malformed(DECODERS[kind][0], noise)
    only_malformed(DECODERS[kind][0], TOPIC.get(kind, b"") + noise)
    codec.control_head(noise)
    codec.record_tag(noise)


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_every_truncation_is_malformed(kind: str, data: st.DataObject) -> None:
    """A message that lost its end is never mistaken for a whole one."""
    decode, encoded = DECODERS[kind]
    whole = data.draw(encoded)
    with pytest.raises(codec.Malformed):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_flipped_bits_raise_nothing_but_malformed(kind: str, data: st.DataObject) -> None:
    """A damaged message decodes to something else or is refused."""
    decode, encoded = DECODERS[kind]
    broken = bytearray(data.draw(encoded))
    for at in data.draw(st.lists(st.integers(0, len(broken) * 8 - 1), min_size=1, max_size=4)):
        broken[at // 8] ^= 1 << at % 8
    only_malformed(decode, bytes(broken))
    if kind == "batch" and broken.startswith(codec.EVENTS):
        read_inside(bytes(broken))


def read_inside(frame: bytes) -> None:
    """Read the records of an accepted batch one by one, and check how they are refused."""
    if refusal(codec.decode_batch, frame):
        return
    for raw in codec.decode_batch(frame).records:
        codec.record_tag(raw)
        refused = refusal(codec.decode_record, raw)
        assert refused is None or refused.reason == Reason.MALFORMED_RECORD
