"""A ring file that a test writes byte by byte, as docs/RING.md describes it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import msgspec

from telemetry.store.ring_file import checksum
from telemetry.wire.events import BaseRecord, Define
from telemetry.wire.rings import Introduction

CAPACITY = 64
RECORD_BYTES = 4_096
HEADER_BYTES = 4_096
BATCHES = 1_024
RULES: dict[str, object] = {"secrets": True, "personal": False, "patterns": []}
Row = tuple[float, int, float]


class HandMadeRing:
    """The ring of a producer, in memory until `write`. Its process holds no lock, so it counts as ended."""

    def __init__(self, path: Path, producer: str, *, capacity: int = CAPACITY, most_slots: int = 0) -> None:
        self.path = path
        self.producer = producer
        self.capacity = capacity
        self.most_slots = most_slots or capacity
        self.counts = [0] * 8
        self.rows = self.records = self.record_bytes = 0
        self.writing = self.floor = self.record_writing = 0
        self.taken: int | None = None
        """Rows below are in a batch or were given up; None: all."""
        self.pid = os.getpid()
        self.anchor = (5_000, 1_700_000_000_000_000_000)
        self.requests_ended = self.requests_logged = 0
        self.introduction: Introduction | None = None
        self.emitted = self.next_seq = 0
        self.rules: dict[str, object] | bytes = RULES
        self.defines: list[Define] = []
        self._slots = bytearray(24 * self.most_slots)
        self._record_ring = bytearray(RECORD_BYTES)
        self._table = bytearray(64 * BATCHES)

    def record(self, *rows: Row) -> None:
        """Commit rows."""
        for row in rows:
            struct.pack_into("<dQd", self._slots, 24 * (self.rows % self.capacity), *row)
            self.rows += 1

    def keep(self, *records: BaseRecord | bytes, skipped: bool = False) -> None:
        """Commit records; with `skipped`, without their bytes."""
        for record in records:
            data = record if isinstance(record, bytes) else msgspec.msgpack.encode(record)
            entry = struct.pack("<I", 1 << 31) if skipped else struct.pack("<I", len(data)) + data
            for byte in entry:
                self._record_ring[self.record_bytes % RECORD_BYTES] = byte
                self.record_bytes += 1
            self.records += 1

    def pack(self) -> int:
        """Note a batch with all rows and records that no batch has, and return its number."""
        seq = self.next_seq
        entry = (seq + 1, self.emitted, self.rows, self.records, self.record_bytes, 7_000 + seq, 8_000 + seq)
        struct.pack_into("<8Q", self._table, 64 * (seq % BATCHES), *entry, checksum(*entry))
        self.emitted = self.rows + self.records
        self.next_seq += 1
        return seq

    def bytes(self) -> bytes:
        """Return the whole file."""
        head = bytearray(HEADER_BYTES)
        size = HEADER_BYTES + len(self._table) + RECORD_BYTES + len(self._slots)
        struct.pack_into("<8sII", head, 0, b"TMTRING1", 1, 0)
        struct.pack_into("<4Q", head, 16, size, self.most_slots, RECORD_BYTES, BATCHES)
        struct.pack_into("<4Q", head, 48, self.pid, 0, *self.anchor)
        struct.pack_into("<64s", head, 80, self.producer.encode())
        struct.pack_into("<4Q", head, 192, self.rows, self.writing, self.capacity, self.floor)
        struct.pack_into("<8Q", head, 224, *self.counts)
        struct.pack_into("<3Q", head, 320, self.records, self.record_bytes, self.record_writing)
        struct.pack_into("<2Q", head, 344, self.requests_ended, self.requests_logged)
        struct.pack_into("<Q", head, 384, self.rows if self.taken is None else self.taken)
        return bytes(head + self._table + self._record_ring + self._slots)

    def definitions(self) -> bytes:
        """Return the file of definitions."""
        rules = self.rules if isinstance(self.rules, bytes) else msgspec.msgpack.encode(self.rules)
        first = [] if self.introduction is None else [msgspec.msgpack.encode(self.introduction)]
        entries = [*first, rules, *map(msgspec.msgpack.encode, self.defines)]
        return b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)

    def write(self) -> str:
        """Write both files, and return the path of the ring."""
        for path, data in ((self.path, self.bytes()), (self.path.with_suffix(".defs"), self.definitions())):
            path.touch(mode=0o600)
            path.write_bytes(data)
        return str(self.path)
