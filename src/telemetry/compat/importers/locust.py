"""Results of Locust: the CSV files of `--csv`, best with `--csv-full-history`, and the JSON of `--json-file`.

Neither has single requests. `_stats_history.csv` has counts each second: a time is that of writing the row, and the
requests ended in the second before. `_stats.csv` and `_failures.csv` beside it have the figures of the whole test.
The JSON has counts per second and, of each endpoint, how many requests took how long, rounded to two digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from telemetry.compat.importers.result_file import ResultFile, ns_of
from telemetry.compat.importers.results import Results
from telemetry.errors import UsageError

TOOL: Final = "Locust"
LOOKS_FOR: Final = "Locust: the files of `--csv`, their folder, or the JSON of `--json` or `--json-file`"

_HISTORY, _STATS, _FAILURES = "_stats_history.csv", "_stats.csv", "_failures.csv"
_HISTORY_HEADER: Final = "Timestamp,User Count,Type,Name,"
_STATS_HEADER: Final = "Type,Name,Request Count,Failure Count,"
_TOTAL: Final = "Aggregated"
_COUNTED: Final = {"http.requests": "Total Request Count", "http.failures": "Total Failure Count"}
_PER_SECOND: Final = {"http.requests": "num_reqs_per_sec", "http.failures": "num_fail_per_sec"}
_ENTRY_UNITS: Final = {"response_time": "ms", "content_length": "B"}
_MOST_DURATIONS: Final = 5_000_000


def recognizes(file: ResultFile) -> bool:
    """Return whether a file, or those in a folder, are of Locust."""
    if file.is_folder:
        return file.member(f"*{_HISTORY}", f"*{_STATS}") is not None
    return file.first_line.startswith((_HISTORY_HEADER, _STATS_HEADER)) or file.has_keys(
        "num_none_requests", "response_times", "num_reqs_per_sec"
    )


def read(file: ResultFile, results: Results) -> None:
    """Read the CSV files with the same beginning of their names, or a JSON."""
    if file.is_folder:
        several = sorted({path.name.removesuffix(_STATS) for path in file.path.glob(f"*{_STATS}")})
        if len(several) > 1:
            raise UsageError(
                f"{file.path} has {len(several)} tests of Locust",
                hint=f"import them one by one: {several[0]}{_STATS}",
            )
        file = file.member(f"*{_HISTORY}", f"*{_STATS}") or file
    if file.first_line.startswith((_HISTORY_HEADER, _STATS_HEADER)):
        _read_csv(file, results)
    else:
        _read_json(file.json(), results)


def _read_csv(file: ResultFile, results: Results) -> None:
    prefix = file.path.name.removesuffix(_HISTORY).removesuffix(_STATS)
    is_history = file.first_line.startswith(_HISTORY_HEADER)
    history = file if is_history else file.beside(prefix + _HISTORY)
    stats = file.beside(prefix + _STATS) if is_history else file
    failures = file.beside(prefix + _FAILURES)
    results.lacks("single requests: Locust has counts and percentiles only")
    results.lacks("requests of the last second: Locust writes its CSV files each second, and not at the end")
    totals = {} if history is None else _read_history(history, results)
    if history is None:
        results.is_dated = False
        results.lacks("counts over time: there is no _stats_history.csv beside the file")
    if stats is not None:
        _state(stats.dict_rows(), results)
    else:
        results.lacks("percentiles of the whole test: there is no _stats.csv beside the file")
        _state(iter([totals] if totals else []), results)
    for row in failures.dict_rows() if failures is not None else ():
        results.state(f"{row['Method']} {row['Name']} {row['Error']}".strip(), int(row["Occurrences"]))


def _read_history(file: ResultFile, results: Results) -> dict[str, str]:
    """Read counts and users, and return the totals in the last row."""
    is_full = any(row["Name"] != _TOTAL for row in file.dict_rows())
    users = results.values_of("gauge", "users")
    counted: dict[tuple[str, str], int] = {}
    totals: dict[str, str] = {}
    for row in file.dict_rows():
        at_ns, is_total = ns_of(row["Timestamp"]), row["Name"] == _TOTAL
        if is_total:
            users.add(at_ns, int(row["User Count"]))
            totals = {name: value for name, value in row.items() if name.startswith("Total ") or name == "Name"}
        if is_total and is_full:
            continue
        label = _name(row["Type"], row["Name"])
        labels = {"name": results.label("name", label)} if is_full else {}
        for counter, column in _COUNTED.items():
            count, before = int(row[column]), counted.get((label, counter), 0)
            if count < before:  # --reset-stats sets all counts to 0
                before = 0
            results.values_of("counter", counter, "requests", labels).add(at_ns, ns_of(count - before, 1))
            counted[label, counter] = count
    if not is_full:
        results.lacks("counts of each endpoint: they are in files of --csv-full-history")
    return totals


def _state(rows: Iterator[Mapping[str, str]], results: Results) -> None:
    """State the figures of each row: those of all requests under the names of the columns."""
    for row in rows:
        endpoint = "" if row["Name"] == _TOTAL else _name(row.get("Type", ""), row["Name"])
        is_empty = not int(row.get("Request Count", row.get("Total Request Count", 0)))
        for column, value in row.items():
            is_count = column.endswith(("Request Count", "Failure Count"))
            if column not in ("Type", "Name") and (is_count or not is_empty):  # Locust writes 0 for what it lacks
                results.state(f"{endpoint} {column}".strip(), float(value), _unit(column))


def _unit(column: str) -> str:
    if column.endswith("/s"):
        return "/s"
    return "ms" if column.endswith(("%", "Response Time")) else "B" if column.endswith("Content Size") else ""


def _name(method: str, name: str) -> str:
    return f"{method} {name}".strip()


def _read_json(entries: Any, results: Results) -> None:
    durations = sum(ns_of(count, 1) for entry in entries for count in entry["response_times"].values())
    if durations > _MOST_DURATIONS:
        results.lacks(f"durations: the file has more than the {_MOST_DURATIONS:,} that can be read")
    else:
        results.lacks(
            "when each request was made: durations are shown at the end of the last one of their endpoint"
        )
        results.lacks("exact durations: Locust rounds them to 1 ms, and from 100 ms on to two digits")
    results.mark(min(ns_of(entry["start_time"]) for entry in entries), "first request")
    results.mark(max(_last_ns(entry) for entry in entries), "last request ended")
    for entry in entries:
        name = _name(entry["method"], entry["name"])
        labels = {"name": results.label("name", name)}
        first_ns, last_ns = ns_of(entry["start_time"]), _last_ns(entry)
        for counter, key in _PER_SECOND.items():
            counted = results.values_of("counter", counter, "requests", labels)
            counted.add(first_ns, 0.0)
            for second, count in entry[key].items():
                counted.add(ns_of(second), ns_of(count, 1))
        if durations <= _MOST_DURATIONS:
            series, at_ns = results.values_of("series", "http.duration", "ms", labels), first_ns
            for duration, count in entry["response_times"].items():
                milliseconds = ns_of(duration, 1)
                for _ in range(ns_of(count, 1)):
                    series.add(at_ns, milliseconds)
                    at_ns = (
                        last_ns  # only the first duration in the file has a time: it is that of the first request
                    )
        for key, value in entry.items():
            unit = next((unit for end, unit in _ENTRY_UNITS.items() if key.endswith(end)), "")
            if not key.endswith(("start_time", "timestamp")):
                results.state(f"{name} {key}", value, unit)


def _last_ns(entry: Mapping[str, Any]) -> int:
    """Return the end of the last request. An entry of failures alone has none."""
    return ns_of(entry["last_request_timestamp"] or entry["start_time"])
