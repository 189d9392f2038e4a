"""Results of oha: the CSV of `--output-format csv`, which has requests, and the JSON of `--output-format json`.

`request-start` is in seconds since the beginning of the benchmark; there is no time of day. A latency lasts from it
to the end of the body. With `--latency-correction` it begins earlier, when the request was planned. The JSON has
figures only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results

TOOL: Final = "oha"
LOOKS_FOR: Final = "oha: the CSV or the JSON of `oha --output-format`"

_HEADER: Final = "request-start,DNS,DNS+dialup,"
_FIGURES: Final = {"dns": "s", "dns_dialup": "s", "response_delay": "s"}
_PHASES: Final = ("DNS", "DNS+dialup", "Response-delay")
_NAN: Final = float("nan")
_SUCCESSES: Final = range(200, 300)
_UNITS: Final = {
    "summary.successRate": "",
    "summary.requestsPerSec": "/s",
    "summary.sizePerSec": "B/s",
    "summary.totalData": "B",
    "summary.total": "s",
    "summary.sizePerRequest": "B",
    "summary.": "s",
    "metrics.latency_ms.": "ms",
    "metrics.requests_per_sec": "/s",
    "latencyPercentiles": "s",
    "firstBytePercentiles": "s",
    "rps.": "/s",
    "details.": "s",
}
"""Beginning of a figure's name → unit. The first one counts."""


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of oha."""
    return file.first_line.startswith(_HEADER) or file.has_keys(
        "summary", "successRate", "latencyPercentiles", "rps"
    )


def read(file: ResultFile, results: Results) -> None:
    """Read the requests of a CSV, or the figures of a JSON."""
    results.is_dated = False
    if file.first_line.startswith(_HEADER):
        _read_requests(file, results)
    else:
        _read_figures(file.json(), results)


def _read_requests(file: ResultFile, results: Results) -> None:
    requests = results.requests_of("http", _FIGURES)
    for row in file.dict_rows():
        start_ns, status = ns_of(row["request-start"]), int(row["status"])
        requests.add(
            start_ns,
            start_ns + ns_of(row["request-duration"]),
            failure="" if status in _SUCCESSES else f"status {status}",
            values=[float(row.get(phase, 0)) or _NAN for phase in _PHASES],  # 0: no connection was made
        )
    results.lacks("requests without a response: oha leaves them out of its CSV")
    results.lacks("the time of day")
    results.lacks("whether durations begin at the planned starts, as with --latency-correction")


def _read_figures(summary: Any, results: Results) -> None:
    results.lacks("single requests and their times: the JSON has figures only, `--output-format csv` has requests")
    results.measured_s = float(summary["summary"]["total"])
    end_ns = ns_of(results.measured_s)
    for name, value in _flat(summary):
        if "Histogram" not in name:
            results.state(name, value, next((unit for start, unit in _UNITS.items() if name.startswith(start)), ""))
    statuses = {f"status {status}": count for status, count in summary["statusCodeDistribution"].items()}
    for outcome, count in (statuses | summary["errorDistribution"]).items():
        counted = results.values_of(
            "counter", "http.requests", "requests", {"outcome": results.label("outcome", outcome)}
        )
        counted.add(0, 0.0)
        counted.add(end_ns, ns_of(count, 1))
    results.mark(0, "benchmark began")
    results.mark(end_ns, "benchmark ended")


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the figures at all levels, with names such as `summary.total`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
