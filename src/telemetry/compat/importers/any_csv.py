"""Any CSV file with a time in each row, by the names of its columns: `--columns time=NAME,value=NAME`.

time      ISO 8601, or Unix time in seconds, ms, µs or ns, whichever it must be
value     a number; the series has the name of the column
label     a label of the series, with the name of the column
duration  makes each row a request that starts at its time
ok        false, 0, no, fail, failed, error, or a status from 400 up: the request failed
unit      not a column: the unit of value or duration (default for durations: s, or the end of their name)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telemetry.compat.importers.result_file import ResultFile, ns_of, time_ns
from telemetry.compat.importers.results import Results
from telemetry.errors import UsageError
from telemetry.wire.units import TIME_NS

TOOL: Final = "CSV"
LOOKS_FOR: Final = "any CSV file with a time in each row: --columns time=NAME,value=NAME,label=NAME"

_KEYS: Final = ("time", "value", "label", "duration", "ok", "unit")
_FAILED: Final = frozenset({"false", "0", "no", "fail", "failed", "error"})
_FIRST_ERROR: Final = 400


def recognizes(file: ResultFile) -> bool:
    """Return whether the user named columns: the content of a file does not tell what they mean."""
    return bool(file.columns)


def read(file: ResultFile, results: Results) -> None:
    """Read requests, or the values of a series for each label."""
    columns = _checked(file)
    of_value, of_duration = columns.get("value", ""), columns.get("duration", "")
    unit = columns.get("unit") or _unit_of(of_duration or of_value) or ("s" if of_duration else "")
    label = columns.get("label", "")
    for number, row in enumerate(file.dict_rows(), 2):
        try:
            at_ns = time_ns(row[columns["time"]])
            labels = {label: results.label(label, row[label])} if label else {}
            if of_value:
                results.values_of("series", of_value, unit, labels).add(at_ns, float(row[of_value]))
            if of_duration:
                results.requests_of("request").add(
                    at_ns,
                    at_ns + ns_of(row[of_duration], TIME_NS[unit]),
                    failure=_failure(row, columns.get("ok", "")),
                    part=labels.get(label, ""),
                )
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from error


def _failure(row: Mapping[str, str], column: str) -> str:
    if not column:
        return ""
    outcome = row[column].strip()
    if outcome.lower() in _FAILED:
        return "failed"
    return f"status {outcome}" if outcome.isdigit() and int(outcome) >= _FIRST_ERROR else ""


def _unit_of(column: str) -> str:
    """Return the unit of time at the end of a column's name, such as `latency_ms`."""
    end = column.rpartition("_")[2]
    return end if end in TIME_NS else ""


def _checked(file: ResultFile) -> Mapping[str, str]:
    """Return the chosen columns. Raises UsageError for one that does not exist."""
    columns, names = file.columns, file.first_line.split(",")
    names = [name.strip().strip('"') for name in names]
    if unknown := [key for key in columns if key not in _KEYS]:
        raise UsageError(f"--columns has no {unknown[0]!r}", hint=f"it has {', '.join(_KEYS)}")
    if missing := [name for key, name in columns.items() if key != "unit" and name not in names]:
        raise UsageError(f"{file.path} has no column {missing[0]!r}", hint=f"it has {', '.join(names[:20])}")
    if "time" not in columns or not columns.keys() & {"value", "duration"}:
        raise UsageError(
            "--columns needs a time, and a value or a duration", hint="such as time=when,value=latency_ms"
        )
    if "duration" in columns and columns.get("unit", "s") not in TIME_NS:
        raise UsageError(f"--columns: {columns['unit']!r} is no unit of time", hint=f"use {', '.join(TIME_NS)}")
    return columns
