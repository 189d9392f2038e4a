"""Sources of the intervals of a run's history: its aggregator, or its directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

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
    """A source of intervals. Single-threaded.

    All methods block, and raise TelemetryError if the history is unavailable.
    """

    budget: int
    """Approximate largest size in bytes of the intervals of one request."""

    def keys(self) -> list[SeriesKey]:
        """Return the keys of all indices, of all kinds."""

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        """Yield intervals that overlap `[start_ns, end_ns)`, in order.

        With level 0 each is of the finest level available.
        """

    def fine(self, start_ns: int) -> Iterator[Interval]:
        """Yield intervals that overlap the time from `start_ns`, with slices instead of seconds that have them."""

    def before(self, end_ns: int) -> Iterator[Interval]:
        """Yield all intervals up to a moment, in order and as coarse as possible: for sums."""

    def damage(self) -> list[str]:
        """Return the damage found and skipped by the last request. Valid for an ended run."""

    def close(self) -> None: ...


class ControlIntervals:
    """Intervals from the aggregator, page by page. Raises EndpointError or KeysError if it does not answer."""

    budget = 64 * MIB  # without a local directory, the connection may be slow

    def __init__(self, endpoint: str) -> None:
        self._client = ControlClient(endpoint)

    def keys(self) -> list[SeriesKey]:
        # a request that begins at 0 returns keys; the coarsest level has the least to search
        return self._ask(GetHistory(start_ns=0, end_ns=1, level_s=_COARSEST_S)).keys

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        return self._pages(GetHistory(start_ns=start_ns, end_ns=end_ns, level_s=level_s))

    def fine(self, start_ns: int) -> Iterator[Interval]:
        return self._pages(GetHistory(start_ns=start_ns, slices=True))

    def _pages(self, question: GetHistory) -> Iterator[Interval]:
        following: int | None = max(question.start_ns, 1)
        while following is not None and following < question.end_ns:
            page = self._ask(replace(question, start_ns=following))
            try:
                yield from map(decode_interval, page.intervals)
            except Malformed as malformed:
                raise ProtocolError(f"can't read an interval of the history: {malformed}") from malformed
            forward = page.next_ns is not None and page.next_ns > following
            following = page.next_ns if forward else None  # a clock that was set back must not loop forever

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
    """Intervals from a run directory, whether or not its aggregator is alive. Raises RunDirectoryError."""

    budget = GIB  # a second or two of reading from the page cache

    def __init__(self, history: Path) -> None:
        self._reader = HistoryReader(history)

    def keys(self) -> list[SeriesKey]:
        return self._reader.keys()

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        return self._reader.intervals(start_ns, end_ns, level_s) if start_ns < end_ns else iter(())

    def fine(self, start_ns: int) -> Iterator[Interval]:
        return self._reader.fine(start_ns)

    def before(self, end_ns: int) -> Iterator[Interval]:
        return self._reader.coarse(0, end_ns)

    def damage(self) -> list[str]:
        return damage_of(self._reader)

    def close(self) -> None:
        """Do nothing: no file stays open between requests."""
