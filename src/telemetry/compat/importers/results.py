"""Requests, values and figures that an importer finds in a file, in any order. They are kept in columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, Literal

from telemetry import limits
from telemetry.common import slo
from telemetry.errors import UsageError
from telemetry.wire.events import Scalar
from telemetry.wire.imported import StatedFigure

UNKNOWN: Final = -1
"""Value of a column that stands for an unknown time or number."""
InstrumentKind = Literal["series", "counter", "gauge"]


class RequestColumns:
    """Requests of one kind."""

    def __init__(self, name: str, figures: Mapping[str, str]) -> None:
        self.name = name
        self.figures = dict(figures)
        """Name → unit of the further values that each request has."""
        self.slo = ""
        """Limits for a request, as `telemetry.common.slo` writes them."""
        self.starts, self.ends, self.firsts = array("q"), array("q"), array("q")
        self.input_tokens, self.output_tokens = array("q"), array("q")
        self.failures = array("i")
        """For each request the place of its failure in `reasons`; UNKNOWN: it succeeded."""
        self.reasons: dict[str, int] = {}
        self.untimed: set[int] = set()
        """Failed requests whose end is not known."""
        self.of_parts = array("i")
        """For each request the place of its part in `parts`."""
        self.parts: dict[str, int] = {}
        """Parts of the load, such as endpoints. The durations of each are a series of its own."""
        self.values = array("d")
        """Values of all figures, request after request."""
        self.chunks = array("q")
        """Times of all chunks, request after request."""
        self.chunk_ends = array("q")
        """For each request its end in `chunks`."""

    def __len__(self) -> int:
        return len(self.starts)

    def add(
        self,
        start_ns: int,
        end_ns: int,
        *,
        failure: str = "",
        part: str = "",
        first_ns: int = UNKNOWN,
        chunks_ns: Sequence[int] = (),
        input_tokens: int = UNKNOWN,
        output_tokens: int = UNKNOWN,
        values: Sequence[float] = (),
    ) -> None:
        """Add a request. `chunks_ns` are the times of its output after the first, `values` those of `figures`.

        A value that is NaN is left out. The end of a failed request may be UNKNOWN. Raises ValueError for a request
        that ends before it starts.
        """
        if failure and end_ns == UNKNOWN:
            self.untimed.add(len(self.starts))
            end_ns = start_ns
        if end_ns < start_ns:
            raise ValueError("a request ends before it starts")
        self.starts.append(start_ns)
        self.ends.append(end_ns)
        self.firsts.append(first_ns)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        self.failures.append(self.reasons.setdefault(failure, len(self.reasons)) if failure else UNKNOWN)
        self.of_parts.append(self.parts.setdefault(part, len(self.parts)))
        if len(values) != len(self.figures):
            raise ValueError(f"a request has {len(values)} of {len(self.figures)} figures")
        self.values.extend(values)
        if chunks_ns:
            self.chunks.extend(chunks_ns)
        self.chunk_ends.append(len(self.chunks))


@dataclass(frozen=True, slots=True)
class ValueColumns:
    """Values of one series, counter or gauge."""

    kind: InstrumentKind
    name: str
    unit: str
    labels: dict[str, str]
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, at_ns: int, value: float) -> None:
        """Add a value, or the increment of a counter."""
        self.times.append(at_ns)
        self.values.append(value)


class Results:
    """Contents of a result file. All times are nanoseconds, by Unix time or from any other common origin."""

    def __init__(self) -> None:
        self.name = ""
        """Name of the run in the file, such as that of a scenario or a model."""
        self.tool = ""
        """Name of the tool, if the importer reads files of several."""
        self.version = ""
        """Version of the tool, if the file has it."""
        self.started_ns: int | None = None
        """Unix time of the origin of the times. None: they are Unix times, or the file has no time of day."""
        self.measured_s: float | None = None
        """Duration by which the tool divides for its rates, if the file states it."""
        self.is_dated = True
        """False if the file has no time of day: then it ends when the file was written."""
        self.is_interrupted = False
        """True if the file says that the tool was stopped before its end."""
        self.params: dict[str, Scalar] = {}
        self.marks: list[tuple[int, str]] = []
        self.stated: list[StatedFigure] = []
        self.unknown: list[str] = []
        self.requests: dict[str, RequestColumns] = {}
        self.instruments: dict[tuple[str, ...], ValueColumns] = {}
        self._label_values: dict[str, set[str]] = {}

    def time_range(self) -> tuple[int, int]:
        """Return the first and the last time; both are 0 without events."""
        requests = [columns for columns in self.requests.values() if len(columns)]
        values = [columns for columns in self.instruments.values() if columns.times]
        marks = [at_ns for at_ns, _ in self.marks]
        firsts = [*(min(columns.starts) for columns in requests), *(min(columns.times) for columns in values)]
        lasts = [*(max(columns.ends) for columns in requests), *(max(columns.times) for columns in values)]
        return min([*firsts, *marks], default=0), max([*lasts, *marks], default=0)

    def requests_of(self, name: str, figures: Mapping[str, str] | None = None) -> RequestColumns:
        """Return the requests of this kind. The first call sets their further figures."""
        columns = self.requests.get(name)
        if columns is None:
            columns = self.requests[name] = RequestColumns(name, figures or {})
        return columns

    def limit(self, name: str, limits_ms: Mapping[str, object]) -> None:
        """Set the limits for a request of this kind, in ms by key. Without one of them, the others mean nothing."""
        text = " ".join(f"{key}:{limit}" for key, limit in limits_ms.items())
        try:
            self.requests_of(name).slo = slo.to_text(slo.parse(text))
        except UsageError as error:
            self.lacks(f"limits for a request: {error.message}")

    def values_of(
        self, kind: InstrumentKind, name: str, unit: str = "", labels: Mapping[str, str] | None = None
    ) -> ValueColumns:
        """Return the values of this series, counter or gauge."""
        labels = labels or {}
        key = (kind, name, *labels, *labels.values())
        columns = self.instruments.get(key)
        if columns is None:
            columns = self.instruments[key] = ValueColumns(kind, name, unit, dict(labels))
        return columns

    def label(self, key: str, value: str) -> str:
        """Return the value of a label; "other" once the label has too many different values."""
        values = self._label_values.setdefault(key, set())
        if value in values or len(values) < limits.IMPORTED_LABELS:
            values.add(value)
            return value
        self.lacks(f"the label {key!r} of some values: after {limits.IMPORTED_LABELS} different ones it is 'other'")
        return "other"

    def mark(self, at_ns: int, text: str) -> None:
        """Add a moment worth a line in the report."""
        self.marks.append((at_ns, text))

    def param(self, name: str, value: object) -> None:
        """Add a setting of the tool. A value that is no scalar is left out, and so is None."""
        if isinstance(value, str | int | float | bool):
            self.params[name] = value

    def state(self, name: str, value: object, unit: str = "") -> None:
        """Add a figure that the tool computed, under its own name. One that is no finite number is left out."""
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            self.stated.append(StatedFigure(name=name, value=float(value), unit=unit))

    def lacks(self, what: str) -> None:
        """Say what the file does not have, as the end of `unknown: …`."""
        if what not in self.unknown:
            self.unknown.append(what)
