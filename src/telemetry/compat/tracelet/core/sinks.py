"""User-written backends, each behind a queue and a thread of its own.

A backend that is slow or raises delays and loses only its own values. Values stay in order. A value that fails is
tried again, with growing waits, and so is the start of the backend.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.client.records import flatten
from telemetry.client.steps import number
from telemetry.common.formatting import number_of
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricType
from telemetry.errors import error_text
from telemetry.supervise.breaker import Breaker, RetryWaits

_TURN_S: Final = 0.02  # a poll costs the caller nothing; waking a thread at each value costs 25 µs
_NUMBERS: Final = {MetricType.SCALAR, MetricType.SYSTEM, MetricType.CUSTOM, MetricType.TENSOR}
_FACTOR_MOST: Final = 1_000.0
_FINAL: Final = (TypeError, ValueError, LookupError, AttributeError, AssertionError, NotImplementedError)
"""Errors of a value or of the code, which another attempt does not mend."""
Deliver = Callable[[MetricData], Any]


@dataclass(frozen=True)
class Retry:
    """Attempts after a failure: how many, how fast the waits between them grow, and the longest wait in seconds."""

    max_retries: int = 3
    backoff_factor: float = 2.0
    max_backoff: float = 60.0

    def breaker(self) -> Breaker:
        """Return a breaker with these waits. The first one is a second."""
        factor = min(self.backoff_factor, _FACTOR_MOST)
        return Breaker(time.monotonic, lambda: 0.0, RetryWaits(1.0, factor, self.max_backoff))


USUAL: Final = Retry()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a user's class with as many of the arguments as it takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(*arguments)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return function(*arguments)
    room = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
    return function(*arguments[:room])


def call_if_there(owner: Any, name: str, *arguments: Any) -> Any:
    """Call a method of a user's object. Without this method it has no effect."""
    method = getattr(owner, name, None)
    return call(method, *arguments) if callable(method) else None


def deliver_by_type(sink: Any, metric: MetricData) -> None:
    """Pass a metric to `log_metric`, `log_params` or `log_artifact` of a backend. Leave out other types."""
    if metric.type in (MetricType.PARAMETER, MetricType.HPARAMS):
        is_whole = metric.type is MetricType.HPARAMS and isinstance(metric.value, Mapping)
        sink.log_params(dict(flatten(metric.value if is_whole else {metric.name: metric.value})))
    elif metric.type is MetricType.ARTIFACT:
        call(sink.log_artifact, str(metric.value), (metric.metadata or {}).get("artifact_path"))
    elif metric.type in _NUMBERS and (value := plain(metric.value)) is not None:
        sink.log_metric(metric.name, value, metric.iteration)


def plain(value: Any) -> float | int | None:
    """Return a number of Python, also for a number of numpy and a tensor of one element, else None."""
    if type(value) in (int, float):
        return value  # type: ignore[no-any-return]
    try:
        return number(value)
    except Exception:  # noqa: BLE001 – a value may raise anything
        return None


def deliverer(sink: Any) -> Deliver:
    """Return the function that passes a metric to a sink of either form."""
    for name in ("receive_metric", "handle_metric"):
        method: Deliver | None = getattr(sink, name, None)
        if callable(method):
            return method
    return lambda metric: deliver_by_type(sink, metric)


def name_of(sink: Any) -> str:
    """Return the name of a user's class for messages and statistics."""
    for method in ("get_sink_id", "get_metadata"):
        if callable(getattr(sink, method, None)):
            answer = getattr(sink, method)()
            return str(getattr(answer, "name", answer))
    return str(getattr(sink, "name", type(sink).__name__))


class SinkThread:
    """The queue and the thread of one sink. `put` never blocks."""

    def __init__(
        self, sink: Any, bound: int, retry: Retry = USUAL, config: Mapping[str, Any] | None = None
    ) -> None:
        """With a `config`, the sink is a backend or backend plugin, which the thread also opens and closes."""
        self.name = name_of(sink)
        self.delivered = self.dropped = self.errors = self.retries = 0
        self._sink = self._target = sink
        self._config = config
        self._bound = bound
        self._retry = retry
        self._breaker = retry.breaker()
        self._queue: deque[MetricData] = deque()
        self._ending = threading.Event()
        self._is_closed = False
        self._busy = False
        self._counting = threading.Lock()  # a value counts as delivered or as dropped, never twice
        self._reported: set[str] = set()
        self._dropped_reported = 0
        self._last_error = ""
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def stats(self) -> dict[str, Any]:
        """Return the counts. `state` is `open` while the sink is left alone after several failures."""
        counts = {name: getattr(self, name) for name in ("delivered", "dropped", "errors", "retries")}
        return {**counts, "waiting": len(self), "state": self._breaker.state}

    def put(self, metric: MetricData) -> None:
        """Queue a metric. A full queue and a closed sink drop the metric and count it."""
        if not self._is_closed and len(self._queue) < self._bound:
            self._queue.append(metric)
            return
        with self._counting:
            self.dropped += 1
        if self._is_closed:
            self._report("closed", "a value came after its end and is dropped")
        else:
            self._report("full", f"its queue of {self._bound:,} values is full; raise max_queue_size")

    def start(self) -> None:
        """Start the thread, or start it again after `join`."""
        if self._thread is None or (self._is_closed and not self._thread.is_alive()):
            self._ending.clear()
            self._is_closed = False
            self._breaker = self._retry.breaker()
            self._thread = threading.Thread(target=self._serve, name=f"tracelet-{self.name}", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Tell the thread to deliver the rest and to close the sink."""
        self._ending.set()

    def join(self, deadline_s: float) -> None:
        """Wait for the thread until a time of `time.monotonic()`. Report the number of values lost, once."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline_s - time.monotonic()))
        is_late = self._thread is not None and self._thread.is_alive()
        with self._counting:
            self._is_closed = True
            self.dropped += len(self._queue) + self._busy
            self._busy = False
            self._queue.clear()
            lost = self.dropped - self._dropped_reported
            self._dropped_reported = self.dropped
        reports = [f"did not get {number_of(lost, 'value')}"] if lost else []
        reports += ["did not end in time"] if is_late else []
        if reports:
            why = f"; the last error was {self._last_error}" if lost and self._last_error else ""
            user_warnings.warn(f"the backend {self.name} {' and '.join(reports)}{why}")

    def _serve(self) -> None:
        deliver = deliverer(self._sink)
        if self._config is not None:
            if not self._attempt("open", "it can't start:", self._open):
                return
            deliver = deliverer(self._target)
        while not self._is_closed:
            is_last_turn = self._ending.is_set()
            self._deliver_all(deliver)
            if is_last_turn:
                break
            self._ending.wait(_TURN_S)
        if not self._is_closed and self._config is not None:
            try:
                self._close()
            except Exception as error:  # noqa: BLE001 – code of the user, which must not end its thread
                self.errors += 1
                self._report("close", f"it raised {error_text(error)}")

    def _open(self) -> None:
        config = dict(self._config or {})
        backend = self._target = self._sink
        call_if_there(backend, "initialize", config)
        if callable(getattr(backend, "create_backend", None)):
            self._target = backend.create_backend(dict(config))
            call_if_there(self._target, "initialize", config)
        call_if_there(self._target, "start_experiment", config["experiment_name"], config["project"])
        call_if_there(backend, "start")

    def _close(self) -> None:
        call_if_there(self._target, "save_experiment", dict(self._config or {}))
        for owner, name in ((self._target, "end_experiment"), (self._sink, "stop"), (self._sink, "cleanup")):
            call_if_there(owner, name)

    def _deliver_all(self, deliver: Deliver) -> None:
        while True:
            with self._counting:
                if self._is_closed or not self._queue:
                    return
                metric = self._queue.popleft()
                self._busy = True
            done = self._attempt("value", "it raised", lambda metric=metric: deliver(metric))  # type: ignore[misc]
            with self._counting:
                if self._is_closed:  # `join` gave up, and has counted the value as dropped
                    return
                self._busy = False
                self.delivered += done
                self.errors += not done
                self.dropped += not done

    def _attempt(self, what: str, verb: str, function: Callable[[], object]) -> bool:
        """Call a function, and again after a wait if it fails. Return False if it is given up.

        At the end of the experiment there are no waits, and so no second attempt.
        """
        attempts = 0
        while not self._is_closed:
            self._ending.wait(self._breaker.wait_s())
            self._breaker.begin()
            try:
                function()
            except Exception as error:  # noqa: BLE001 – code of the user, which must not end its thread
                self._report(what, f"{verb} {error_text(error)}")
                is_final = isinstance(error, _FINAL) and not isinstance(error, OSError)
                if not is_final:
                    self._breaker.failed()
                    attempts += 1
                if is_final or attempts > self._retry.max_retries or self._ending.is_set():
                    self._last_error = error_text(error)
                    return False
                self.retries += 1
            else:
                self._breaker.worked()
                return True
        return False

    def _report(self, what: str, why: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            user_warnings.warn(f"the backend {self.name}: {why}. Other backends go on; this warning appears once")
