"""Where the intervals of a run's history come from: its aggregator, or its directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from telemetry.errors import ProtocolError
from telemetry.history.reader import damage_of
from telemetry.limits import GIB, MIB
from telemetry.store.history import LEVELS, HistoryReader
from telemetry.transport import ControlClient
from telemetry.wire.codec import Malformed, decode_interval
from telemetry.wire.control import GetHistory, History, SeriesKey
from telemetry.wire.history import Interval

FOREVER: Final = (1 << 63) - 1
_COARSEST_S: Final = LEVELS[-1]


class IntervalSource(Protocol):
    """One thread's. All methods block, and raise TelemetryError if the history can't be had."""

    budget: int
    """Bytes of intervals that one question may come to, about."""

    def keys(self) -> list[SeriesKey]:
        """What the indices stand for, of all kinds."""

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        """Those that overlap `[start_ns, end_ns)`, in order; of the finest level each with level 0."""

    def before(self, end_ns: int) -> Iterator[Interval]:
        """All until then in order, of levels as coarse as can be had: for adding up."""

    def damage(self) -> list[str]:
        """What the last question found damaged and left out; of a run that is over."""

    def close(self) -> None: ...


class ControlIntervals:
    """What the aggregator tells, page by page. Raises EndpointError or KeysError where it does not answer."""

    budget = 64 * MIB  # whoever has no directory to read from may sit behind a thin line

    def __init__(self, endpoint: str) -> None:
        self._client = ControlClient(endpoint)

    def keys(self) -> list[SeriesKey]:
        # keys come with a question that begins at 0; the coarsest level is the least to search through in vain
        return self._ask(GetHistory(start_ns=0, end_ns=1, level_s=_COARSEST_S)).keys

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        following: int | None = max(start_ns, 1)
        while following is not None and following < end_ns:
            page = self._ask(GetHistory(start_ns=following, end_ns=end_ns, level_s=level_s))
            try:
                yield from map(decode_interval, page.intervals)
            except Malformed as malformed:
                raise ProtocolError(f"an interval of the history can't be read: {malformed}") from malformed
            forward = page.next_ns is not None and page.next_ns > following
            following = page.next_ns if forward else None  # a clock that was set back must not make a circle

    def before(self, end_ns: int) -> Iterator[Interval]:
        return self.intervals(0, end_ns)

    def damage(self) -> list[str]:
        return []

    def close(self) -> None:
        self._client.close()

    def _ask(self, question: GetHistory) -> History:
        answer = self._client.request(question)
        if not isinstance(answer, History):
            raise ProtocolError(f"history was answered with {type(answer).__name__}")
        return answer


class DiskIntervals:
    """What lies in a run directory, whether its aggregator lives or not. Raises RunDirectoryError."""

    budget = GIB  # a second or two of reading from the page cache

    def __init__(self, history: Path) -> None:
        self._reader = HistoryReader(history)

    def keys(self) -> list[SeriesKey]:
        return self._reader.keys()

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        return self._reader.intervals(start_ns, end_ns, level_s) if start_ns < end_ns else iter(())

    def before(self, end_ns: int) -> Iterator[Interval]:
        return self._reader.coarse(0, end_ns)

    def damage(self) -> list[str]:
        return damage_of(self._reader)

    def close(self) -> None:
        """No file is open between two questions."""
