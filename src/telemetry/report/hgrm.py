"""Percentile distributions in HdrHistogram's text format, for its plotters.

#[Series  = latency{op=read}, Unit = ms]
       Value     Percentile TotalCount 1/(1-Percentile)

    0.520063 0.000000000000          1           1.00
    …
   38.141951 1.000000000000      12345
#[Mean    =     1.400213, StdDeviation   =     0.980112]
#[Max     =    38.141951, Total count    =        12345]
#[Buckets =           43, SubBuckets     =         2048]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from telemetry import limits
from telemetry.common import wording
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.history import RecordedRun, series_id
from telemetry.history.intervals.histograms import Digest
from telemetry.statistics.hdr.layout import DIGITS, TICK_BITS, Floats, Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import ticks_per_unit

_ROWS_A_HALVING: Final = 5
"""Rows for each halving of the distance to 100 %, as HdrHistogram's tools print them."""
_ALL_S: Final = 6e9
"""A step that is longer than any run."""
_NEAREST: Final = 1e-13
"""Smallest distance to 100 %, as a fraction. No run has enough values for a smaller one."""


class Line(NamedTuple):
    value: float
    fraction: float
    reached: int
    """Number of values that are not above `value`."""


class Footer(NamedTuple):
    mean: float
    stddev: float
    max: float
    values: int


def digests(run: RecordedRun, stats: Sequence[SeriesStat], part: TimeRange | None) -> dict[int, Digest]:
    """Return all values of series, by their place in `stats`. Reads the history once.

    `part` is the time range of the stats. A series is missing if the history lacks some of its values; without a
    history, all are. Raises RunDirectoryError for an unreadable history.
    """
    if not run.has_history:
        return {}
    places = {series_id(stat): index for index, stat in enumerate(stats)}
    start_s, end_s = (part.start_s, part.end_s) if part is not None and part.found else (0.0, None)
    digest_by_index = {}
    for window in run.windows(_ALL_S, start_s, end_s, ["50"], places):
        if (added := window.added) is None or (rows := window.rows) is None:
            continue
        for line, row in enumerate(added.rows.tolist()):
            index, histogram = places[rows.ids[row]], added.only(line, rows)
            if int(histogram.count[0]) == stats[index].count:
                digest_by_index[index] = Digest(rows.keys[row], 0, 0, histogram)
    return digest_by_index


def render_hgrm(report: Report) -> str:
    """Return a section for every series, with the percentiles of the result only."""
    return sections(result_distribution(stat) for stat in report.snapshot.series)


def sections(distributions: Iterable[str]) -> str:
    """Join several distributions into one text. Plotters want each in a file of its own."""
    return "\n".join(distributions)


def result_distribution(stat: SeriesStat) -> str:
    """Return the distribution without a history: the percentiles of the result, and its extremes."""
    lines = []
    if stat.count:
        percentiles = {}
        for key, value in stat.percentiles.items():
            with suppress(UsageError):
                percentiles[parse_percentile(key)] = float(value)
        ordered = sorted(
            (above / below, rank((above, below), stat.count), value)
            for (above, below), value in percentiles.items()
        )
        lines = [Line(float(stat.min or 0.0), 0.0, 1)]
        lines += [Line(value, fraction, at) for fraction, at, value in ordered if fraction < 1.0]
        lines.append(Line(float(stat.max or 0.0), 1.0, stat.count))
    footer = Footer(stat.mean or 0.0, stat.stddev or 0.0, float(stat.max or 0.0), stat.count)
    digits = stat.digits if stat.digits in DIGITS else limits.DIGITS
    return _section(_title(stat.name, stat.labels, stat.unit), lines, footer, digits, ticks_per_unit(stat.unit))


def distribution(digest: Digest, stddev: float | None = None) -> str:
    """Return the distribution of all values of a digest.

    `stddev`, in the unit of the series, replaces the estimate from buckets.
    """
    key, histogram = digest.key, digest.histogram
    layout, per_unit = Layout.of(key.digits), key.ticks_per_unit
    reached = np.cumsum(histogram.counts)
    count = int(reached[-1]) if reached.size else 0
    lines, footer = [], Footer(0.0, 0.0, 0.0, 0)
    if count:
        least, most = float(histogram.min[0]), float(histogram.max[0])
        percent = 100.0 * reached / count
        places = np.searchsorted(percent, _level_array()).tolist()
        last = reached.size - 1
        kept = len(list(takewhile(lambda index: index < last, places))) + 1
        shown = [*places[:kept], last]
        values = np.clip(layout.highest_of(histogram.slots[shown]) / per_unit, least, most).tolist()
        fractions = [*(level / 100.0 for level in _levels()[:kept]), 1.0]
        lines = list(map(Line, values, fractions, reached[shown].tolist()))
        mean = float(histogram.total[0]) / count
        if stddev is None:
            middles = (layout.lowest_of(histogram.slots) + layout.highest_of(histogram.slots)) / 2.0 / per_unit
            stddev = math.sqrt(float((np.square(middles - mean) * histogram.counts).sum()) / count)
        footer = Footer(mean, stddev, most, count)
    return _section(_title(key.name, key.labels, key.unit), lines, footer, key.digits, per_unit)


@cache
def _levels() -> list[float]:
    """Return the percentiles of the rows.

    The distance to 100 % is halved again and again, and each half is cut into equal parts.
    """
    levels, level = [], 0.0
    while 100.0 - level > 100.0 * _NEAREST:
        levels.append(level)
        level += 100.0 / (_ROWS_A_HALVING * 2 ** (int(math.log2(100.0 / (100.0 - level))) + 1))
    return levels


@cache
def _level_array() -> Floats:
    return np.array(_levels())


def _title(name: str, labels: Mapping[str, str], unit: str) -> str:
    return f"#[Series  = {wording.instrument(name, labels)}, Unit = {printable(unit) or '1'}]\n"


def _section(title: str, lines: Iterable[Line], footer: Footer, digits: int, per_unit: float) -> str:
    # Enough decimals to show one tick, within the usual range.
    places = min(max(math.ceil(math.log10(per_unit)) if 1.0 < per_unit < math.inf else 0, 3), 9)
    half_bits = Layout.of(digits).half_bits
    return "".join(
        (
            title,
            f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}\n\n",
            *_rows(lines, places),
            f"#[Mean    = {footer.mean:12.{places}f}, StdDeviation   = {footer.stddev:12.{places}f}]\n",
            f"#[Max     = {footer.max:12.{places}f}, Total count    = {footer.values:12d}]\n",
            f"#[Buckets = {TICK_BITS - half_bits:12d}, SubBuckets     = {2 << half_bits:12d}]\n",
        )
    )


def _rows(lines: Iterable[Line], places: int) -> Iterator[str]:
    of_value = f"12.{places}f"
    for value, fraction, reached in lines:
        share, distance = _fraction(fraction)
        yield f"{value:{of_value}} {share} {reached:10d}{distance}\n"


@lru_cache(maxsize=1_024)
def _fraction(fraction: float) -> tuple[str, str]:
    """Return the two columns of a fraction; the second is empty at the end.

    Cached: each series has the same levels.
    """
    return f"{fraction:2.12f}", f" {1 / (1 - fraction):14.2f}" if fraction < 1.0 else ""
