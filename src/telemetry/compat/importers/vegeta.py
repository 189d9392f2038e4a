"""Results of vegeta: the JSON lines and the CSV of `vegeta encode`, and the JSON of `vegeta report`.

A folder may have both, then the figures of the report stand beside ours. A timestamp is the start of a request. Its
latency lasts to the end of the body, with the time to get a connection. `results.bin` can be read by Go only.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from telemetry.compat.importers.result_file import ResultFile, unix_ns
from telemetry.compat.importers.results import Results
from telemetry.errors import UsageError

TOOL: Final = "vegeta"
LOOKS_FOR: Final = "vegeta: results of `vegeta encode`, `vegeta report -type json`, or a folder with both"

_FIGURES: Final = {"bytes_in": "B", "bytes_out": "B"}
_SUCCESSES: Final = range(200, 400)
_FIRST_CELLS: Final = re.compile(rb"\d{16,19},\d{1,3},\d+,\d+,\d+,")
_COLUMNS: Final = (9, 12)
"""Numbers of columns before version 12.8, and since then."""
_REQUEST_TEXT: Final = re.compile(r'\w+ "[^"]*": ')
_BODY: Final = re.compile(rb"[A-Za-z0-9+/=]{4096,}")
_GOB: Final = (b"Result", b"Attack", b"Timestamp", b"Latency")
_MOST_FILES: Final = 50
_UNITS: Final = {"latencies.": "ns", "duration": "ns", "wait": "ns", "rate": "/s", "throughput": "/s"} | {
    "bytes_in.": "B",
    "bytes_out.": "B",
}


def recognizes(file: ResultFile) -> bool:
    """Return whether a file, or one in a folder, is one of vegeta."""
    return any(_has_requests(part) or _is_report(part) or _is_binary(part) for part in _parts(file))


def _parts(file: ResultFile) -> Iterator[ResultFile]:
    """Yield the files of a folder, or the file itself."""
    if not file.is_folder:
        yield file
        return
    for path in islice(sorted(file.path.iterdir()), _MOST_FILES):
        if path.is_file():
            yield ResultFile(path)


def _is_csv(file: ResultFile) -> bool:
    return _FIRST_CELLS.match(file.head) is not None


def _has_requests(file: ResultFile) -> bool:
    return _is_csv(file) or file.has_keys("attack", "seq", "code", "timestamp", "latency", "bytes_out", "bytes_in")


def _is_report(file: ResultFile) -> bool:
    return file.has_keys("latencies", "bytes_in", "bytes_out", "earliest", "status_codes")


def _is_binary(file: ResultFile) -> bool:
    return all(word in file.head[:200] for word in _GOB)


def read(file: ResultFile, results: Results) -> None:
    """Read the requests and the figures. Of several files with requests in a folder, only the first is read."""
    parts = list(_parts(file))
    requests_file = next(filter(_has_requests, parts), None)
    report = next(filter(_is_report, parts), None)
    if requests_file is None and report is None and any(map(_is_binary, parts)):
        raise UsageError(
            f"{file.path} can't be read: it has the binary results of vegeta",
            hint="run `vegeta encode -to json` on them first, and import its output",
        )
    if requests_file is None and report is None:
        raise ValueError("it has no results of vegeta")
    if report is not None:
        _read_report(report.json(), results, has_requests=requests_file is not None)
    if requests_file is not None:
        _read_requests(_csv_hits(requests_file) if _is_csv(requests_file) else _json_hits(requests_file), results)


class _Hit(NamedTuple):
    """A request."""

    start_ns: int
    latency_ns: int
    code: int
    sizes: tuple[int, int]
    """Bytes in and out."""
    error: str
    attack: str
    target: str


def _json_hits(file: ResultFile) -> Iterator[_Hit]:
    for hit in file.json_lines():
        yield _Hit(
            unix_ns(hit["timestamp"]),
            hit["latency"],
            hit["code"],
            (hit["bytes_in"], hit["bytes_out"]),
            hit["error"],
            str(hit["attack"]),
            f"{hit.get('method', '')} {hit.get('url', '')}",
        )


def _csv_hits(file: ResultFile) -> Iterator[_Hit]:
    lines = (_BODY.sub(b"", line).decode("utf-8", "replace") for line in file.lines())
    rows, number = csv.reader(lines), 0
    try:
        for number, row in enumerate(rows, 1):
            if len(row) not in _COLUMNS:
                raise ValueError(f"request {number} has {len(row)} cells")
            start_ns, code, latency_ns, bytes_out, bytes_in = map(int, row[:5])
            yield _Hit(start_ns, latency_ns, code, (bytes_in, bytes_out), row[5], row[7], " ".join(row[9:11]))
    except csv.Error as error:
        raise ValueError(f"request {number + 1}: {error}") from error


def _read_requests(hits: Iterable[_Hit], results: Results) -> None:
    """Add the requests. One fails unless its status is from 200 to 399, as in reports."""
    requests = results.requests_of("http", _FIGURES)
    for hit in hits:
        results.name = results.name or hit.attack
        if hit.code in _SUCCESSES:
            failure = ""
        else:
            failure = f"status {hit.code}" if hit.code else _REQUEST_TEXT.sub("", hit.error, count=1) or "failed"
        requests.add(
            hit.start_ns,
            hit.start_ns + hit.latency_ns,
            failure=failure,
            part=results.label("name", hit.target.strip()),
            values=hit.sizes,
        )


def _read_report(report: Mapping[str, Any], results: Results, *, has_requests: bool) -> None:
    for name, value in report.items():
        for key, figure in value.items() if isinstance(value, dict) else [("", value)]:
            full = f"{name}.{key}" if key else name
            results.state(
                full, figure, next((unit for start, unit in _UNITS.items() if full.startswith(start)), "")
            )
    if not has_requests:
        results.lacks("single requests and their times: this is a report, `vegeta encode` writes them")
        results.mark(unix_ns(report["earliest"]), "attack began")
        results.mark(unix_ns(report["end"]), "attack ended")
