"""Figures by the definitions of micro-benchmark tools, from values of series, under the names in their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from telemetry.report.other_tools.answers import Numbers
from telemetry.report.other_tools.series_values import SeriesValues

Figures = dict[str, Any]
_SERIES: Final = "time"
_MAD_SCALE: Final = float(np.float32(1.4826))
"""Factor of Criterion, which has it in single precision."""
_FENCE: Final = 1.5
_PERCENTILES: Final = (50, 75, 90, 99, 99.9, 99.99, 99.999, 100)
_INSIDE_FENCE: Final = (5, 3, 1)
"""First version of pytest-benchmark whose `hd15iqr` is inside the fence."""


def hyperfine(series: Iterable[SeriesValues], version: str) -> Figures:
    """Return the figures of hyperfine. The deviation is that of a sample."""
    figures: Figures = {}
    for of in series:
        title = of.labels["command"] if of.name == _SERIES else f"{of.labels['command']} {of.name}"
        figures |= {f"{title} {key}": value for key, value in _spread(of.values).items()}
    return figures


def pytest_benchmark(series: Iterable[SeriesValues], version: str) -> Figures:
    """Return the figures of pytest-benchmark. Quartiles of an even number of rounds are by another method."""
    figures: Figures = {}
    for of in series:
        values, spread = np.sort(of.values), _spread(of.values)
        deviation = spread.setdefault("stddev", 0.0)
        q1, q3 = _quartiles(values)
        low, high = q1 - _FENCE * (q3 - q1), q3 + _FENCE * (q3 - q1)
        outside = (values < spread["mean"] - deviation) | (values > spread["mean"] + deviation)
        own = {
            **spread,
            "q1": q1,
            "q3": q3,
            "iqr": q3 - q1,
            "rounds": values.size,
            "total": float(values.sum()),
            "ops": values.size / float(values.sum()) if values.any() else 0.0,
            "stddev_outliers": int(outside.sum()),
            "iqr_outliers": int(((values < low) | (values > high)).sum()),
            "ld15iqr": float(values[np.searchsorted(values, low)]),
            "hd15iqr": _highest(values, high, version),
        }
        figures |= {f"{of.labels['benchmark']} {key}": value for key, value in own.items()}
    return figures


def _quartiles(values: Numbers) -> tuple[float, float]:
    """Return the quartiles of sorted values."""
    size = values.size
    if size == 1:
        return float(values[0]), float(values[0])
    half, n = size // 2, size // 4
    if size % 2 == 0:
        return float(np.median(values[:half])), float(np.median(values[half:]))
    if size % 4 == 1:
        low, high = values[[n - 1, n]] @ (0.25, 0.75), values[[3 * n, 3 * n + 1]] @ (0.75, 0.25)
    else:
        low, high = values[[n, n + 1]] @ (0.75, 0.25), values[[3 * n + 1, 3 * n + 2]] @ (0.25, 0.75)
    return float(low), float(high)


def _highest(values: Numbers, fence: float, version: str) -> float:
    """Return the highest value inside the fence; before 5.3.1 it was the first one outside."""
    place = int(np.searchsorted(values, fence, side="right"))
    parts = tuple(int(part) for part in version.split(".") if part.isdigit())
    return float(values[min(place, values.size - 1) if parts < _INSIDE_FENCE else place - 1])


def google_benchmark(series: Iterable[SeriesValues], version: str) -> Figures:
    """Return the aggregates of Google Benchmark, of times and of counters."""
    figures: Figures = {}
    for of in series:
        spread = _spread(of.values)
        own: Figures = {key: spread[key] for key in ("mean", "median", "stddev") if key in spread}
        if "stddev" in own and own["mean"]:
            own["cv"] = own["stddev"] / own["mean"]
        figures |= {f"{of.labels['benchmark']}_{key} {of.name}": value for key, value in own.items()}
    return figures


def criterion(series: Iterable[SeriesValues], version: str) -> Figures:
    """Return the figures of Criterion. The slope is that of a line through the origin, over all samples."""
    figures: Figures = {}
    by_name = {(of.labels["benchmark"], of.name): of.values for of in series}
    for (title, name), values in by_name.items():
        if name != _SERIES:
            continue
        spread, median = _spread(values), float(np.median(values))
        own = {"mean": spread["mean"], "median": median, "std_dev": spread.get("stddev")}
        own["median_abs_dev"] = float(np.median(np.abs(values - median))) * _MAD_SCALE
        if (iterations := by_name.get((title, "iterations"))) is not None:
            own["slope"] = float((iterations * iterations * values).sum() / (iterations * iterations).sum())
        figures |= {f"{title} {key}": value for key, value in own.items()}
    return figures


def hdr_histogram(series: Iterable[SeriesValues], version: str) -> Figures:
    """Return the figures of HdrHistogram and wrk2. A percentile is the first value that reaches its rank."""
    figures: Figures = {}
    for of in series:
        own: Figures = {
            "Mean": float(of.values.mean()),
            "StdDeviation": float(of.values.std()),
            "Max": float(of.values.max()),
            "Total count": of.values.size,
            "TotalCount": of.values.size,
            **{f"{p:.3f}%": _printed(np.percentile(of.values, p, method="inverted_cdf")) for p in _PERCENTILES},
        }
        figures |= {f"{of.name} {key}": value for key, value in own.items()}
    return figures


def _printed(ms: float) -> float:
    """Return a duration as wrk2 prints it: with two decimals in a unit that fits."""
    unit = next((unit for unit in (60_000.0, 1_000.0, 1.0) if ms >= unit), 1e-3)
    return float(np.floor(ms / unit * 100 + 0.5)) / 100 * unit


def _spread(values: Numbers) -> Figures:
    """Return figures that the tools define in the same way. One value has no deviation."""
    figures = {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "min": float(values.min()),
        "max": float(values.max()),
    }
    return figures | ({"stddev": float(values.std(ddof=1))} if values.size > 1 else {})


DEFINITIONS: Final[dict[str, Callable[[Iterable[SeriesValues], str], Figures]]] = {
    "hyperfine": hyperfine,
    "pytest-benchmark": pytest_benchmark,
    "Google Benchmark": google_benchmark,
    "Criterion": criterion,
    "HdrHistogram": hdr_histogram,
    "wrk2": hdr_histogram,
}
"""Name of the tool → figures of series and the version; each key is a name that its importer states."""
_BUCKETS: Final = "computed from all buckets; the rows of the file are fewer, and have their upper ends"
_COUNTED: Final = "the file has no requests, only counts of their latencies"
_RANDOM: Final = "Criterion draws samples at random for it (bootstrap), so it can't be repeated"
_SQUARES: Final = (
    "from sums of squares, which lose digits if repetitions hardly differ; or the file has no repetitions"
)
WHY: Final[dict[str, dict[str, str]]] = {
    "hyperfine": {
        "… user": "the file has no user time of single runs",
        "… system": "the file has no system time of single runs",
    },
    "Google Benchmark": {
        "": "a statistic of the benchmark itself, or the file has no repetitions",
        "…_BigO ": "a line that is fitted to several benchmarks",
        "…_RMS ": "a line that is fitted to several benchmarks",
        "…_stddev ": _SQUARES,
        "…_cv ": _SQUARES,
    },
    "Criterion": {"… lower_bound": _RANDOM, "… upper_bound": _RANDOM},
    "HdrHistogram": {"": _BUCKETS, "… StdDeviation": f"{_BUCKETS}; the package for Python does not scale it"},
    "wrk2": {
        "": _BUCKETS,
        "…%": "wrk2 rounds it to two decimals; the rows of the file lie apart, and have the upper ends of buckets",
        **dict.fromkeys(("requests", "Requests/sec", "Transfer/sec"), _COUNTED),
    },
}
"""Name of the tool → part of a figure's name after "…" → why it differs from ours, or can't be recomputed."""
