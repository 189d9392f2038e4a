"""The outbox of a leaf: batches for the root of its run, on disk until the root has acknowledged them.

    upstream/00000000.seg, 00000001.seg, …     frames of `telemetry.store.framing`, stamped with the batch's number
    upstream/root                              run id of the root

The batches of one interval are appended together. The last one is marked, so that a torn tail is cut between two
intervals. Segments are deleted once all their batches are acknowledged. The two newest ones stay: their last batch
tells a restarted leaf how to go on, even if the last interval has to be cut off.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.common.files import cut_file, make_folder, open_reader, read_file
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.atomic import OWNER_ONLY, sync_directory, write_atomic
from telemetry.store.framing import FramePosition, SegmentSteps, frame, segment_header
from telemetry.wire.codec import Malformed, decode_batch

MAGIC: Final = b"tmoutb\r\n"
BATCH: Final = 1

_HEAD: Final = struct.Struct("<QQIB")  # roll, number of the first event, events, flags
_LAST: Final = 1  # flag: the last batch of its interval
_CLOSING: Final = 2  # flag: the interval was made when the books were closed
_FRAME_HEAD: Final = struct.Struct("<IIQB")
_ROOT: Final = "root"
_SEGMENT_NAME: Final = re.compile(r"(\d{8,})\.seg")
_SEGMENTS_A_CAP: Final = 16
_LEAST_SEGMENT_BYTES: Final = 64 * limits.KIB
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class StoredBatch(NamedTuple):
    """A batch with the facts that a restarted leaf needs."""

    seq: int
    roll: int
    """Number of the last interval that it belongs to."""
    first: int
    """Number of its first event."""
    events: int
    frame: bytes | bytearray


class _Place(NamedTuple):
    """The position of a batch on the disk."""

    seq: int
    roll: int
    flags: int
    segment: int
    position: FramePosition


class DiskOutbox:
    """A queue of numbered batches on disk. One thread appends, another one reads and acknowledges.

    Nothing is deleted before its acknowledgement. The owner asks `full` before it appends.
    """

    def __init__(self, directory: Path, cap_bytes: int = limits.UPSTREAM_CAP_BYTES) -> None:
        """Open the outbox and cut its torn tail.

        Blocks on the disk: all batches are checked. Raises RunDirectoryError.
        """
        self.directory = directory
        self.next_seq = 0
        """Number of the next batch."""
        self.emitted = 0
        """Number of events numbered so far, including dropped ones."""
        self.dropped: dict[str, int] = {}
        """Number of dropped events so far, by reason."""
        self.rolls = 0
        """Number above the last interval whose batches are on disk."""
        self.closing = False
        """True if the newest batches were made when the books were closed."""
        self.released = 0
        """Number below which batches may be sent. Set by the owner."""
        self._cap_bytes = cap_bytes
        self._segment_bytes = max(_LEAST_SEGMENT_BYTES, cap_bytes // _SEGMENTS_A_CAP)
        self._places: deque[_Place] = deque()
        """Batches that are not acknowledged, and the newest one before them if none is left."""
        self._waiting_bytes = 0
        self._acknowledged = 0
        self._paths: dict[int, Path] = {}
        self._file: AppendFile | None = None
        self._number = 0
        """Number of the next segment."""
        self._root = ""
        self._lock = threading.RLock()
        try:
            make_folder(directory)
            self._load()
        except OSError as error:
            raise RunDirectoryError(f"can't read the outbox for the root: {describe(error)}") from error

    def __len__(self) -> int:
        """Return the number of batches without acknowledgement."""
        with self._lock:
            return self.next_seq - max(self._acknowledged, self._places[0].seq) if self._places else 0

    @property
    def full(self) -> bool:
        """True if the batches without acknowledgement take all the space. A single one always has room."""
        return self._waiting_bytes >= self._cap_bytes

    @property
    def waiting_rolls(self) -> int:
        """Number of intervals from the oldest one without acknowledgement to the newest."""
        with self._lock:
            waiting = next((entry for entry in self._places if entry.seq >= self._acknowledged), None)
            return self.rolls - waiting.roll if waiting is not None else 0

    @property
    def root(self) -> str:
        """Run id of the root that has the batches; empty before the first answer of one. May block on the disk."""
        if not self._root:
            with suppress(OSError, UnicodeDecodeError):
                self._root = read_file(self.directory / _ROOT, limits.KIB, depth=2).decode()
        return self._root

    @root.setter
    def root(self, run_id: str) -> None:
        self._root = run_id
        with suppress(OSError):  # without the file, a restarted leaf trusts the address
            write_atomic(self.directory / _ROOT, run_id.encode(), mode=OWNER_ONLY)

    # --- writing ---------------------------------------------------------------------------------

    def append(self, batches: Sequence[StoredBatch], dropped: dict[str, int], *, closing: bool = False) -> None:
        """Append the batches of one interval, whose numbers continue the outbox. Block until they are on the disk.

        Writes all of them or raises OSError and writes none. `dropped` is the number of dropped events so far.
        """
        last = len(batches) - 1
        flags = [(_LAST if at == last else 0) | (_CLOSING if closing else 0) for at in range(len(batches))]
        payloads = [
            _HEAD.pack(batch.roll, batch.first, batch.events, flag) + batch.frame
            for batch, flag in zip(batches, flags, strict=True)
        ]
        file = self._segment()
        places = []
        begin = file.size
        buffers = []
        for batch, flag, payload in zip(batches, flags, payloads, strict=True):
            head, body = frame([payload], batch.seq, BATCH)
            length, crc, stamp, kind = _FRAME_HEAD.unpack(head)
            position = FramePosition(stamp, kind, length, crc, begin + len(head))
            places.append(_Place(batch.seq, batch.roll, flag, self._number - 1, position))
            begin += len(head) + length
            buffers += [head, body]
        file.append(buffers)
        _sync_data(file.fd)
        with self._lock:
            for entry in places:
                self._keep(entry)
            self.next_seq = batches[-1].seq + 1
            self.emitted = batches[-1].first + batches[-1].events
            self.dropped = dict(dropped)
            self.rolls = batches[-1].roll + 1
            self.closing = closing

    def _segment(self) -> AppendFile:
        if self._file is not None and self._file.size < self._segment_bytes:
            return self._file
        path = self.directory / f"{self._number:08d}.seg"
        with suppress(FileNotFoundError):
            path.unlink()
        file = AppendFile(path, depth=2)
        try:
            file.append([segment_header(MAGIC)])
            sync_directory(self.directory)
        except OSError:
            file.close()
            path.unlink()
            raise
        if self._file is not None:
            self._file.close()
        self._file = file
        with self._lock:
            self._paths[self._number] = path
        self._number += 1
        return file

    # --- reading ---------------------------------------------------------------------------------

    def read(self, seq: int) -> StoredBatch | None:
        """Return the first batch from this number on that may be sent, or None. Blocks on the disk.

        A batch that is damaged on the disk is passed over.
        """
        while (entry := self._place(seq)) is not None:
            payload = self._payload(entry)
            if payload is not None:
                roll, first, events, _ = _HEAD.unpack_from(payload)
                return StoredBatch(entry.seq, roll, first, events, payload[_HEAD.size :])
            seq = entry.seq + 1
        return None

    def _place(self, seq: int) -> _Place | None:
        """Return the first batch from this number on that may be sent. Numbers ascend, with few gaps."""
        with self._lock:
            places = self._places
            if not places or seq >= self.released:
                return None
            at = min(max(0, seq - places[0].seq), len(places) - 1)
            while at and places[at - 1].seq >= seq:
                at -= 1
            entry = places[at]
            return entry if seq <= entry.seq < self.released else None

    def acknowledge(self, batches: int) -> None:
        """Forget all batches below `batches`, and delete the segments that hold no others."""
        with self._lock:
            self._acknowledged = max(self._acknowledged, min(batches, self.next_seq))
            while len(self._places) > 1 and self._places[0].seq < self._acknowledged:
                self._waiting_bytes -= self._places.popleft().position.length
            if self._places and self._places[0].seq < self._acknowledged:
                self._waiting_bytes = 0  # the newest batch stays, but it no longer waits
            oldest = self._places[0].segment if self._places else self._number
            for number in [number for number in self._paths if number < min(oldest, self._number - 2)]:
                with suppress(OSError):
                    self._paths.pop(number).unlink()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _payload(self, entry: _Place) -> bytes | None:
        try:
            path = self._paths[entry.segment]
            with open_reader(path) as file:
                return SegmentSteps(file, path, MAGIC).payload(entry.position)
        except (OSError, KeyError, RunDirectoryError):
            return None

    # --- a restart -------------------------------------------------------------------------------

    def cut(self, rolls: int) -> None:
        """Drop the batches of the intervals from number `rolls` on, which the journal does not have.

        They were never sent. May raise OSError.
        """
        with self._lock:
            kept = [entry for entry in self._places if entry.roll < rolls]
            if len(kept) < len(self._places):
                self._settle(kept)

    def _load(self) -> None:
        files = list(self.directory.iterdir())
        names = [(match, path) for path in files if (match := _SEGMENT_NAME.fullmatch(path.name))]
        places: list[_Place] = []
        for number, path in sorted((int(match[1]), path) for match, path in names):
            self._paths[number] = path
            self._number = number + 1
            with open_reader(path) as file:
                places += _places(SegmentSteps(file, path, MAGIC), number)
        ends = [at for at, entry in enumerate(places) if entry.flags & _LAST]
        self._settle(places[: ends[-1] + 1] if ends else [])

    def _settle(self, places: Sequence[_Place]) -> None:
        """Make these the batches of the outbox, and cut all files after the last one."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._places.clear()
        self._waiting_bytes = 0
        for entry in places:
            self._keep(entry)
        newest = places[-1] if places else None
        end = newest.position.begin + newest.position.length if newest is not None else 0
        for number, path in sorted(self._paths.items(), reverse=True):
            if newest is not None and number == newest.segment:
                cut_file(path, end)
                self._file = AppendFile(path, depth=2)
                break
            path.unlink()
            del self._paths[number]
        self._number = newest.segment + 1 if newest is not None else 0
        self.next_seq = self.released = newest.seq + 1 if newest is not None else 0
        self.rolls = newest.roll + 1 if newest is not None else 0
        self.closing = newest is not None and bool(newest.flags & _CLOSING)
        self.emitted, self.dropped = self._numbered(newest)

    def _numbered(self, newest: _Place | None) -> tuple[int, dict[str, int]]:
        """Return the number of events so far and of dropped ones, as the newest batch has them."""
        payload = self._payload(newest) if newest is not None else None
        if payload is None:
            return 0, {}
        _, first, events, _ = _HEAD.unpack_from(payload)
        try:
            dropped = dict(decode_batch(payload[_HEAD.size :]).dropped)
        except Malformed as malformed:
            raise RunDirectoryError(
                f"can't read the outbox for the root: {malformed}", hint="use the version that wrote it"
            ) from malformed
        return first + events, dropped

    def _keep(self, entry: _Place) -> None:
        self._places.append(entry)
        self._waiting_bytes += entry.position.length


def _places(steps: SegmentSteps, number: int) -> list[_Place]:
    """Return the intact batches of a segment up to the first damaged one. May raise OSError."""
    places = []
    while (position := steps.next()) is not None:
        payload = steps.payload(position)
        if payload is None or position.kind != BATCH or len(payload) < _HEAD.size:
            break
        roll, _, _, flags = _HEAD.unpack_from(payload)
        places.append(_Place(position.stamp, roll, flags, number, position))
    ascending = [after.seq > before.seq for before, after in pairwise(places)]
    return places[: ascending.index(False) + 1] if False in ascending else places
