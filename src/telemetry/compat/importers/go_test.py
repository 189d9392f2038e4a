"""Results of `go test -bench`: its output as text, and as JSON lines with `-json`.

Each value is one run of a benchmark: the mean over its iterations, with the four or so digits that are printed.
In JSON lines a value has the time at which it was printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from telemetry.compat.importers.benchmarks import IN_ORDER, Benchmarks, metric_name
from telemetry.compat.importers.result_file import ResultFile, unix_ns
from telemetry.compat.importers.results import Results

TOOL: Final = "go test"
LOOKS_FOR: Final = "go test: the output of `go test -bench`, as text or with -json"

_VALUE: Final = rb"[ \t]+\d+[ \t]+[\d.e+-]+ \S+"
_TEXT: Final = re.compile(rb"^Benchmark\S*" + _VALUE, re.MULTILINE)
_JSON: Final = re.compile(rb'^\{"(?:Time|ImportPath|Action)":.*"Action":"', re.MULTILINE)
_REST: Final = re.compile(r"\s+\d+\t\s*[\d.e+-]+ \S+")
_TIME: Final = "ns/op"
_UNITS: Final = {"B/op": "B", "MB/s": "MB/s"}
_SETTINGS: Final = ("goos", "goarch", "cpu")
_FAILED: Final = "--- FAIL: Benchmark"
_PAIR: Final = 2


def recognizes(file: ResultFile) -> bool:
    """Return whether a file has the output of benchmarks."""
    return bool(_TEXT.search(file.head) or (b"Benchmark" in file.head and _JSON.search(file.head)))


def read(file: ResultFile, results: Results) -> None:
    """Read the values of each line of a benchmark."""
    output = _Output(results)
    if _JSON.search(file.head):
        for at_ns, package, line in _printed(file):
            output.benchmarks.at_ns = at_ns
            if not results.marks:
                output.benchmarks.begin()
            output.take(line, package)
    else:
        results.is_dated = False
        results.lacks(f"when each run began: {IN_ORDER}")
        output.benchmarks.begin()
        for line in file.text_lines():
            output.take(line)
    if not results.instruments:
        raise ValueError("it has no benchmark")
    results.lacks("single iterations: a value is their mean in one run")


def _printed(file: ResultFile) -> Iterator[tuple[int, str, str]]:
    """Yield time, package and text of each printed line, which may come in several events."""
    waiting: dict[str, str] = {}
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(file.lines(), 1):
        if not line.startswith(b"{"):
            continue  # errors of the compiler
        try:
            event = decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number}: {error}") from error
        if event.get("Action") == "output":
            package = event.get("Package", "")
            *lines, waiting[package] = (waiting.get(package, "") + event["Output"]).split("\n")
            for text in lines:
                yield unix_ns(event["Time"]), package, text


class _Output:
    """A reader of printed lines."""

    def __init__(self, results: Results) -> None:
        self.benchmarks = Benchmarks(results)
        self._results = results
        self._package = ""
        self._name = ""
        """The benchmark of which a line has the name only, because it printed something itself."""

    def take(self, line: str, package: str = "") -> None:
        """Take a line. Other lines than those of benchmarks have no values."""
        key, _, setting = line.partition(": ")
        if key == "pkg":
            self._package = setting
        elif key in _SETTINGS:
            self._results.param(key, setting)
        elif line.startswith(_FAILED):
            self.benchmarks.fail(line.split()[2])
        fields = line.split()
        if self._name and _REST.match(line):
            fields = [self._name, *fields]
        if not fields or not fields[0].startswith("Benchmark"):
            return
        name, iterations, *pairs = [*fields, ""][: max(_PAIR, len(fields))]
        self._name = "" if iterations.isdigit() else name
        if iterations.isdigit() and pairs and len(pairs) % _PAIR == 0:
            self._add(name, int(iterations), dict(zip(pairs[1::2], map(float, pairs[::2]), strict=True)), package)

    def _add(self, name: str, iterations: int, values: dict[str, float], package: str) -> None:
        labels = {"benchmark": self.benchmarks.title(name)}
        if package or self._package:
            labels["package"] = package or self._package
        if not package:
            self.benchmarks.advance(values.get(_TIME, 0.0) * iterations, 1)
        for unit, value in values.items():
            if unit == _TIME:
                self.benchmarks.add("time", "ns", labels, value)
            else:
                self.benchmarks.add(metric_name(unit), _UNITS.get(unit, ""), labels, value)
