"""Benchmarks of a file of micro-benchmarks: their titles, and the times of values that follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from telemetry import limits
from telemetry.client.records import clean
from telemetry.client.redaction import REDACTION
from telemetry.compat.importers.result_file import ns_of
from telemetry.compat.importers.results import Results

IN_ORDER: Final = "they follow each other without pauses"
_FAILED: Final = "failed"
_TIME: Final = "time"
_NUMBER_CHARS: Final = 8
"""Room for the number of a benchmark that has the name of another one."""


class Benchmarks:
    """The benchmarks of a file, one after another."""

    def __init__(self, results: Results, label: str = "benchmark") -> None:
        self.at_ns = 0
        """Time since the beginning of the first benchmark."""
        self._results = results
        self._label = label
        self._titles: dict[object, str] = {}
        self._numbers: dict[str, int] = {}
        self._units: dict[str, str] = {}

    def begin(self) -> None:
        """Mark the beginning, so that the run has the time of the first value."""
        self._results.mark(self.at_ns, "benchmarks began")

    def title(self, name: str, key: object = None) -> str:
        """Return the name of a benchmark as labels have it. Two with the same name and another key differ."""
        key = (name, key)
        if key not in self._titles:
            text = clean(name, limits.LABEL_VALUE_CHARS - _NUMBER_CHARS)
            text = REDACTION.redactor.labels({self._label: text})[self._label]
            number = self._numbers[text] = self._numbers.get(text, 0) + 1
            self._titles[key] = text if number == 1 else f"{text} #{number}"
        return self._titles[key]

    def advance(self, duration: object, ns_per_unit: float = 1e9) -> None:
        """Let time pass. Raises ValueError for what is no duration."""
        self.at_ns += ns_of(duration, ns_per_unit)

    def add(self, name: str, unit: str, labels: Mapping[str, str], value: float) -> None:
        """Add a value of a series, which has one unit. Raises ValueError for another one."""
        if self._units.setdefault(name, unit) != unit:
            raise ValueError(f"{name} has the units {self._units[name]!r} and {unit!r}")
        if not isfinite(value):
            self._results.lacks(f"values of {name} that are NaN or infinite: they are left out")
        elif value < 0:
            self._results.lacks(f"values of {name} below 0: they are left out")
        else:
            self._results.values_of("series", name, unit, labels).add(self.at_ns, float(value))

    def fail(self, title: str) -> None:
        """Count a failed run of a benchmark."""
        self._results.values_of("counter", _FAILED, "", {self._label: title}).add(self.at_ns, 1.0)


def metric_name(name: str) -> str:
    """Return the name of the series for a metric of the user, which may be called as one of ours."""
    return f"{name}.value" if name in (_FAILED, _TIME) else name
