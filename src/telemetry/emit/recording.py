"""The calls that say something once: settings, moments, and what belongs to steps. `Run` has them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, SupportsFloat, SupportsIndex

from telemetry.emit import bins, records
from telemetry.emit.process import Process
from telemetry.emit.recorders import checked_ns
from telemetry.emit.records import Place
from telemetry.emit.steps import DEFAULT_AXIS, Steps, moment, plain_step
from telemetry.emit.timing import Timer
from telemetry.humane import number_of
from telemetry.wire.events import Reduction

_IMAGE: Final = "image"  # the kind of artifact that backends show


class Recording:
    """Any thread may use it. Nothing here blocks, or raises unless it says so: what can't be recorded is counted in
    the report, and said once on stderr. All is encoded at the call, so later changes don't show.

    `at_ns` is a time of `time.monotonic_ns()`, by default now. `step` is an integer of 64 bits; without one, a
    record belongs to no step.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._steps = Steps(process)

    # --- the run ---------------------------------------------------------------------------------

    def mark(self, text: str, /, *, at_ns: int | None = None, **labels: object) -> None:
        """A moment worth a line. Never raises."""
        self._process.put_records(lambda: [records.mark(text, labels, moment(at_ns))])

    def params(self, values: Mapping[str, object], /, *, at_ns: int | None = None) -> None:
        """Settings of the run; nested maps are flattened with dots. Never raises."""
        self._process.put_records(lambda: list(records.params(values, moment(at_ns))))

    def expect(self, name: str, total: float, /, *, at_ns: int | None = None) -> None:
        """The total that counter `name`, or the count that series `name`, will reach. Raises InstrumentError."""
        record = records.expect(name, total, time.monotonic_ns() if at_ns is None else at_ns)
        self._process.put_records(lambda: [record])

    # --- steps -----------------------------------------------------------------------------------

    def axis(
        self, name: str, /, *, reduce: Reduction = "mean", reductions: Mapping[str, Reduction] | None = None
    ) -> None:
        """How the values that several processes log in one step become one: `last`, `mean`, `sum`, `min` or `max`.

        `reductions` names values, or patterns such as `*/tokens`, with another one; the first that fits counts. Of
        all declarations of an axis the first stands. Raises InstrumentError for what can't be.
        """
        record = records.axis(name, reduce, reductions or {}, time.monotonic_ns())
        self._steps.put("axis", lambda: [record])

    def log(
        self,
        values: Mapping[str, Any],
        /,
        *,
        step: SupportsIndex,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """Values of one step, by name: numbers, and arrays or tensors of one element.

        Logged again, a name has its newer value. A later step on the same axis ends those before it. A number that
        is not finite is kept as such, without its value; what is no number is left out by itself.
        """
        self._steps.log(values, step, axis, at_ns)

    def end_step(self, step: SupportsIndex, /, *, axis: str = DEFAULT_AXIS, at_ns: int | None = None) -> None:
        """This process has logged all it has for a step, and for those before it."""
        self._steps.end(step, axis, at_ns)

    # --- what is not a number --------------------------------------------------------------------

    def text(
        self,
        name: str,
        text: str,
        /,
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """A named piece of text; more than 4,096 characters of it are cut off."""
        self._put("text", name, lambda: records.note(name, text, self._place(step, axis, at_ns)))

    def table(
        self,
        name: str,
        columns: Iterable[str],
        rows: Iterable[Iterable[Any]],
        /,
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """A small table: at most 256 columns, 10,000 rows and a MiB.

        A cell is a number, a text, True, False or None; anything else becomes text. Rows that have not a cell for
        each column, or are too many, are left out.
        """

        def made() -> bytes:
            encoded, left_out = records.table(name, columns, rows, self._place(step, axis, at_ns))
            if left_out:
                self._steps.leave_out(
                    f"a part of table {name!r}", f"no place in it for {number_of(left_out, 'row')}"
                )
            return encoded

        self._put("table", name, made)

    def histogram(
        self,
        name: str,
        values: Any,
        /,
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """The distribution of many values: an array, a tensor, or any iterable of numbers, counted here in 64 bins.

        A pair `(edges, counts)`, or what `numpy.histogram` returns, is taken as it is, up to 1,024 bins: of more,
        neighbours become one. Values that are not finite are left out.
        """

        def made() -> bytes:
            counted = bins.count(values)
            if counted.refused:
                self._steps.refuse(f"a part of histogram {name!r}", "it is no number", counted.refused)
            return bins.encoded(name, counted, self._place(step, axis, at_ns))

        self._put("histogram", name, made)

    def image(
        self,
        name: str,
        path_or_uri: str | os.PathLike[str],
        /,
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """A picture in a file, by reference: `artifact` of the kind `image`."""
        self.artifact(name, path_or_uri, kind=_IMAGE, step=step, axis=axis, at_ns=at_ns)

    def artifact(
        self,
        name: str,
        path_or_uri: str | os.PathLike[str],
        /,
        kind: str = "",
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """A file by reference: a path, which is made absolute, or a URI, in which passwords are masked.

        It is not read here: it has to stay as it is until backends have delivered it. `kind` is any word of at most
        24 characters.
        """
        self._put(
            "artifact", name, lambda: records.artifact(name, path_or_uri, kind, self._place(step, axis, at_ns))
        )

    def span(self, name: str, /, track: str = "", **labels: object) -> Timer:
        """For a `with` block, or as a decorator: its beginning and its end are recorded, also if it raises.

        One object is for one block at a time. `track` is the line on which it is drawn.
        """

        def record(value: SupportsFloat, at_ns: int | None = None) -> None:
            end_ns = moment(at_ns)
            self._put("span", name, lambda: records.span(name, end_ns - round(float(value)), end_ns, track, labels))

        return Timer(record, 1)

    def span_at(self, name: str, start_ns: int, end_ns: int, /, track: str = "", **labels: object) -> None:
        """A span that is over, by its times of `time.monotonic_ns()`."""
        self._put("span", name, lambda: records.span(name, checked_ns(start_ns), checked_ns(end_ns), track, labels))

    # --- how -------------------------------------------------------------------------------------

    def _put(self, what: str, name: object, make: Callable[[], bytes]) -> None:
        self._steps.put(f"{what} {name!r}" if isinstance(name, str) else what, lambda: [make()])

    def _place(self, step: SupportsIndex | None, axis: str, at_ns: int | None) -> Place:
        if step is None:
            return Place(moment(at_ns))
        return Place(moment(at_ns), self._steps.axis(axis), plain_step(step))
