"""New records of a run, from its record log on this machine or from its aggregator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

from telemetry.store.records import DamagedRecord, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.record_stream import RecordStream
from telemetry.wire.events import StreamRecord

_AT_ONCE: Final = 1_024  # records


class StepRecords(Protocol):
    """New records of a run. The first call of `read` begins with the first record of the run."""

    @property
    def known(self) -> int:
        """Number above the newest known record."""

    def read(self) -> Iterator[StreamRecord]:
        """Yield the records since the last call. Raises TelemetryError."""

    def close(self) -> None: ...


class DiskRecords:
    """Records from the log of a run on this machine."""

    def __init__(self, directory: RunDirectory) -> None:
        """Open the log. Raises RunDirectoryError if it can't be read."""
        self._log = RecordLog(directory.records)
        self._next = 0

    @property
    def known(self) -> int:
        return self._log.next_seq

    def read(self) -> Iterator[StreamRecord]:
        while True:
            begin = self._next
            try:
                page = self._log.read(begin, _AT_ONCE)
                self._next += len(page)
            except DamagedRecord:
                self._next = min(begin + _AT_ONCE, self._log.next_seq)
                page = list(self._singly(begin, self._next))
            if self._next == begin:
                return
            yield from page

    def close(self) -> None:
        self._log.close()

    def _singly(self, begin: int, end: int) -> Iterator[StreamRecord]:
        for seq in range(begin, end):
            with suppress(DamagedRecord):
                yield from self._log.read(seq, 1)


class ControlRecords:
    """Records from the aggregator of a run on another machine."""

    def __init__(self, endpoint: str) -> None:
        """Connect. Raises EndpointError, KeysError or ProtocolError."""
        self._stream = RecordStream(endpoint)

    @property
    def known(self) -> int:
        return self._stream.known

    def read(self) -> Iterator[StreamRecord]:
        while (record := self._stream.recv(0.0)) is not None:
            yield record

    def close(self) -> None:
        self._stream.close()
