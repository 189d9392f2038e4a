"""`GET /v1/history`: the run over time."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from telemetry.gateway.endpoint import Answer, Call, Endpoint, Failure, Problem
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.histograms import Histograms
from telemetry.wire.codec import Malformed, decode_interval
from telemetry.wire.control import GetHistory, History, SeriesKey
from telemetry.wire.events import Natural
from telemetry.wire.history import Interval, ValueColumns

_PERCENTILES: Final = ("50", "90", "99", "99.9")
_LATEST_NS: Final = (1 << 63) - 1


class HistoryQuery(Struct, kw_only=True, frozen=True):
    """A time range of the run."""

    start_ns: Natural = 0
    """Unix time in nanoseconds. For the next page, `next_ns` of the page before."""
    end_ns: Natural = _LATEST_NS
    level_s: Literal[0, 1, 10, 60] = 0
    """Length of an interval in seconds. 0: the finest that still exists for each moment."""


class SeriesPoint(Struct, kw_only=True, frozen=True):
    """The values of a series in one interval."""

    index: int
    count: int
    total: float
    min: float
    max: float
    percentiles: dict[str, float]


class ValuePoint(Struct, kw_only=True, frozen=True):
    """The increase of a counter during an interval, or the value of a gauge at its end."""

    index: int
    value: float


class HistoryInterval(Struct, kw_only=True, frozen=True):
    """A time range `[start_ns, end_ns)` with its values."""

    start_ns: int
    end_ns: int
    series: list[SeriesPoint]
    counters: list[ValuePoint]
    gauges: list[ValuePoint]


class HistoryPage(Struct, kw_only=True, frozen=True):
    """Intervals in order of time. An index is unique within its kind."""

    keys: list[SeriesKey]
    intervals: list[HistoryInterval]
    next_ns: int | None
    """Start of the next page; null: this is the last one."""


async def get_history(call: Call) -> Answer:
    query: HistoryQuery = call.query
    run = call.gateway.run
    request = GetHistory(start_ns=query.start_ns, end_ns=query.end_ns, level_s=query.level_s)
    reply = await run.ask(request, slow=True)
    keys_reply = reply if query.start_ns == 0 else await run.ask(GetHistory(end_ns=1, level_s=60), slow=True)
    if not isinstance(reply, History) or not isinstance(keys_reply, History):
        raise Problem(503, "the aggregator answered with an unknown message")
    keys, raw, next_ns = keys_reply.keys, reply.intervals, reply.next_ns
    return Answer(200, await call.gateway.make_page(lambda: _page(keys, raw, next_ns)))


def _page(keys: list[SeriesKey], raw: list[Raw], next_ns: int | None) -> HistoryPage:
    """Return a page of decoded intervals. Raise Problem if they can't be read."""
    try:
        intervals = [decode_interval(each) for each in raw]
    except Malformed as error:
        raise Problem(503, f"the history can't be read: {error}") from None
    by_index = {key.index: key for key in keys if key.kind == "series"}
    points = [_interval(interval, by_index) for interval in intervals]
    return HistoryPage(keys=keys, intervals=points, next_ns=next_ns)


def _interval(interval: Interval, keys: dict[int, SeriesKey]) -> HistoryInterval:
    return HistoryInterval(
        start_ns=interval.start_ns,
        end_ns=interval.end_ns,
        series=_series(interval, keys),
        counters=_values(interval.counters),
        gauges=_values(interval.gauges),
    )


def _series(interval: Interval, keys: dict[int, SeriesKey]) -> list[SeriesPoint]:
    columns = Columns.of(interval)
    of = [keys.get(index, SeriesKey(index=index, name="", kind="series")) for index in columns.index.tolist()]
    seconds = np.full(len(of), (interval.end_ns - interval.start_ns) / 1e9)
    histograms = Histograms(
        digits=np.array([key.digits for key in of], dtype=np.int64),
        ticks_per_unit=np.array([key.ticks_per_unit for key in of], dtype=np.float64),
        seconds=seconds,
        count=columns.count,
        total=columns.total,
        min=columns.min,
        max=columns.max,
        ends=np.cumsum(columns.occupied, dtype=np.int64),
        slots=columns.slots.astype(np.int64),
        counts=columns.counts.astype(np.int64),
    )
    return [
        SeriesPoint(
            index=key.index,
            count=figures.count,
            total=figures.total,
            min=figures.min or 0.0,
            max=figures.max or 0.0,
            percentiles=dict(figures.percentiles),
        )
        for key, figures in zip(of, histograms.figures(_PERCENTILES), strict=True)
    ]


def _values(columns: ValueColumns) -> list[ValuePoint]:
    indices: NDArray[np.uint32] = np.frombuffer(columns.index, "<u4")
    values: NDArray[np.float64] = np.frombuffer(columns.value, "<f8")
    pairs = zip(indices.tolist(), values.tolist(), strict=True)
    return [ValuePoint(index=index, value=value) for index, value in pairs]


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/history",
        get_history,
        "Return the run over time",
        {200: HistoryPage, 503: Failure},
        description="Intervals of 1, 10 or 60 seconds. Ask again with `start_ns` = `next_ns` until it is null.",
        query=HistoryQuery,
    ),
)
