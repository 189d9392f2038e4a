"""Files of HdrHistogram: percentile distributions (.hgrm) and interval logs (.hlog), and what wrk2 and wrk print.

They have counts of values, not requests. A value of a distribution is shown as that of its row, and at the end of
the run. Values of an interval are in its middle. Those that wrk2 prints are in ms.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.compat.importers.hdr_payload import recorded
from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results

TOOL: Final = "HdrHistogram"
LOOKS_FOR: Final = (
    "HdrHistogram: percentile distributions (.hgrm), interval logs (.hlog), and what wrk2 and wrk print"
)

_HEADER: Final = re.compile(r'\s*"?Value"?[,\s]+"?Percentile"?[,\s]+"?TotalCount"?[,\s]')
_FIGURE: Final = re.compile(r"(Mean|StdDeviation|Max|Total ?[Cc]ount)\s*=\s*([\d.]+)")
_LOG: Final = re.compile(rb'^#\[Histogram log format version|^"StartTimestamp","Interval_Length"', re.MULTILINE)
_TIME: Final = re.compile(r"#\[(StartTime|BaseTime): *([\d.]+)")
_RUNNING: Final = re.compile(r"Running (\d+)(s|m|h) test @ (\S+)")
_PERCENTILE: Final = re.compile(r"\s*([\d.]+)%\s+([\d.]+)(us|ms|s|m)$")
_COUNTED: Final = re.compile(r"\s*(\d+) requests in ([\d.]+)(ms|s|m|h), ")
_RATE: Final = re.compile(r"(Requests|Transfer)/sec:\s+([\d.]+)(B|KB|MB|GB)?")
_BYTES: Final = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_ERRORS: Final = re.compile(r"\s*(Non-2xx or 3xx responses|Socket errors): (.*)")
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0}
_DATED_S: Final = 1e8
"""Least number of seconds that is a time of day: no run lasts three years."""
_MOST_VALUES: Final = 5_000_000


def recognizes(file: ResultFile) -> bool:
    """Return whether a file is one of HdrHistogram, wrk2 or wrk."""
    text = file.head[:400].decode("utf-8-sig", "replace")
    return bool(_HEADER.match(text) or _RUNNING.match(text) or _LOG.search(file.head[:4_000]))


def read(file: ResultFile, results: Results) -> None:
    """Read the file."""
    if _LOG.search(file.head[:4_000]):
        _read_log(file, results)
    else:
        results.is_dated = False
        _read_printed(file, results)
    if not (results.instruments or results.stated):
        raise ValueError("it has no values")


# --- distributions -------------------------------------------------------------------------------


def _read_printed(file: ResultFile, results: Results) -> None:
    """Read distributions. wrk2 prints a second one, of times from when a request was really sent."""
    lines, name, unit, end_ns = file.text_lines(), "value", "", 0
    for line in lines:
        if (running := _RUNNING.match(line)) is not None:
            end_ns, name, unit = ns_of(float(running[1]) * _SECONDS[running[2]]), "latency", "ms"
            results.tool, results.name = "wrk", "wrk"
            results.param("url", running[3])
            results.mark(0, "load began")
            results.mark(end_ns, "load ended")
        elif "Uncorrected Latency" in line:
            name = "uncorrected_latency"
        elif "(HdrHistogram - Recorded Latency)" in line:
            results.tool = results.name = "wrk2"
        elif _HEADER.match(line):
            rows, end = _rows(lines)
            for key, value in _FIGURE.findall(" ".join([end, *(next(lines, "") for _ in range(2))])):
                results.state(f"{name} {key}", float(value), "" if key.startswith("Total") else unit)
            _add_rows(rows, results, name, unit, end_ns)
        else:
            _state(line, name, results)
    if unit:
        results.lacks("single requests: it prints counts of their latencies")
    else:
        results.lacks("the unit of the values: the file does not have it")
    if results.instruments:
        results.lacks("when the values were recorded: all are shown at the end")


def _state(line: str, name: str, results: Results) -> None:
    """State the figures in a line that wrk2 or wrk prints."""
    if (percentile := _PERCENTILE.match(line)) is not None:
        results.state(f"{name} {percentile[1]}%", float(percentile[2]) * _SECONDS[percentile[3]] * 1e3, "ms")
    elif (counted := _COUNTED.match(line)) is not None:
        results.measured_s = float(counted[2]) * _SECONDS[counted[3]]
        results.state("requests", int(counted[1]))
    elif (rate := _RATE.match(line)) is not None:
        results.state(f"{rate[1]}/sec", float(rate[2]) * _BYTES.get(rate[3], 1), "B/s" if rate[3] else "/s")
    elif (errors := _ERRORS.match(line)) is not None:
        results.mark(results.marks[-1][0] if results.marks else 0, f"{errors[1]}: {errors[2]}")


def _rows(lines: Iterator[str]) -> tuple[list[tuple[float, float, int]], str]:
    """Return value, percentile and cumulative count of each row, and the line after them."""
    rows: list[tuple[float, float, int]] = []
    for line in lines:
        if line.startswith("#"):
            return rows, line
        if cells := line.replace(",", " ").split():
            rows.append((float(cells[0]), 100 * float(cells[1]), int(cells[2])))
    return rows, ""


def _add_rows(rows: Sequence[tuple[float, float, int]], results: Results, name: str, unit: str, at_ns: int) -> None:
    """Add the values of a distribution. If they are too many, state its percentiles instead."""
    if rows and rows[-1][2] > _MOST_VALUES:
        for value, percentile, _ in rows:
            results.state(f"{name} {percentile:.10g}%", value, unit)
        results.lacks(f"the values of {name}: it has more than the {_MOST_VALUES:,} that can be read")
        return
    before = 0
    for value, _, total in rows:
        if total < before:
            raise ValueError("the counts of the distribution are not in order")
        _add(results, name, unit, "", at_ns, value, total - before)
        before = total
    results.lacks("values between the rows of the distribution: each is shown as that of the row above it")


def _add(  # noqa: PLR0917
    results: Results, name: str, unit: str, tag: str, at_ns: int, value: float, count: int
) -> None:
    """Add a value so many times. Raises ValueError for more values than a file may have."""
    columns = results.values_of("series", name, unit, {"tag": tag} if tag else {})
    if count > _MOST_VALUES - len(columns.times):
        raise ValueError(f"it has more than {_MOST_VALUES:,} values of {name}: split the log, and merge the runs")
    columns.times.extend(array("q", [at_ns]) * count)
    columns.values.extend(array("d", [value]) * count)


# --- interval logs -------------------------------------------------------------------------------


def _read_log(file: ResultFile, results: Results) -> None:
    """Read the values of each interval. Times are relative if the log has a base time."""
    times: dict[str, float] = {}
    results.lacks("the unit of the values: the file does not have it")
    results.lacks("times within an interval: its values are in its middle")
    for number, line in enumerate(file.text_lines(), 1):
        if (time := _TIME.match(line)) is not None:
            times[time[1]] = float(time[2])
        if not line.strip() or line[0] in '#"':
            continue
        tag, line = line[4:].split(",", 1) if line.startswith("Tag=") else ("", line)  # noqa: PLW2901
        try:
            start, length, _, data = line.split(",")
            counts = list(recorded(data))
        except (ValueError, zlib.error) as error:
            raise ValueError(f"line {number} is no interval of a histogram log: {error}") from error
        start_s = float(start) + (times.get("BaseTime", 0.0) if float(start) < _DATED_S else 0.0)
        results.is_dated = results.is_dated and start_s >= _DATED_S
        middle_ns = ns_of(start_s) + ns_of(length) // 2
        for value, count in counts:
            _add(results, "value", "", tag, middle_ns, float(value), count)
