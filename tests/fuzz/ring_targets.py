"""The ring of a killed producer: any bytes of the two files give batches that can be read, or a reason."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.fuzz.forms import Form, Span
from tests.fuzz.target import MIB, Target, refused
from tests.hand_made_ring import BATCHES, HEADER_BYTES, RECORD_BYTES, HandMadeRing

from telemetry import limits
from telemetry.aggregator.producers.producer import Budgets, Producer
from telemetry.daemon import salvaged_batches
from telemetry.store import ring_file
from telemetry.testing import batch
from telemetry.wire.codec import decode_batch, decode_record, decode_request, encode_control
from telemetry.wire.control import Hello
from telemetry.wire.events import Define, Mark, Note, Params
from telemetry.wire.rings import Introduction

_HEAD: Final = 416
"""Bytes of the header that mean something."""
_ENTRIES: Final = 8
_TABLE: Final = 64 * _ENTRIES
_RECORDS: Final = 512
_SLOTS: Final = 16
_PARTS: Final = (_HEAD, _TABLE, _RECORDS, 24 * _SLOTS)
_RECEIVED: Final = (0, 2)


class RingForm(Form):
    """The used parts of a ring, one after the other, and then its definitions."""

    treasures = (
        *(
            b"\0" * 8,
            b"\xff" * 8,
            b"\x01" + b"\0" * 7,
            b"\x10" + b"\0" * 7,
            b"\0" * 6 + b"\x04\0",
            b"\0" * 7 + b"\x80",
        ),
        *(b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\x91\xc0", b"\x80", b"\xc1"),
    )

    def find_spans(self, data: bytes) -> list[Span]:
        """Return the words of header, table and slots, and the entries of records and definitions."""
        records_at = _HEAD + _TABLE
        words = [(at, at + 8) for at in (*range(0, records_at, 8), *range(records_at + _RECORDS, sum(_PARTS), 8))]
        found = [
            *words,
            *_entries(data, records_at, records_at + _RECORDS),
            *_entries(data, sum(_PARTS), len(data)),
        ]
        return [span for span in found if span[1] <= len(data)]


def _entries(data: bytes, at: int, end: int) -> list[Span]:
    spans = []
    while at + 4 <= min(end, len(data)):
        size = int.from_bytes(data[at : at + 4], "little") & 0xFFFF
        spans += [(at, at + 4), (at + 4, at + 4 + size)]
        at += 4 + size
    return [span for span in spans if span[1] <= end]


@cache
def _folder() -> Path:
    """Return the folder of the files, which is removed when the process ends."""
    made = tempfile.TemporaryDirectory(prefix="ring")
    _KEPT.append(made)
    return Path(made.name)


_KEPT: Final[list[object]] = []


def _write(data: bytes) -> str:
    """Write both files, with the parts that are not in the input as they are in a new ring."""
    whole = bytearray(HEADER_BYTES + 64 * BATCHES + RECORD_BYTES)
    places = (0, HEADER_BYTES, HEADER_BYTES + 64 * BATCHES, len(whole))
    at = 0
    for place, size in zip(places, _PARTS, strict=True):
        part = data[at : at + size]
        whole[place : place + len(part)] = part
        at += size
    for entry in range(HEADER_BYTES, HEADER_BYTES + _TABLE, 64):
        *numbers, found = struct.unpack_from("<8Q", whole, entry)
        if any(numbers) and not found:  # else hardly a changed entry would get past its checksum
            struct.pack_into("<Q", whole, entry + 56, ring_file.checksum(*numbers))
    path = _folder() / "p.ring"
    for file, content in ((path, bytes(whole)), (path.with_suffix(".defs"), data[at:])):
        file.touch(mode=0o600)
        file.write_bytes(content)
    return str(path)


def run_ring(data: bytes) -> int:
    """Return 1. All batches can be decoded, are numbered once, and have no more events than were recorded.

    So can the introduction, if there is one.
    """
    path = _write(data)
    introduction = ring_file.read_introduction(path)
    assert introduction is None or decode_request(encode_control(introduction.hello)) == introduction.hello
    producer = Producer("p", Budgets(10), 0)
    for seq in _RECEIVED:
        producer.admit(batch("p", seq, 0), 0, 0)
        producer.applied(seq)
    try:
        with ring_file.open_ring(path, "p") as ring:
            rebuilt = salvaged_batches.RebuiltBatches(ring, producer)
            frames = list(rebuilt.frames())
            end = rebuilt.end()
    except ring_file.RingUnreadable as error:
        refused(error)
        return 1
    seqs, recorded = set(), 0
    for frame in frames:
        assert len(frame) <= limits.FRAME_BYTES
        decoded = decode_batch(frame)
        recorded += decoded.rows.events
        recorded += sum(not isinstance(decode_record(one), Define) for one in decoded.records)
        assert decoded.rows.body is not None
        seqs.add(decoded.seq)
    assert recorded <= end.emitted
    assert len(seqs) == len(frames)
    assert seqs.isdisjoint(_RECEIVED) or rebuilt.contradicts
    return 1


def _seeds() -> list[bytes]:
    ring = HandMadeRing(Path("p.ring"), "p", capacity=_SLOTS)
    ring.defines = [Define(1, "a", "series"), Define(2, "b", "counter", labels={"token": "s3cret-s3cret"})]
    seeds = [_parts(ring)]
    for number in range(4):
        ring.record(*((1.0, number, float(value)) for value in range(number + 1)))
        ring.keep(Mark(f"m{number}"))
        ring.pack()
        seeds.append(_parts(ring))
    ring.record((2.0, 5, 1.0), (1.0, 6, 2.0))
    ring.keep(Note("a", "password=hunter22"), Params({"token": "s3cret-s3cret"}))
    ring.keep(b"", skipped=True)
    ring.counts = [1, 2, 3, 4, 0, 0, 0, 0]
    seeds.append(_parts(ring))
    ring.requests_ended, ring.requests_logged = 7, 4
    ring.introduction = Introduction(Hello(producer="p", host="h", pid=7, rank=1), "ipc:///run/ctl", "mnt:[1]")
    seeds.append(_parts(ring))
    ring.record(*((1.0, 9, float(value)) for value in range(2 * _SLOTS)))
    ring.writing = ring.rows + 3
    return [*seeds, _parts(ring)]


def _parts(ring: HandMadeRing) -> bytes:
    whole = ring.bytes()
    records_at = HEADER_BYTES + 64 * BATCHES
    return b"".join(
        (
            whole[:_HEAD],
            whole[HEADER_BYTES : HEADER_BYTES + _TABLE],
            whole[records_at : records_at + _RECORDS],
            whole[records_at + RECORD_BYTES :],
            ring.definitions(),
        )
    )


TARGETS: Final = [
    Target(
        name="ring",
        run=run_ring,
        form=RingForm(),
        seeds=_seeds,
        covers=(ring_file, ring_file, salvaged_batches),
        base_bytes=4 * MIB,
        bytes_each=2_000,
        share=0.05,
        arrays=True,
    )
]
