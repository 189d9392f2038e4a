"""Frames as a producer's flusher sends them, made ahead of the measurement."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
import numpy as np

from telemetry.wire.codec import encode_batch
from telemetry.wire.events import Define, OutgoingBatch
from telemetry.wire.version import PROTOCOL

SERIES: Final = 100
_VARIANTS: Final = 8  # different rows in turn, so that no branch predictor learns them
_FIRST_TIME_NS: Final = 10**15
_SPACING_NS: Final = 10_000


def latencies_ns(count: int, generator: np.random.Generator) -> list[float]:
    """Whole nanoseconds, lognormal around 24 ms, as recorded durations are."""
    drawn: list[float] = np.rint(generator.lognormal(17, 1, count)).tolist()
    return drawn


class FrameMaker:
    """One producer's frames with ascending numbers: each is admitted once."""

    def __init__(self, batch_events: int, series: int = SERIES, producer: str = "bench") -> None:
        self.batch_events = batch_events
        self.series = series
        self._producer = producer
        self._seq = 0
        self._first = 0
        generator = np.random.default_rng(1)
        self._rows = [self._make_rows(generator) for _ in range(_VARIANTS)]

    def definitions(self) -> bytes:
        """The first frame: every series, no event."""
        defines = [Define(index, "latency", "series", "ns", {"route": str(index)}) for index in range(self.series)]
        return self._frame(defines, msgspec.Raw(msgspec.msgpack.encode([])), 0)

    def frames(self, count: int) -> list[bytes]:
        return [self._frame([], self._rows[turn % _VARIANTS], self.batch_events) for turn in range(count)]

    def _frame(self, records: list[Define], rows: msgspec.Raw, events: int) -> bytes:
        batch = OutgoingBatch(
            version=PROTOCOL,
            producer=self._producer,
            seq=self._seq,
            first=self._first,
            anchor=(_FIRST_TIME_NS, 1_700_000_000_000_000_000),
            dropped={},
            records=list(records),
            rows=cast(Any, rows),  # encoded already: the same bytes, copied
        )
        self._seq += 1
        self._first += events
        return bytes(encode_batch(batch))

    def _make_rows(self, generator: np.random.Generator) -> msgspec.Raw:
        ids = generator.integers(0, self.series, self.batch_events).tolist()
        values = latencies_ns(self.batch_events, generator)
        flat: list[float | int] = []
        for turn, (index, value) in enumerate(zip(ids, values, strict=True)):
            flat += (float(index), _FIRST_TIME_NS + turn * _SPACING_NS, value)
        return msgspec.Raw(msgspec.msgpack.encode(flat))
