"""Requests in flight, each in a slot of its own, the offered load, and the best second of output tokens."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry import limits
from telemetry.errors import RunDirectoryError
from telemetry.history import request_log
from telemetry.history.request_log import LoggedRequest
from telemetry.history.request_model import request_instruments
from telemetry.history.second_sums import AT_ONCE, SecondSums, SmallNumbers
from telemetry.wire import requests as words
from telemetry.wire.pictures import RequestSlots
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.history.instrument_ids import SeriesId
    from telemetry.history.interval_sums import RangeTotals
    from telemetry.store.run_directory import RunDirectory


Labels = tuple[tuple[str, str], ...]
Place = tuple[str, Labels, str | None]
"""Kind, labels without the tracking window, and tracking window: empty outside any window, None for the total."""

_CHANGES: Final = {words.ISSUED: 1.0, words.COMPLETED: -1.0, words.FAILED: -1.0, words.EXPIRED: -1.0}
_SECOND: Final = 10**9


def with_peaks(report: Report, directory: RunDirectory) -> Report:
    """Return the report of a whole run with exact peaks and load, as far as its request log has all. Blocks.

    Figures of kinds whose requests are not all in the log, or of a log that can't be read, stay as they are.
    """
    if not report.requests:
        return report
    try:
        facts = request_log.facts(directory)
        if facts is None or facts.left_out or facts.bytes > limits.READ_REQUESTS_BYTES:
            return report
        groups = _groups(directory)
    except (RunDirectoryError, OverflowError):  # times of a file may be as large as 64 bits allow
        return report
    return replace(report, requests=[_exact(figures, groups) for figures in report.requests])


@dataclass(slots=True)
class _PlaceRequests:
    """Requests of one place: times on the run's clock."""

    issued: array[int] = field(default_factory=lambda: array("q"))
    ended: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    """Time of each chunk of completed requests, the first output included."""
    tokens: SmallNumbers = field(default_factory=lambda: SmallNumbers("B", "d"))
    """Tokens of each chunk."""
    knows_tokens: bool = True

    def add(self, entry: RequestEntry, offset_ns: int) -> None:
        self.issued.append(entry.issued_ns + offset_ns)
        self.ended.append(entry.ended_ns + offset_ns)
        if entry.outcome != "completed" or not self.knows_tokens:
            return
        tokens = _tokens(entry)
        if tokens is None:
            self.knows_tokens = False
            return
        first_ns = entry.ended_ns if entry.first_ns is None else entry.first_ns
        self.times.extend(accumulate(entry.gaps_ns, initial=first_ns + offset_ns))
        self.tokens.extend(tokens)


def _groups(directory: RunDirectory) -> dict[Place, _PlaceRequests]:
    groups: dict[Place, _PlaceRequests] = {}
    labels: dict[str, str] | None = None
    kind, group = "", _PlaceRequests()
    for request in request_log.read(directory):
        if request.labels is not labels or request.kind != kind:
            labels, kind = request.labels, request.kind
            own = tuple(sorted(item for item in labels.items() if item[0] != words.WINDOW))
            group = groups.setdefault((kind, own, labels.get(words.WINDOW, "")), _PlaceRequests())
        group.add(request.entry, request.offset_ns)
    return groups


def _tokens(entry: RequestEntry) -> Sequence[float] | None:
    """Return the tokens of each chunk; None if they are unknown.

    If those that the program gave do not add up to the output tokens, these are spread evenly over the chunks.
    """
    if entry.output_tokens is None or entry.chunks_left_out:
        return None
    chunks = 1 + len(entry.gaps_ns)
    if entry.first_ns is not None and entry.first_tokens is not None and None not in entry.chunk_tokens:
        tokens: list[float] = [entry.first_tokens, *(entry.chunk_tokens or [1] * (chunks - 1))]  # type: ignore[list-item]
        if sum(tokens) == entry.output_tokens:
            return tokens
    return [entry.output_tokens / chunks] * chunks


def _exact(figures: RequestFigures, groups: dict[Place, _PlaceRequests]) -> RequestFigures:
    labels = tuple(sorted(figures.labels.items()))
    own = [
        group
        for (kind, group_labels, window), group in groups.items()
        if (kind, group_labels) == (figures.kind, labels) and figures.window in (None, window)
    ]
    windows = [_exact(window, groups) for window in figures.windows]
    ended = sum((*figures.failed.values(), figures.completed, figures.expired))
    if figures.in_flight != 0 or sum(len(group.issued) for group in own) != ended or not own:
        return replace(figures, windows=windows)
    offered_per_s, mean = _load(own)
    return replace(
        figures,
        offered_per_s=offered_per_s,
        concurrency_mean=mean,
        concurrency_peak=_peak(own),
        concurrency_peak_exact=True,
        peak_output_tokens_per_s=_best_second(own),
        windows=windows,
    )


def _load(groups: Sequence[_PlaceRequests]) -> tuple[float | None, float | None]:
    """Return the issued requests per second, and the mean number of requests in flight; None without time."""
    first = min(min(group.issued) for group in groups)
    issued_s = (max(max(group.issued) for group in groups) - first) / _SECOND
    span_s = (max(max(group.ended) for group in groups) - first) / _SECOND
    number = sum(len(group.issued) for group in groups)
    busy_s = sum(sum(group.ended) - sum(group.issued) for group in groups) / _SECOND
    return (number - 1) / issued_s if issued_s > 0 else None, busy_s / span_s if span_s > 0 and busy_s > 0 else None


def _peak(groups: Sequence[_PlaceRequests]) -> int:
    """Return the largest number of requests that were issued and had not ended.

    A request that ends at the moment at which another one is issued does not overlap with it.
    """
    issued = np.sort(np.concatenate([np.frombuffer(group.issued, np.int64) for group in groups]))
    ended = np.sort(np.concatenate([np.frombuffer(group.ended, np.int64) for group in groups]))
    in_flight = np.arange(1, issued.size + 1) - np.searchsorted(ended, issued, side="right")
    return max(int(in_flight.max()), 1)


def _best_second(groups: Sequence[_PlaceRequests]) -> float | None:
    """Return the most output tokens in a whole second since the first issue; None if tokens are unknown."""
    if not any(group.times for group in groups) or not all(group.knows_tokens for group in groups):
        return None
    sums = SecondSums(min(min(group.issued) for group in groups))
    for group in groups:
        times, tokens = np.frombuffer(group.times, np.int64), group.tokens.view()
        for first in range(0, times.size, AT_ONCE):
            own = slice(first, first + AT_ONCE)
            sums.add(times[own], tokens[own].astype(np.float64))
    return sums.most


class InFlightHistory:
    """The largest number of requests in flight at the end of a time step, from the history."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        from telemetry.history.instrument_ids import series_id

        self._changes: dict[SeriesId, tuple[Place, float]] = {
            series_id(instrument.stat): (
                (instrument.kind, instrument.labels, instrument.window),
                _CHANGES[instrument.word],
            )
            for instrument in request_instruments(snapshot)
            if isinstance(instrument.stat, CounterStat) and instrument.word in _CHANGES
        }
        self._now: dict[Place, float] = {}
        self._peaks: dict[Place, float] = {}

    def add(self, window: RangeTotals) -> None:
        """Add the next window of the history."""
        for counter, increase in window.counters.items() if self._changes else ():
            if counter in self._changes:
                group_key, sign = self._changes[counter]
                for each in (group_key, (group_key[0], group_key[1], None)):
                    self._now[each] = self._now.get(each, 0.0) + sign * increase
        for each, number in self._now.items():
            self._peaks[each] = max(self._peaks.get(each, 0.0), number)

    def filled_in(self, requests: Sequence[RequestFigures]) -> list[RequestFigures]:
        """Return the figures with these peaks, if any requests were in flight at the end of a step."""
        return list(self._filled_in(requests))

    def _filled_in(self, requests: Sequence[RequestFigures]) -> Iterator[RequestFigures]:
        for figures in requests:
            peak = self._peaks.get((figures.kind, tuple(sorted(figures.labels.items())), figures.window))
            yield replace(figures, concurrency_peak=peak or None, windows=self.filled_in(figures.windows))


Times = NDArray[np.int64]
Places = NDArray[np.intp]

DRAWN: Final = 1_500
"""Largest number of requests in a picture: more are thinner than a pixel."""
_NONE: Final = -1
_SECOND_NS: Final = 1e9


def with_slots(report: Report, directory: RunDirectory) -> Report:
    """Return the report with the slots of its requests in its pictures. Blocks.

    A large log, or one that can't be read, leaves it as it is.
    """
    if report.pictures is None or not report.requests:
        return report
    try:
        facts = request_log.facts(directory)
        if facts is None or not facts.kept or facts.bytes > limits.READ_REQUESTS_BYTES:
            return report
        slots = slots_of(request_log.read(directory), report.snapshot.started_ns)
    except (RunDirectoryError, OverflowError):  # times of a file may be as large as 64 bits allow
        return report
    return replace(report, pictures=replace(report.pictures, slots=slots))


def slots_of(requests: Iterable[LoggedRequest], started_ns: int, most: int = DRAWN) -> RequestSlots | None:
    """Return the requests in the order in which they began; None without any.

    Of more than `most`, those are kept that overlap a time range around the most requests in flight.
    """
    columns = _Columns()
    for request in requests:
        columns.add(request, started_ns)
    return columns.slots(most) if columns.begin else None


@dataclass(slots=True)
class _Columns:
    """Times of requests in nanoseconds since the start of the run."""

    begin: array[int] = field(default_factory=lambda: array("q"))
    """Planned time of a request, or of its issue."""
    issued: array[int] = field(default_factory=lambda: array("q"))
    first: array[int] = field(default_factory=lambda: array("q"))
    ended: array[int] = field(default_factory=lambda: array("q"))
    reasons: dict[int, str] = field(default_factory=dict)
    """Reason by place, of requests that did not complete."""

    def add(self, request: LoggedRequest, started_ns: int) -> None:
        entry, shift_ns = request.entry, request.shift_ns - started_ns
        if entry.outcome != "completed":
            self.reasons[len(self.begin)] = entry.reason or entry.outcome
        planned_ns = entry.issued_ns if entry.planned_ns is None else entry.planned_ns
        self.begin.append(min(planned_ns, entry.issued_ns) + shift_ns)
        self.issued.append(entry.issued_ns + shift_ns)
        self.first.append(_NONE if entry.first_ns is None else entry.first_ns + shift_ns)
        self.ended.append(max(entry.ended_ns, entry.issued_ns) + shift_ns)

    def slots(self, most: int) -> RequestSlots:
        begin, ended = np.frombuffer(self.begin, np.int64), np.frombuffer(self.ended, np.int64)
        order = np.argsort(begin, kind="stable")
        if order.size > most:
            order = _busiest(order, begin, ended, most)
        places = order.tolist()
        issued, first = self.issued, self.first
        return RequestSlots(
            total=len(self.begin),
            slots=list(_greedy((self.begin[at], self.ended[at]) for at in places)),
            begin_s=[self.begin[at] / _SECOND_NS for at in places],
            issued_s=[issued[at] / _SECOND_NS for at in places],
            first_s=[None if first[at] == _NONE else first[at] / _SECOND_NS for at in places],
            end_s=[self.ended[at] / _SECOND_NS for at in places],
            reasons=[self.reasons.get(at, "") for at in places],
        )


def _busiest(order: Places, begin: Times, ended: Times, most: int) -> Places:
    """Return the requests that overlap a time range in which at most `most` are, around the most in flight."""
    begins = begin[order]
    in_flight = np.arange(1, begins.size + 1) - np.searchsorted(np.sort(ended), begins, side="right")
    peak = int(in_flight.argmax())
    number = max(most - int(in_flight.max()), 1)  # those before the range that have not ended take the rest
    first = min(max(peak - number // 2, 0), begins.size - number)
    start, end = begins[first], begins[first + number - 1]
    kept: Places = order[(begins <= end) & ((ended[order] > start) | (begins >= start))]
    return kept[:most]


def _greedy(times: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the lowest free slot of each request, from 0. Requests come in the order of their beginnings."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for begin, end in times:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slot = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, slot))
        yield slot
