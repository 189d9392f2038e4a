"""A backend that sends a run to an OTLP receiver."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct

from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable
from telemetry.backends.items import Item, Params, Reading, Span, Step
from telemetry.backends.otlp.grpc import GrpcSender
from telemetry.backends.otlp.http import HttpSender
from telemetry.backends.otlp.messages import Points, Spans, library, metrics_request, traces_request
from telemetry.backends.otlp.receiver import (
    KeyRefused,
    NotTaken,
    OtlpOptions,
    Sender,
    Signal,
    resource_of,
    target_of,
)
from telemetry.common.formatting import printable

_REQUEST_WEIGHT: Final = 5_000  # numbers, about 0.5 MB; gRPC receivers accept 4 MB
_WRITE_S: Final = 30.0  # per batch; the rest is delivered again and continues where it stopped
_REJECTED: Final = "rejected"
_METRICS: Final = (Step, Reading, Params)


class _SignalPart(NamedTuple):
    """A point or span to send."""

    key: str
    """Key of its item."""
    data: Any
    weight: int


class OtlpBackend:
    """The OTLP backend. Acknowledged parts of a failed batch are not sent again.

    If this process dies in between, receivers may get duplicates. They can detect duplicate spans, but not metrics.
    """

    Options: ClassVar[type[Struct]] = OtlpOptions
    takes: tuple[type[Item], ...] = (*_METRICS, Span)
    idempotent: ClassVar[bool] = False

    say: Callable[[str], object]

    def __init__(self, options: OtlpOptions, place: Path, clock: Callable[[], float] = time.monotonic) -> None:
        if not (options.metrics or options.traces):
            raise NotConfigured("otlp: metrics and traces are both disabled")
        library()
        self.say = print
        self.left_out: dict[str, int] = {}
        self.takes = (*(_METRICS if options.metrics else ()), *((Span,) if options.traces else ()))
        self._options = options
        self._target = target_of(options, os.environ)
        self._sender: Sender | None = None
        self._resource: dict[str, str] = {}
        self._run: RunFacts
        self._points: Points
        self._spans: Spans
        self._newest_ns = 0
        self._has_spans = False
        self._there: dict[str, int] = {}
        """Item key → number of its parts acknowledged since the last `flush`."""
        self._refused: dict[str, str] = {}
        """Item key → reason of its rejection, since the last `flush`."""
        self._told: set[str] = set()
        self._clock = clock
        self._until_s = math.inf

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        """Connect, and check the receiver with an empty request."""
        self.close(final=False)
        self._run = run
        self._resource = resource_of(self._options, run, os.environ)
        self._points = Points(run.started_ns, spread=self._options.spread)
        integers = self._options.integers.split("+")
        self._spans = Spans(run.run_id, roots=self._options.roots, integers=integers)
        self._newest_ns = state.get("newest_ns", run.started_ns)
        self._has_spans = state.get("spans", False)
        sender: Sender = GrpcSender(self._target) if self._target.protocol == "grpc" else HttpSender(self._target)
        signal: Signal = "metrics" if self._options.metrics else "traces"
        request = metrics_request([], {}) if self._options.metrics else traces_request([], {})
        try:
            sender.send(signal, request)
        except NotTaken as error:
            if error.unknown:
                raise NotConfigured(
                    f"otlp: no receiver for {signal} at {self._target.urls[signal]}: {error}"
                ) from error
        except KeyRefused as error:
            raise NotConfigured(f"otlp: {self._target.urls[signal]}: {error}", hint=error.hint) from error
        finally:
            self._sender = sender

    def write(self, items: Sequence[Item]) -> None:
        """Send items. Raises Unavailable, and Refused for items with a rejected part."""
        self._until_s = self._clock() + _WRITE_S
        for item in items:
            self._newest_ns = max(self._newest_ns, item.end_ns if isinstance(item, Span) else item.time_ns)
        metrics = (
            _SignalPart(item.key, point, point.weight)
            for item in items
            if isinstance(item, Step | Reading | Params)
            for point in self._points.of(item)
        )
        spans = (_SignalPart(item.key, self._spans.of(item), 3) for item in items if isinstance(item, Span))
        self._deliver("metrics", metrics)
        self._deliver("traces", spans)
        if self._refused:
            raise Refused(next(iter(self._refused.values())), list(self._refused))

    def flush(self) -> None:
        """Forget acknowledged parts: a receiver has stored what it acknowledges."""
        self._there, self._refused = {}, {}

    def state(self) -> dict[str, Any]:
        return {"newest_ns": self._newest_ns, "spans": self._has_spans}

    def close(self, *, final: bool) -> None:
        """Close. With `final`, send the span of the whole run first, if other spans have it as their parent."""
        if self._sender is None:
            return
        self._until_s = math.inf
        if final and self._has_spans and not self._options.roots:
            root = self._spans.root(self._run.name, self._run.started_ns, self._newest_ns)
            self._send("traces", [_SignalPart("", root, 1)])
        self._sender.close()
        self._sender = None

    def where(self) -> str:
        if self._sender is None:
            return ""
        return self._target.urls["metrics" if self._options.metrics else "traces"]

    # --- helpers -------------------------------------------------------------------------------------

    def _deliver(self, signal: Signal, parts: Iterator[_SignalPart]) -> None:
        """Send all parts that are not acknowledged yet, in requests of bounded size."""
        passed: dict[str, int] = {}
        batch: list[_SignalPart] = []
        weight = 0
        for part in parts:
            passed[part.key] = passed.get(part.key, 0) + 1
            if part.key in self._refused or passed[part.key] <= self._there.get(part.key, 0):
                continue
            if batch and weight + part.weight > _REQUEST_WEIGHT:
                self._send(signal, batch)
                batch, weight = [], 0
            batch.append(part)
            weight += part.weight
        if batch:
            self._send(signal, batch)

    def _send(self, signal: Signal, parts: Sequence[_SignalPart]) -> None:
        assert self._sender is not None
        if self._clock() > self._until_s:
            raise Unavailable("the receiver is slow")
        contents = [part.data for part in parts]
        make = metrics_request if signal == "metrics" else traces_request
        try:
            taken = self._sender.send(signal, make(contents, self._resource))
        except KeyRefused as error:  # a key that worked before may work again
            raise Unavailable(str(error)) from error
        except NotTaken as error:
            if error.too_large and len(parts) > 1:
                self._send(signal, parts[: len(parts) // 2])
                self._send(signal, parts[len(parts) // 2 :])
                return
            self._tell(f"it rejects {signal}: {error}")
            self._refused |= dict.fromkeys((part.key for part in parts), error.reason)
            return
        of_run = sum(map(self._spans.is_of_run, contents)) if signal == "traces" else 0
        self._has_spans |= taken.rejected < of_run
        if taken.rejected:
            self.left_out[_REJECTED] = self.left_out.get(_REJECTED, 0) + taken.rejected
        if taken.words:
            self._tell(f"the receiver reports for {signal}: {taken.words}")
        for part in parts:
            self._there[part.key] = self._there.get(part.key, 0) + 1

    def _tell(self, text: str) -> None:
        """Print a message once."""
        text = printable(text)
        if text not in self._told and len(self._told) < 10:
            self._told.add(text)
            self.say(text)
