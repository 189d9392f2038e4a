"""The request log: what programs knew of each request, so that joint questions can be asked later.

    requests/requests.log       frames of `telemetry.store.framing`

The stamp of a frame is its number in the run. The payload is a `telemetry.wire.request_log.LoggedRecords`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.common.files import make_folder, open_reader
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.framing import Kind, SegmentReader, frame, segment_header
from telemetry.wire.codec import Malformed, decode_logged, encode_logged
from telemetry.wire.request_log import LoggedRecords

FILE_NAME: Final = "requests.log"
MAGIC: Final = b"tmrqst\r\n"
RECORDS: Final = 1
_KINDS: Final = {RECORDS: Kind(limits.FRAME_BYTES + limits.KIB, rb"\x94")}


class RequestLogWriter:
    """A writer that appends frames. Nothing raises: the first OSError sets `failed`, and later appends are ignored.

    The directory appears with the first frame.
    """

    def __init__(self, directory: Path, *, resume: bool = False) -> None:
        """Begin a log. With `resume`, go on with an existing one after its last good frame.

        Blocks on the disk to find it.
        """
        self.failed = ""
        """Reason why writing stopped; empty while it works."""
        self.next_number = 0
        """Number above the last frame. Earlier numbers may be missing, as after a damaged journal."""
        self._path = directory / FILE_NAME
        self._good_bytes = 0
        self._file: AppendFile | None = None
        if resume:
            self._pass((1 << 64) - 1)

    def append(self, frames: Sequence[LoggedRecords], first_number: int) -> None:
        """Append frames with numbers from `first_number` on, those that the log has left out."""
        frames = frames[max(0, self.next_number - first_number) :]
        if self.failed or not frames:
            return
        number = max(first_number, self.next_number)
        numbered = enumerate(map(encode_logged, frames), number)
        buffers = [part for at, payload in numbered for part in frame([payload], at, RECORDS)]
        try:
            (self._file or self._open()).append(buffers)
        except OSError as error:
            self.failed = describe(error)
            return
        self.next_number = number + len(frames)

    def cut(self, number: int) -> None:
        """Drop frames from `number` on: the numbers of a resumed run lack them, and they may come again."""
        if not self.failed and self.next_number > number:
            self._pass(number)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _pass(self, number: int) -> None:
        """Read the frames below `number`, so that the next one is written behind them."""
        self.next_number = self._good_bytes = 0
        reader = RequestLogReader(self._path.parent)
        try:
            for frame_number, end in reader.places():
                if frame_number >= number:
                    break
                self.next_number, self._good_bytes = frame_number + 1, end
        except RunDirectoryError as error:
            self.failed = error.message

    def _open(self) -> AppendFile:
        make_folder(self._path.parent)
        file = AppendFile(self._path, depth=2)
        if file.size > self._good_bytes:
            file.cut(self._good_bytes)
        if not file.size:
            file.append([segment_header(MAGIC)])
        self._file = file
        return file


class RequestLogReader:
    """A stream of the frames of a log. It ends at the first damaged one. A missing file has no frames."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self.good_bytes = 0
        """Size of the frames that were read last."""
        self.damaged_bytes = 0
        """Bytes at the end that can't be read, besides a frame that was still being written."""
        self.unreadable = 0
        """Number of intact frames that this version can't decode."""

    def frames(self) -> Iterator[LoggedRecords]:
        """Yield the frames so far. Blocks on the disk.

        Raises RunDirectoryError if the file can't be read or is from a newer version.
        """
        for _, data in self._frames():
            try:
                records = decode_logged(data)
            except Malformed:
                self.unreadable += 1
                continue
            yield records

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield the number of each frame and the offset of its end. Raises as `frames`."""
        for number, _ in self._frames():
            yield number, self.good_bytes

    def _frames(self) -> Iterator[tuple[int, memoryview]]:
        self.good_bytes = self.damaged_bytes = self.unreadable = 0
        try:
            with open_reader(self.path) as file:
                reader = SegmentReader(file, self.path, MAGIC)
                for frame in reader.frames():
                    self.good_bytes = reader.good_bytes
                    if frame.kind == RECORDS:
                        yield frame.stamp, frame.data
                if reader.torn_bytes and not reader.cut_short(_KINDS):
                    self.damaged_bytes = reader.torn_bytes
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunDirectoryError(f"can't read {self.path}: {describe(error)}") from error
