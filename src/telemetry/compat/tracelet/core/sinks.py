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

from telemetry.client import notice
from telemetry.client.records import flatten
from telemetry.client.steps import number
from telemetry.compat.tracelet.core.metrics import MetricData, MetricType
from telemetry.formatting import number_of
from telemetry.supervise.breaker import Breaker, State, Waits

_TURN_S: Final = 0.02  # a poll costs the caller nothing; waking a thread at each value costs 25 µs
_NUMBERS: Final = {MetricType.SCALAR, MetricType.SYSTEM, MetricType.CUSTOM, MetricType.TENSOR}
_PARAMETERS: Final = {MetricType.PARAMETER, MetricType.HPARAMS}
_FIRST_WAIT_S: Final = 1.0
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
        return Breaker(time.monotonic, lambda: 0.0, Waits(_FIRST_WAIT_S, factor, self.max_backoff))


USUAL: Final = Retry()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a user's class with as many of the arguments as it takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(*arguments)
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return function(*arguments)
    room = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
    return function(*arguments[:room])


def deliver_by_type(sink: Any, metric: MetricData) -> None:
    """Pass a metric to `log_metric`, `log_params` or `log_artifact` of a backend. Leave out other types."""
    if metric.type in _PARAMETERS:
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
            made = getattr(sink, method)()
            return str(getattr(made, "name", made))
    return str(getattr(sink, "name", type(sink).__name__))


class SinkThread:
    """The queue and the thread of one sink. `put` never blocks."""

    def __init__(
        self,
        name: str,
        open_sink: Callable[[], Deliver],
        close_sink: Callable[[], object],
        bound: int,
        retry: Retry = USUAL,
    ) -> None:
        """`open_sink` and `close_sink` run on the thread, before the first value and after the last one."""
        self.name = name
        self.delivered = self.dropped = self.errors = self.retries = 0
        self._open = open_sink
        self._close = close_sink
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

    @property
    def state(self) -> State:
        """`closed` if the sink works, `open` while it is left alone after several failures, `half-open` between."""
        return self._breaker.state

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, metric: MetricData) -> None:
        """Queue a metric. A full queue and a closed sink drop the metric and count it."""
        if self._is_closed:
            self._drop()
            self._report("closed", "a value came after its end and is dropped")
        elif len(self._queue) >= self._bound:
            self._drop()
            self._report("full", f"its queue of {self._bound:,} values is full; raise max_queue_size")
        else:
            self._queue.append(metric)

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

    def join(self, deadline_s: float) -> int:
        """Wait for the thread until a time of `time.monotonic()`. Return and report the number of values lost.

        Values that an earlier call has reported do not count again.
        """
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
        if is_late:
            reports.append("did not end in time")
        if reports:
            why = f"; the last error was {self._last_error}" if lost and self._last_error else ""
            notice.warn(f"the backend {self.name} {' and '.join(reports)}{why}")
        return lost

    def _serve(self) -> None:
        opened: list[Deliver] = []
        if not self._attempt("open", lambda: opened.append(self._open())):
            return
        while not self._is_closed:
            is_last_turn = self._ending.is_set()
            self._deliver_all(opened[0])
            if is_last_turn:
                break
            self._ending.wait(_TURN_S)
        if not self._is_closed:
            try:
                self._close()
            except Exception as error:  # noqa: BLE001 – code of the user, which must not end its thread
                self.errors += 1
                self._report("close", _words(error))

    def _deliver_all(self, deliver: Deliver) -> None:
        while True:
            with self._counting:
                if self._is_closed or not self._queue:
                    return
                metric = self._queue.popleft()
                self._busy = True
            done = self._attempt("value", lambda metric=metric: deliver(metric))  # type: ignore[misc]
            with self._counting:
                if self._is_closed:  # `join` gave up, and has counted the value as dropped
                    return
                self._busy = False
                self.delivered += done
                self.errors += not done
                self.dropped += not done

    def _attempt(self, what: str, function: Callable[[], object]) -> bool:
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
                self._report(what, _words(error) if what != "open" else f"it can't start: {_named(error)}")
                is_final = isinstance(error, _FINAL) and not isinstance(error, OSError)
                if not is_final:
                    self._breaker.failed()
                    attempts += 1
                if is_final or attempts > self._retry.max_retries or self._ending.is_set():
                    self._last_error = _named(error)
                    return False
                self.retries += 1
            else:
                self._breaker.worked()
                return True
        return False

    def _drop(self) -> None:
        with self._counting:
            self.dropped += 1

    def _report(self, what: str, why: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            notice.warn(f"the backend {self.name}: {why}. Other backends go on; this warning appears once")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _words(error: Exception) -> str:
    return f"it raised {_named(error)}"


def sink_thread(sink: Any, bound: int, retry: Retry = USUAL) -> SinkThread:
    """Return the thread of a sink that its owner starts and stops."""
    return SinkThread(name_of(sink), lambda: deliverer(sink), lambda: None, bound, retry)


def backend_thread(backend: Any, config: Mapping[str, Any], bound: int, retry: Retry = USUAL) -> SinkThread:
    """Return the thread of a backend or backend plugin, which also opens and closes it."""
    opened: list[Any] = []

    def open_backend() -> Deliver:
        opened.clear()
        target = backend
        if callable(getattr(backend, "initialize", None)):
            call(backend.initialize, dict(config))
        if callable(getattr(backend, "create_backend", None)):
            target = backend.create_backend(dict(config))
            if callable(getattr(target, "initialize", None)):
                call(target.initialize, dict(config))
        opened.append(target)
        if callable(getattr(target, "start_experiment", None)):
            target.start_experiment(config["experiment_name"], config["project"])
        if callable(getattr(backend, "start", None)):
            backend.start()
        return deliverer(target)

    def close_backend() -> None:
        target = opened[0]
        if callable(getattr(target, "save_experiment", None)):
            target.save_experiment(dict(config))
        for owner, name in ((target, "end_experiment"), (backend, "stop"), (backend, "cleanup")):
            if callable(getattr(owner, name, None)):
                getattr(owner, name)()

    return SinkThread(name_of(backend), open_backend, close_backend, bound, retry)
