"""Results of hey: the CSV of `hey -o csv`, and the summary that it prints, which has no single requests.

A latency lasts from the start of a request to the end of its body. `offset` is that start, in seconds since hey was
started; there is no time of day. All times are rounded to 0.1 ms.
"""

from __future__ import annotations

import re
from typing import Final

from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results

TOOL: Final = "hey"
LOOKS_FOR: Final = "hey: the CSV of `hey -o csv`, or the summary that it prints"

_HEADER: Final = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
_PHASES: Final = ("DNS+dialup", "DNS", "Request-write", "Response-delay", "Response-read")
_FIGURES: Final = dict.fromkeys(("dns_dialup", "dns", "request_write", "response_delay", "response_read"), "s")
_FIRST_ERROR: Final = 400
_MOST_ROWS: Final = 1_000_000
_TITLE: Final = b"Summary:\n  Total:\t"
_FIGURE: Final = re.compile(r"  ([A-Z][\w/ ]+):\t\s*([\d.]+)(?: (secs|bytes))?")
_PERCENTILE: Final = re.compile(r"  (\d+)%%? in ([\d.]+) secs")
_DETAIL: Final = re.compile(r"  ([\w+ -]+):\t\s*([\d.]+) secs, ([\d.]+) secs, ([\d.]+) secs")
_STATUS: Final = re.compile(r"  \[(\d+)\]\t(\d+) responses")
_ERROR: Final = re.compile(r"  \[(\d+)\]\t(.+)")
_UNITS: Final = {"secs": "s", "bytes": "B"}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of hey."""
    return file.first_line == _HEADER or file.head.lstrip().startswith(_TITLE)


def read(file: ResultFile, results: Results) -> None:
    """Read the requests of a CSV, or the figures of a summary."""
    results.is_dated = False
    if file.first_line != _HEADER:
        _read_summary(file, results)
        return
    requests = results.requests_of("http", _FIGURES)
    for row in file.dict_rows():
        start_ns, status = ns_of(row["offset"]), int(row["status-code"])
        requests.add(
            start_ns,
            start_ns + ns_of(row["response-time"]),
            failure=f"status {status}" if status >= _FIRST_ERROR else "",
            values=[float(row[phase]) for phase in _PHASES],
        )
    results.lacks("requests without a response: hey leaves them out of its CSV")
    results.lacks("the time of day, and times below 0.1 ms")
    if len(requests) >= _MOST_ROWS:
        results.lacks(f"requests after the first {_MOST_ROWS:,}: hey leaves them out")


def _read_summary(file: ResultFile, results: Results) -> None:
    results.lacks("single requests and their times: this is a summary, `hey -o csv` has them")
    counts: dict[str, int] = {}
    for line in file.text_lines():
        if match := _PERCENTILE.fullmatch(line):
            results.state(f"{match[1]}%", float(match[2]), "s")
        elif match := _DETAIL.fullmatch(line):
            for place, key in enumerate(("average", "fastest", "slowest"), 2):
                results.state(f"{match[1]} {key}", float(match[place]), "s")
        elif match := _FIGURE.fullmatch(line):
            unit = "/s" if match[1] == "Requests/sec" else _UNITS.get(match[3] or "", "")
            results.state(match[1], float(match[2]), unit)
            if match[1] == "Total":
                results.measured_s = float(match[2])
        elif match := _STATUS.fullmatch(line):
            counts[f"status {match[1]}"] = int(match[2])
        elif match := _ERROR.fullmatch(line):
            counts[match[2]] = int(match[1])
    if not any(outcome.startswith("status ") for outcome in counts):  # hey prints 0 for what it has not measured
        results.stated = [figure for figure in results.stated if figure.value]
    if results.measured_s is None:
        raise ValueError("it has no total time")
    end_ns = ns_of(results.measured_s)
    for outcome, count in counts.items():
        counted = results.values_of(
            "counter", "http.requests", "requests", {"outcome": results.label("outcome", outcome)}
        )
        counted.add(0, 0.0)
        counted.add(end_ns, float(count))
    results.mark(0, "benchmark began")
    results.mark(end_ns, "benchmark ended")
