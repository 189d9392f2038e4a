"""Notes and checkpoints of the journal: what goes in comes out, and anything else is `Malformed`."""

from __future__ import annotations

import typing
from collections.abc import Callable

import msgspec
import pytest

from telemetry.wire import codec
from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, TellBackend, Watch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.journal import (
    NOTES,
    BadFrames,
    Checkpoint,
    Closed,
    Ending,
    Note,
    Rolled,
    RunState,
    Salvaging,
    Sliced,
)
from telemetry.wire.snapshot import BackendStat, CommandFacts

EVERY_NOTE: tuple[Note, ...] = (
    Hello(id=1, producer="p", name="n", host="h", pid=7, rank=3, mono_ns=9),
    End(id=3, producer="p", batches=2, emitted=5, dropped={"buffer_full": 1}),
    CannotResend(producer="p", first=1, last=2),
    Watch(pid=7),
    Rolled(start_wall_ns=1 << 60, end_wall_ns=(1 << 60) + 1, elapsed_ns=1, snapshot_seq=4),
    BadFrames(counts={"wrong_topic": 2}),
    Ending(reason="stopped", interrupted=True, command=CommandFacts(argv=["a"], exit_code=0)),
    Closed(),
    ExpectNodes(nodes=["gpu-1"], count=4),
    Salvaging(producer="p"),
    TellBackend(stat=BackendStat(name="w", kind="jsonl", state="failed", last_error="no key", refused=[3])),
    Sliced(),
)
STATE = RunState(
    run_id="r",
    name="n",
    host="h",
    started_ns=1,
    started_mono_ns=2,
    rolled_wall_ns=3,
    rolled_mono_ns=4,
    rolls=5,
    records=6,
    snapshot_seq=7,
    watched=[7],
    ending=Ending(reason="stopped"),
    warnings=["a sentence"],
    backends=[BackendStat(name="w", kind="jsonl")],
)
NUMBERS = msgspec.msgpack.encode({"any": [1, 2.5]})


def reason_of(decode: Callable[[bytes], object], data: bytes) -> Reason:
    with pytest.raises(codec.Malformed) as caught:
        decode(data)
    return caught.value.reason


@pytest.mark.parametrize("note", EVERY_NOTE, ids=lambda note: type(note).__name__)
def test_a_note_comes_back_as_it_went_in(note: Note) -> None:
    """The numbers of a run are rebuilt from these: a field that is lost here is lost in them."""
    assert codec.decode_note(codec.encode_note(note)) == note


def test_every_kind_of_note_is_listed_and_tried() -> None:
    """A note that is left out of the list could be written and never read."""
    assert tuple(typing.get_args(Note)) == NOTES == tuple(type(note) for note in EVERY_NOTE)


def test_types_of_notes_are_those_of_the_files() -> None:
    """Types are words on disk: never renamed, never used again."""
    tags = [kind.__struct_config__.tag for kind in NOTES]
    assert tags == [
        *("hello", "end", "cannot_resend", "watch", "rolled", "bad_frames", "ending", "closed", "nodes"),
        *("salvaging", "backend", "sliced"),
    ]


def test_a_checkpoint_keeps_the_numbers_raw() -> None:
    """A checkpoint keeps the aggregator's own numbers raw.

    A reader of the run's state alone needs not know them.
    """
    checkpoint = codec.decode_checkpoint(
        codec.encode_checkpoint(Checkpoint(run=STATE, numbers=msgspec.Raw(NUMBERS)))
    )
    assert checkpoint.run == STATE
    assert bytes(checkpoint.numbers) == NUMBERS


def test_a_checkpoint_of_another_schema_is_called_that() -> None:
    """A checkpoint of another schema is called that, whatever else is in it.

    Numbers of another layout must not be taken for ours.
    """
    data = msgspec.msgpack.encode({"schema_version": 2, "all": "new"})
    assert reason_of(codec.decode_checkpoint, data) == Reason.WRONG_VERSION


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000 + b"\xc0",
        msgspec.msgpack.encode({"type": "dance"}),
        msgspec.msgpack.encode({"type": "rolled"}),
        msgspec.msgpack.encode({"type": "ping", "id": 1}),
        msgspec.msgpack.encode({"type": "bad_frames", "counts": {"x": "y"}}),
        msgspec.msgpack.encode({"type": "bad_frames", "counts": {"x": -1}}),
        msgspec.msgpack.encode({"type": "rolled", "start_wall_ns": 0, "end_wall_ns": 1 << 63, "elapsed_ns": 0}),
        msgspec.msgpack.encode({"type": "rolled", "start_wall_ns": -1, "end_wall_ns": 0, "elapsed_ns": 0}),
        msgspec.msgpack.encode([1, 2]),
        codec.encode_note(EVERY_NOTE[0])[:-1],
        codec.encode_note(EVERY_NOTE[0]) + b"\x00",
    ],
    ids=lambda data: data[:20].hex() or "empty",
)
def test_bytes_that_are_no_note_or_checkpoint_are_unreadable(data: bytes) -> None:
    """Bytes that are no note or checkpoint raise only `Malformed`, whatever is in the file."""
    assert reason_of(codec.decode_note, data) == Reason.FRAME_UNREADABLE
    assert reason_of(codec.decode_checkpoint, data) == Reason.FRAME_UNREADABLE


@pytest.mark.parametrize("field", ["started_ns", "rolled_wall_ns", "rolled_mono_ns", "rolls", "records"])
@pytest.mark.parametrize("value", [-1, 1 << 63])
def test_numbers_that_no_clock_or_count_can_reach_are_refused(field: str, value: int) -> None:
    """Numbers that no clock or count can reach are refused. Later they go into columns of 64 bits with a sign."""
    state = msgspec.structs.replace(STATE, **{field: value})
    data = codec.encode_checkpoint(Checkpoint(run=state, numbers=msgspec.Raw(NUMBERS)))
    assert reason_of(codec.decode_checkpoint, data) == Reason.FRAME_UNREADABLE
