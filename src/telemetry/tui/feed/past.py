"""Where the intervals of a run's history come from: its aggregator, or its directory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from telemetry.errors import ProtocolError
from telemetry.limits import GIB, MIB
from telemetry.store.history import LEVELS, HistoryReader
from telemetry.transport import ControlClient
from telemetry.wire.codec import Malformed, decode_interval
from telemetry.wire.control import GetHistory, History, SeriesKey
from telemetry.wire.history import Interval

FOREVER: Final = (1 << 63) - 1
_COARSEST_S: Final = LEVELS[-1]


class Past(Protocol):
    """One thread's. All methods block, and raise TelemetryError if the history can't be had."""

    budget: int
    """Bytes of intervals that one question may come to, about."""

    def keys(self) -> list[SeriesKey]:
        """What the indices stand for, of all kinds."""

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        """Those that overlap `[start_ns, end_ns)`, in order; of the finest level each with level 0."""

    def close(self) -> None: ...


class ControlPast:
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

    def close(self) -> None:
        self._client.close()

    def _ask(self, question: GetHistory) -> History:
        answer = self._client.request(question)
        if not isinstance(answer, History):
            raise ProtocolError(f"history was answered with {type(answer).__name__}")
        return answer


class DiskPast:
    """What lies in a run directory, whether its aggregator lives or not. Raises RunDirectoryError."""

    budget = GIB  # a second or two of reading from the page cache

    def __init__(self, history: Path) -> None:
        self._reader = HistoryReader(history)

    def keys(self) -> list[SeriesKey]:
        return self._reader.keys()

    def intervals(self, start_ns: int, end_ns: int = FOREVER, level_s: int = 0) -> Iterator[Interval]:
        return self._reader.intervals(start_ns, end_ns, level_s) if start_ns < end_ns else iter(())

    def close(self) -> None:
        """No file is open between two questions."""


def everything(past: Past, until_ns: int, second_bytes: float) -> Iterator[Interval]:
    """The whole history, each moment once: the newest as fine as it is kept, what is older in tens of seconds and
    in minutes where it would come to more than the budget, if a second takes `second_bytes`. A minute is fine
    whatever it takes."""
    seconds = max(60.0, past.budget / 2 / max(second_bytes, 1.0))
    start_ns = 0
    for interval in past.intervals(0, until_ns - int(11 * seconds * 1e9), 60):  # half for tens, half for seconds
        yield interval
        start_ns = interval.end_ns
    tens = past.intervals(start_ns, until_ns - int(seconds * 1e9), 10)
    first = next(tens, None)
    if first is not None:
        yield from past.intervals(start_ns, first.start_ns, 60)  # tens are not kept as far back as minutes
        for interval in chain([first], tens):
            yield interval
            start_ns = interval.end_ns
    yield from past.intervals(start_ns)


def size(interval: Interval) -> int:
    """About as many bytes as it takes on the wire and on disk."""
    series = interval.series
    return 2 * len(series.slots) + 10 * len(series.index)  # as many counts as slots; 4 narrow columns, 3 wide ones
