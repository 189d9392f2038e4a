"""A run that keeps in memory what is recorded to it, for tests of code that records with a `Run`."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Final, cast

from telemetry.client import notice
from telemetry.client.process import Process
from telemetry.client.run import Run
from telemetry.client.sending.flusher import Flusher
from telemetry.config import Config
from telemetry.supervise.writers import Writers
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define, Mark, Params, Scalar
from telemetry.wire.nodes import BatchRecord

_ROW: Final = 3

Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels of an instrument."""


class MemoryRun(Run):
    """A run without an aggregator, sockets or threads. Its recording calls are those of any run."""

    def __init__(self, name: str = "memory") -> None:
        process = Process()
        self._records: deque[bytes] = deque()
        process._flusher = cast(Flusher, SimpleNamespace(outbox=SimpleNamespace(records=self._records)))
        process.state = "live"
        process.recorders.install(process.recorders.buffer.extend)
        super().__init__(process, name, Config(), Writers([], notice.warn))

    @property
    def definitions(self) -> list[Define]:
        """Definitions of all instruments, in the order of their making."""
        found = (decode_record(raw) for raw in self._process.catalog.definitions)
        return [one for one in found if isinstance(one, Define)]

    @property
    def records(self) -> list[BatchRecord]:
        """All records, such as marks and parameters."""
        return [decode_record(raw) for raw in self._records]

    @property
    def values(self) -> dict[Key, list[float]]:
        """All values of each instrument, and increments of counters."""
        definitions = self.definitions
        found: dict[Key, list[float]] = {}
        rows = list(self._process.recorders.buffer)
        for row_id, _, value in zip(rows[::_ROW], rows[1::_ROW], rows[2::_ROW], strict=True):
            one = definitions[int(row_id)]
            found.setdefault((one.name, tuple(sorted(one.labels.items()))), []).append(float(value))
        return found

    @property
    def all_params(self) -> dict[str, Scalar]:
        """All parameters; the newest value of each."""
        found: dict[str, Scalar] = {}
        for record in self.records:
            if isinstance(record, Params):
                found.update(record.values)
        return found

    @property
    def marks(self) -> list[str]:
        """Texts of all marks."""
        return [record.text for record in self.records if isinstance(record, Mark)]

    @property
    def refused(self) -> int:
        """Number of values and records that could not be recorded, such as NaN as the value of a gauge."""
        return self._process.recorders.refused.total + self._process.unencodable.total
