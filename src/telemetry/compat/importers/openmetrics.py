"""A scrape as OpenMetrics or Prometheus text: counters and gauges, and the buckets of histograms as counters.

A counter has its whole value at its first time. Values without a timestamp are those of one moment.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

from telemetry import limits
from telemetry.collectors.scrape.conversion import meaning
from telemetry.collectors.scrape.text import OPEN_METRICS, Page, PageReader, PageSample, PageSeries
from telemetry.common.formatting import size
from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results

TOOL: Final = "OpenMetrics"
LOOKS_FOR: Final = "OpenMetrics: a scrape as OpenMetrics or Prometheus text"

_TYPE: Final = re.compile(
    rb"^# TYPE (?:\S+|\".+\") (?:counter|gauge|(?:gauge)?histogram|summary|untyped|unknown|info|stateset)\s*$",
    re.MULTILINE,
)
_OPEN_METRICS: Final = re.compile(rb"^# (?:EOF|UNIT\b)", re.MULTILINE)
_DISTRIBUTIONS: Final = ("histogram", "summary")
_UNITS: Final = {"seconds": "s", "milliseconds": "ms", "bytes": "B"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is a scrape: it declares the type of a metric."""
    return _TYPE.search(file.head) is not None


def read(file: ResultFile, results: Results) -> None:
    """Read all samples of the page. Raises ValueError for any other line."""
    page = _page(file)
    times = [ns_of(sample.time_s) for sample in page.samples if sample.time_s is not None]
    results.is_dated = bool(times)
    undated_ns = max(times, default=0)
    if times and len(times) < len(page.samples):
        results.lacks("when values without a timestamp were read: they are at the time of the last one")
    last: dict[PageSeries, float] = {}
    for sample in page.samples:
        at_ns = undated_ns if sample.time_s is None else ns_of(sample.time_s)
        if isfinite(sample.value):
            _add(sample, at_ns, page, last, results)
        else:
            results.lacks("values that are NaN or infinite: they are left out")


def _page(file: ResultFile) -> Page:
    with file.open() as opened:
        data = opened.read(limits.IMPORTED_JSON_BYTES + 1)
    if len(data) > limits.IMPORTED_JSON_BYTES:
        raise ValueError(f"a page of more than {size(limits.IMPORTED_JSON_BYTES)} can't be read at once")
    page = PageReader().read(data, OPEN_METRICS if _OPEN_METRICS.search(data) else "")
    if page.malformed:
        raise ValueError(f"{page.first_malformed!r} is no line of a scrape")
    if not page.samples:
        raise ValueError("it has no values")
    return page


def _add(sample: PageSample, at_ns: int, page: Page, last: dict[PageSeries, float], results: Results) -> None:
    """Add a value of a gauge, or what a counter has grown by."""
    series, value = sample.series, sample.value
    family, kind, part = meaning(series.name, page.types)
    if part == "created":
        return  # a Unix time
    if kind in _DISTRIBUTIONS:
        results.lacks("single values: a scrape has only sums")
    is_counter = kind == "counter" or (kind in _DISTRIBUTIONS and part in ("bucket", "sum", "count"))
    labels = {key: results.label(key, text) for key, text in series.labels.items()}
    unit = "" if part in ("bucket", "count") else _unit(family, page)
    if not is_counter:
        results.values_of("gauge", series.name, unit, labels).add(at_ns, value)
        return
    before, last[series] = last.get(series, 0.0), value
    grown = value - before if value >= before else value  # it was restarted
    if grown < 0:  # the sum of values below 0
        results.lacks(f"{series.name} where it is below 0")
    else:
        results.values_of("counter", series.name, unit, labels).add(at_ns, grown)


def _unit(name: str, page: Page) -> str:
    """Return the unit that the page or the name states."""
    name = name.removesuffix("_total")
    word = page.units.get(name) or name.rpartition("_")[2]
    return _UNITS.get(word, "")
