"""The calls that record: instruments, requests, marks, parameters, and values of steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast

from telemetry import limits
from telemetry.client import bins, records
from telemetry.client.identity import process_rank
from telemetry.client.instruments import BlockTimer, Counter, Gauge, Series
from telemetry.client.labels import joined, named
from telemetry.client.process import Process
from telemetry.client.recorders import checked_ns
from telemetry.client.records import Place
from telemetry.client.requests.kind import Requests, check_arguments
from telemetry.client.requests.kinds import Tracking
from telemetry.client.requests.request import Request
from telemetry.client.requests.stopping import is_condition
from telemetry.client.spans import SpanInstruments, SpanTimer, parent_labels
from telemetry.client.steps import DEFAULT_AXIS, Steps, moment, plain_step
from telemetry.client.stragglers import declare, declared
from telemetry.common.formatting import number_of
from telemetry.common.headline_choice import PARAM, encoded
from telemetry.errors import InstrumentError
from telemetry.wire.events import ClosingRule, Reduction

if TYPE_CHECKING:
    from telemetry.client.artifact_copies import ArtifactCopies

_IMAGE: Final = "image"  # the kind of artifact that backends show
_SERIES_OPTIONS: Final = ("unit", "digits", "low", "high", "labels")
_REQUEST_OPTIONS: Final = ("expire_s", "stop_when", "slo", "labels")


class Recording:
    """The calls of a `Run`, which the package `telemetry` has as functions under the same names.

    Any thread may call them. No call blocks. Instruments, kinds of requests and declarations raise for a wrong
    definition. All other calls never raise: a value that can't be recorded is counted in the report, and one line
    on stderr names it. Values are encoded at the call, so later changes to an object don't show.

    Labels are given as keywords, `run.counter("requests", route="/search")`, or as a mapping,
    `labels={"http.route": "/search"}`. `at_ns` is a time of `time.monotonic_ns()`; the default is now. `step` is an
    integer of 64 bits; a record without one belongs to no step.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._steps = Steps(process)
        self._spans = SpanInstruments(process)
        self._copies: ArtifactCopies | None = None

    # --- instruments -----------------------------------------------------------------------------

    def counter(
        self, name: str, /, unit: str = "", *, labels: Mapping[str, object] | None = None, **more_labels: object
    ) -> Counter:
        """Return the counter of this name and these labels. Raise InstrumentError for a wrong definition.

        Example:
            requests = run.counter("requests", route="/search")
            requests.add()
        """
        chosen = named("counter", name, ("unit", "labels"), labels, more_labels)
        return cast(Counter, self._process.instrument("counter", name, unit, chosen))

    def gauge(
        self, name: str, /, unit: str = "", *, labels: Mapping[str, object] | None = None, **more_labels: object
    ) -> Gauge:
        """Return the gauge of this name and these labels. Raise InstrumentError for a wrong definition.

        Example:
            temperature = run.gauge("temperature", unit="°C")
            temperature.set(61.5)
        """
        chosen = named("gauge", name, ("unit", "labels"), labels, more_labels)
        return cast(Gauge, self._process.instrument("gauge", name, unit, chosen))

    def series(
        self,
        name: str,
        /,
        unit: str = "",
        *,
        digits: int = limits.DIGITS,
        low: float | None = None,
        high: float | None = None,
        labels: Mapping[str, object] | None = None,
        **more_labels: object,
    ) -> Series:
        """Return the series of this name and these labels. Raise InstrumentError for a wrong definition.

        Example:
            latency = run.series("latency", unit="ms", route="/search")
            latency.record(12.3)
            with latency.time():
                search()

        `digits` (1 to 5) is the precision of live percentiles. `low` is the smallest difference worth telling
        apart, `high` the largest expected value, both in `unit`.
        """
        chosen = named("series", name, _SERIES_OPTIONS, labels, more_labels)
        instrument = self._process.instrument("series", name, unit, chosen, digits=digits, low=low, high=high)
        return cast(Series, instrument)

    # --- requests --------------------------------------------------------------------------------

    def requests(
        self,
        name: str,
        /,
        *,
        expire_s: float | None = None,
        stop_when: str = "",
        slo: str | Sequence[str] = "",
        labels: Mapping[str, object] | None = None,
        **more_labels: object,
    ) -> Requests:
        """Return the kind of request of this name and these labels. Raise InstrumentError for a wrong definition.

        Example:
            chat = run.requests("chat", expire_s=60)
            request = chat.issue(input_tokens=812)
            request.complete()

        A request still open `expire_s` seconds after its issue is ended and counted as expired. `stop_when` is the
        condition that `Requests.enough` answers, such as "p99 known". `slo` has limits for a request, such as
        "ttft:200 tpot:50"; requests within all of them are counted as good.
        """
        chosen = named("requests", name, _REQUEST_OPTIONS, labels, more_labels)
        for key, value in more_labels.items():
            if isinstance(value, str) and is_condition(value):
                raise InstrumentError(
                    f"{name!r}: {key}={value!r} is a condition to stop, but {key!r} is used as a label",
                    hint=f"write stop_when={value!r}",
                )
        return self._process.requests(name, chosen, expire_s, stop_when, slo)

    def request(self, name: str, /, **issue: Any) -> Request:
        """Issue one request of the kind `name`, with the arguments of `Requests.issue`. Raise InstrumentError for
        a wrong name and UsageError for an unknown argument.

        Example:
            with run.request("chat", input_tokens=812) as request:
                request.chunk(tokens=1)
        """
        kind = self._process.requests(name, {})
        try:
            return kind.issue(**issue)
        except TypeError:
            check_arguments(name, issue)
            raise

    def tracking(self, window: str = "measured") -> Tracking:
        """Return a `with` block whose requests carry the label `window`. Raise InstrumentError for a wrong name.

        Example:
            with run.tracking("measured"):
                load()

        Only requests that this process issues within the block belong to the window. A block inside another one
        replaces its window. Two marks record when the window began and ended. A block that is never entered with
        `with` is reported on stderr.
        """
        return self._process.tracking(window)

    # --- the run ---------------------------------------------------------------------------------

    def mark(
        self,
        text: str,
        /,
        *,
        at_ns: int | None = None,
        labels: Mapping[str, object] | None = None,
        **more_labels: object,
    ) -> None:
        """Record a moment worth a line in the report.

        Example:
            run.mark("deployed", version="1.4.2")
        """
        self._process.put_records(lambda: [records.mark(text, joined(labels, more_labels), moment(at_ns))])

    def params(self, values: Mapping[str, object], /, *, at_ns: int | None = None) -> None:
        """Record settings of the run. Nested mappings are flattened with dots.

        Example:
            run.params({"model": "tiny", "batch": {"size": 32}})
        """
        self._process.put_records(lambda: list(records.params(values, moment(at_ns))))

    def expect(self, name: str, total: float, /, *, at_ns: int | None = None) -> None:
        """Declare the total that counter `name`, the count that series `name`, or the step that axis `name` will
        reach, so that progress is shown. Raise InstrumentError for a wrong name or total.

        Example:
            run.expect("requests", 10_000)
        """
        record = records.expect(name, total, time.monotonic_ns() if at_ns is None else at_ns)
        self._process.put_records(lambda: [record])

    def headline(self, *names: str) -> None:
        """Choose the figures that the live line, the cockpit and the report show first. Raise UsageError for a name
        that can't be one, and for none or more than seven.

        Example:
            run.headline("loss", "p99(latency)")

        A name is a value of steps, a counter, a gauge, a series or a kind of request. It may stand in a function:
        p50 to p99.99, mean, min, max, count, total, rate, first, last, best, failed, goodput, attainment. Without
        a choice, the figures are guessed from what is recorded. The last call counts.
        """
        self.params({PARAM: encoded(names)})

    # --- steps -----------------------------------------------------------------------------------

    def axis(
        self,
        name: str,
        /,
        *,
        reduce: Reduction = "mean",
        reductions: Mapping[str, Reduction] | None = None,
        closing: ClosingRule = "ended",
        ranked: Sequence[str] = (),
        groups: Mapping[str, int | str] | None = None,
    ) -> None:
        """Declare how the values that several processes log for one step become one: `last`, `mean`, `sum`, `min`
        or `max`. Raise InstrumentError for a wrong declaration.

        Example:
            run.axis("train", reduce="mean", reductions={"*/tokens": "sum"})

        `reductions` maps names, or patterns such as `*/tokens`, to another reduction; the first match counts. With
        `closing="reported"`, a step closes when one process calls `end_step` for this very step, and not when all
        have ended it. Steps keep the value of each rank for the names in `ranked`. The first declaration of an axis
        stands. `groups` are the coordinates of this process, such as `{"pp": 3, "dp": 5}`: slow ranks are compared
        with those of the same stage `pp`.
        """
        rank = process_rank() if groups else None
        now_ns = time.monotonic_ns()
        record = records.axis(
            name, reduce, reductions or {}, now_ns, closing, ranked=ranked, groups=groups, rank=rank
        )
        self._steps.put("axis", lambda: [record])

    def stragglers(self, *, wait: str | Iterable[str], work: str | None = None, axis: str = DEFAULT_AXIS) -> None:
        """Declare how long this process works and waits in a step, so that a slow rank is found. Raise
        InstrumentError for a wrong declaration.

        Example:
            run.stragglers(wait="all_reduce")

        `wait` names spans in which the process waits for the others, or patterns such as `nccl.*`. At the end of
        each step, the time in these spans is logged as its wait and the rest as its work. With `work`, both are
        names of values that the program logs itself, in seconds.
        """
        declare(self._process, declared(axis, work, wait))

    def log(
        self,
        values: Mapping[str, Any],
        /,
        *,
        step: SupportsIndex,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
    ) -> None:
        """Record values of one step by name: numbers, and arrays or tensors of one element.

        Example:
            run.log({"loss": 0.41, "lr": 3e-4}, step=120)

        A name that is logged again for a step takes the newer value. A later step on the same axis ends the steps
        before it. A number that is not finite is kept as "not finite". A value that is no number is left out alone.
        """
        self._steps.log(values, step, axis, at_ns)

    def end_step(self, step: SupportsIndex, /, *, axis: str = DEFAULT_AXIS, at_ns: int | None = None) -> None:
        """Declare that this process has logged all it has for a step and for the steps before it.

        Example:
            run.end_step(120)

        On an axis with `closing="reported"`, this closes this step alone, for all processes.
        """
        self._steps.end(step, axis, at_ns)

    def clear_step(self, step: SupportsIndex | None = None, /, *, axis: str = DEFAULT_AXIS) -> None:
        """Forget the values that all processes have logged for a step, or for all steps, unless the step is closed.

        Example:
            run.clear_step(120)
        """
        self._steps.clear(step, axis)

    # --- texts, tables, files and spans ----------------------------------------------------------

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
        """Record a named piece of text. It is cut after 4,096 characters.

        Example:
            run.text("sample", "The quick brown fox", step=120)
        """
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
        """Record a small table: at most 256 columns, 10,000 rows and 1 MiB.

        Example:
            run.table("worst", ["prompt", "latency_ms"], [["hi", 412.0]], step=120)

        A cell is a number, a text, True, False or None; anything else becomes text. Rows with a wrong number of
        cells, and rows beyond the limit, are left out.
        """

        def encode() -> bytes:
            encoded, left_out = records.table(name, columns, rows, self._place(step, axis, at_ns))
            if left_out:
                self._steps.leave_out(f"a part of table {name!r}", f"no room for {number_of(left_out, 'row')}")
            return encoded

        self._put("table", name, encode)

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
        """Record the distribution of an array, a tensor or any iterable of numbers, counted at the call in 64 bins.

        Example:
            run.histogram("gradients", gradients, step=120)

        A pair `(edges, counts)`, or the result of `numpy.histogram`, is kept as it is up to 1,024 bins; beyond that
        neighbouring bins are joined. Values that are not finite are left out.
        """

        def encode() -> bytes:
            counted = bins.count(values)
            if counted.refused:
                self._steps.refuse(f"a part of histogram {name!r}", "it is not a number", counted.refused)
            return bins.encoded(name, counted, self._place(step, axis, at_ns))

        self._put("histogram", name, encode)

    def image(
        self,
        name: str,
        path_or_uri: str | os.PathLike[str],
        /,
        *,
        step: SupportsIndex | None = None,
        axis: str = DEFAULT_AXIS,
        at_ns: int | None = None,
        copy: bool = False,
    ) -> None:
        """Record a picture by reference: an `artifact` of the kind `image`. With `copy`, keep a copy of it.

        Example:
            run.image("attention", "plots/attention.png", step=120)
        """
        self.artifact(name, path_or_uri, kind=_IMAGE, step=step, axis=axis, at_ns=at_ns, copy=copy)

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
        copy: bool = False,
    ) -> None:
        """Record a file by reference: a path, which is made absolute, or a URI, in which passwords are masked.

        Example:
            run.artifact("checkpoint", "out/step-120.pt", kind="model", step=120)
            run.artifact("sample", "out/sample.wav", copy=True)

        Without `copy`, the file is not read at the call, and has to stay unchanged until backends have delivered
        it. `kind` is any word of at most 24 characters.

        With `copy`, the run directory gets a copy, and you may change or delete the file after the call. The call
        blocks for as long as the copy takes. A file that can't be copied is recorded by reference: a folder, a file
        beyond `emit.artifact_copy_mb` or `emit.artifact_total_mb`, or a run on another machine.
        """
        where: Any = path_or_uri
        if copy:
            at_ns = time.monotonic_ns() if at_ns is None else at_ns
            where = self._copied(name, path_or_uri)
        self._put("artifact", name, lambda: records.artifact(name, where, kind, self._place(step, axis, at_ns)))

    def span(
        self, name: str, /, track: str = "", *, labels: Mapping[str, object] | None = None, **more_labels: object
    ) -> BlockTimer:
        """Return a `with` block or decorator that records when it begins and ends, also if it raises.

        Its durations are the series `span.NAME`, in ms.

        Example:
            with run.span("rollout", track="gpu0"):
                rollout()

        Use one object for one block at a time. `track` is the line on which the span is drawn.
        """
        return SpanTimer(self._process, self._spans, name, track, joined(labels, more_labels))

    def span_at(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        /,
        track: str = "",
        *,
        labels: Mapping[str, object] | None = None,
        **more_labels: object,
    ) -> None:
        """Record a span that is over, by its times of `time.monotonic_ns()`. It has no self time.

        Example:
            run.span_at("rollout", started_ns, time.monotonic_ns())
        """
        chosen = joined(labels, more_labels)

        def encode() -> bytes:
            start, end = checked_ns(start_ns), checked_ns(end_ns)
            parent = parent_labels(start, chosen)
            encoded = records.span(name, start, end, track, {**chosen, **parent} if parent else chosen)
            self._spans.put(records.name_of(name), end, end - start)
            return encoded

        self._put("span", name, encode)

    # --- helpers ---------------------------------------------------------------------------------

    def _copied(self, name: object, path_or_uri: object) -> object:
        """Copy a file into the run directory and return the reference to the copy, or `path_or_uri` itself."""
        if self._copies is None:
            from telemetry.client.artifact_copies import ArtifactCopies  # hashlib takes 9 ms to import

            self._copies = ArtifactCopies(self._process)
        return self._copies.reference(name, path_or_uri)

    def _put(self, what: str, name: object, make: Callable[[], bytes]) -> None:
        self._steps.put(f"{what} {name!r}" if isinstance(name, str) else what, lambda: [make()])

    def _place(self, step: SupportsIndex | None, axis: str, at_ns: int | None) -> Place:
        if step is None:
            return Place(moment(at_ns))
        return Place(moment(at_ns), self._steps.axis(axis), plain_step(step))
