"""User-written backends, each behind a queue and a thread of its own.

A backend that is slow or raises delays and loses only its own values. Values stay in order.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from telemetry.client import notice
from telemetry.client.steps import number
from telemetry.compat.tracelet.core.metrics import MetricData, MetricType
from telemetry.formatting import number_of

_TURN_S: Final = 0.02  # a poll costs the caller nothing; waking a thread at each value costs 25 µs
_NUMBERS: Final = {MetricType.SCALAR, MetricType.SYSTEM, MetricType.CUSTOM, MetricType.TENSOR}
_PARAMETERS: Final = {MetricType.PARAMETER, MetricType.HPARAMS}
Deliver = Callable[[MetricData], Any]


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
        values = metric.value if isinstance(metric.value, Mapping) else {metric.name: metric.value}
        sink.log_params(dict(values))
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
        self, name: str, open_sink: Callable[[], Deliver], close_sink: Callable[[], object], bound: int
    ) -> None:
        """`open_sink` and `close_sink` run on the thread, before the first value and after the last one."""
        self.name = name
        self.delivered = self.dropped = self.errors = 0
        self._open = open_sink
        self._close = close_sink
        self._bound = bound
        self._queue: deque[MetricData] = deque()
        self._ending = threading.Event()
        self._is_closed = False
        self._busy = False
        self._reported: set[str] = set()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, metric: MetricData) -> None:
        """Queue a metric. A full queue and a closed sink drop the metric and count it."""
        if self._is_closed:
            self.dropped += 1
            self._report("closed", "a value came after its end and is dropped")
        elif len(self._queue) >= self._bound:
            self.dropped += 1
            self._report("full", f"its queue of {self._bound:,} values is full; raise max_queue_size")
        else:
            self._queue.append(metric)

    def start(self) -> None:
        """Start the thread, or start it again after `join`."""
        if self._thread is None or (self._is_closed and not self._thread.is_alive()):
            self._ending.clear()
            self._is_closed = False
            self._thread = threading.Thread(target=self._serve, name=f"tracelet-{self.name}", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Tell the thread to deliver the rest and to close the sink."""
        self._ending.set()

    def join(self, deadline_s: float) -> int:
        """Wait for the thread until a time of `time.monotonic()`. Return and report the number of values lost."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline_s - time.monotonic()))
        is_late = self._thread is not None and self._thread.is_alive()
        self._is_closed = True
        lost = len(self._queue) + (self._busy and is_late)
        self._queue.clear()
        if lost or is_late:
            late = " and did not end in time" if is_late else ""
            notice.warn(f"the backend {self.name} did not get {number_of(lost, 'value')}{late}")
        self.dropped += lost
        return lost

    def _serve(self) -> None:
        try:
            deliver = self._open()
        except Exception as error:  # noqa: BLE001 – code of the user
            self._report("open", f"it can't start: {type(error).__name__}: {error}")
            return
        while not self._is_closed:
            is_last_turn = self._ending.is_set()
            self._deliver_all(deliver)
            if is_last_turn:
                break
            self._ending.wait(_TURN_S)
        if not self._is_closed:
            self._try("close", self._close)

    def _deliver_all(self, deliver: Deliver) -> None:
        while self._queue and not self._is_closed:
            self._busy = True
            try:
                metric = self._queue.popleft()
            except IndexError:  # `join` gave up in between
                break
            self.delivered += self._try("value", partial(deliver, metric))
            self._busy = False

    def _try(self, what: str, function: Callable[[], object]) -> bool:
        try:
            function()
        except Exception as error:  # noqa: BLE001 – code of the user, which must not end its thread
            self.errors += 1
            self._report(what, f"it raised {type(error).__name__}: {error}")
            return False
        return True

    def _report(self, what: str, why: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            notice.warn(f"the backend {self.name}: {why}. Other backends go on; this warning appears once")


def sink_thread(sink: Any, bound: int) -> SinkThread:
    """Return the thread of a sink that its owner starts and stops."""
    return SinkThread(name_of(sink), lambda: deliverer(sink), lambda: None, bound)


def backend_thread(backend: Any, config: Mapping[str, Any], bound: int) -> SinkThread:
    """Return the thread of a backend or backend plugin, which also opens and closes it."""
    opened: list[Any] = []

    def open_backend() -> Deliver:
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

    return SinkThread(name_of(backend), open_backend, close_backend, bound)
