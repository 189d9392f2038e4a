"""The orchestrator: metrics go to the run, and to sinks of the user, each with a queue and a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from telemetry.client import module_level as client
from telemetry.client import user_warnings
from telemetry.client.step_axes import StepAxes
from telemetry.client.wall_time import monotonic_ns
from telemetry.common.formatting import number_of
from telemetry.compat.tracelet.core.interfaces import (
    Metric,
    MetricData,
    MetricSink,
    MetricSource,
    MetricType,
    call,
    deliver,
    name_of,
    plain,
)
from telemetry.errors import error_text
from telemetry.supervise.breaker import Breaker, RetryWaits

__all__ = ["DataFlowOrchestrator", "Metric", "MetricData", "MetricSink", "MetricSource", "MetricType"]
__all__ += ["Orchestrator", "RoutingRule"]
_STOP_S: Final = 10.0
_TURN_S: Final = 0.02  # a poll costs the caller nothing; waking a thread at each value costs 25 µs
_FACTOR_MOST: Final = 1_000.0
_FINAL: Final = (TypeError, ValueError, LookupError, AttributeError, AssertionError, NotImplementedError)
"""Errors of a value or of the code, which another attempt does not mend."""
_AXIS: Final = "iteration"
"""First axis of an experiment. Captures of SummaryWriter and the like use `step`, and count by themselves."""
_FILES: Final = {
    MetricType.ARTIFACT: "",
    MetricType.FIGURE: "image",
    **{MetricType(kind): kind for kind in ("image", "video", "audio", "embedding", "mesh")},
}
"""Types that are recorded by reference to a file, and the kind of artifact that they become."""


def file_name(name: str, others: str = "") -> str:
    """Return a name with letters, digits and some `others` alone. An underscore replaces each other character."""
    return "".join(letter if letter.isalnum() or letter in others else "_" for letter in name)


class Recorder:
    """A translator to the client. It never raises: what it can't record is reported once."""

    def __init__(self, prefix: str = "", directory: str = "") -> None:
        """`prefix` is put before each name. `directory` is the folder for figures."""
        self.prefix = prefix
        self.axes = StepAxes(f"{prefix}{_AXIS}")
        self.directory = directory
        self._reported: set[str] = set()

    def log(self, name: str, value: Any, step: int) -> None:
        """Record a value of a step: a number, a text, or an array of many numbers as a histogram."""
        name = f"{self.prefix}{name}" if self.prefix else name
        try:
            axis = self.axes.axis(name, step)
        except TypeError:  # the step is no number; the client reports it
            axis = _AXIS
        if client.log_number(name, value, step, axis):
            return
        if isinstance(value, str):
            client.text(name, value, step=step, axis=axis)
        elif isinstance(value, (list, tuple)) or (getattr(value, "shape", None) and plain(value) is None):
            client.histogram(name, value, step=step, axis=axis)
        else:
            client.log({name: value}, step=step, axis=axis)

    def record(self, metric: MetricData) -> None:
        """Record a metric of any type."""
        try:
            self._record(metric)
        except Exception as error:  # noqa: BLE001 – a value may raise anything
            self.leave_out(metric.name, error_text(error))

    def params(self, values: Mapping[str, Any]) -> None:
        """Record settings."""
        client.params({f"{self.prefix}{name}": value for name, value in values.items()} if self.prefix else values)

    def artifact(self, name: str, path: str | os.PathLike[str], kind: str = "", step: int | None = None) -> None:
        """Record a file by reference."""
        name = f"{self.prefix}{name}"
        client.artifact(name, path, kind, step=step, axis=self._axis(name, step))

    def leave_out(self, name: str, why: str) -> None:
        """Report a value that is not recorded, once for each name."""
        if name not in self._reported and len(self._reported) < 20:
            self._reported.add(name)
            user_warnings.warn(f"{name!r} is not recorded: {why}. This warning appears once")

    def _record(self, metric: MetricData) -> None:
        kind, value, step = metric.type, metric.value, metric.iteration
        name = f"{self.prefix}{metric.name}"
        if kind in (MetricType.PARAMETER, MetricType.HPARAMS):
            is_whole = kind is MetricType.HPARAMS and isinstance(value, Mapping)
            self.params(value if is_whole else {metric.name: value})
        elif kind is MetricType.SYSTEM:
            client.gauge(name).set(value, at_ns=monotonic_ns(metric.timestamp))
        elif kind in _FILES:
            path = self._figure(metric) if kind is MetricType.FIGURE else value
            if isinstance(path, (str, os.PathLike)):
                self.artifact(metric.name, path, _FILES[kind], step)
            else:
                self.leave_out(metric.name, f"a {kind.value} is recorded as a file; save it and pass the path")
        elif kind is MetricType.TEXT:
            client.text(name, str(value), step=step, axis=self._axis(name, step))
        elif kind is MetricType.HISTOGRAM:
            client.histogram(name, value, step=step, axis=self._axis(name, step))
        else:
            self.log(metric.name, value, 0 if step is None else step)

    def _axis(self, name: str, step: int | None) -> str:
        return _AXIS if step is None else self.axes.axis(name, step)

    def _figure(self, metric: MetricData) -> Any:
        """Save a figure of matplotlib below the run directory and return its path."""
        if not callable(getattr(metric.value, "savefig", None)) or not self.directory:
            return metric.value
        folder = Path(self.directory, "figures")
        folder.mkdir(exist_ok=True)
        path = folder / f"{file_name(metric.name)}-{metric.iteration or 0}.png"
        metric.value.savefig(path)
        return path


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


class SinkThread:
    """The queue and the thread of one sink. A sink that is slow or raises loses only its own values.

    Values stay in order. A value that fails is tried again, with growing waits, and so is the start of a backend.
    """

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
        """Values that wait, and the one in delivery, which is the first."""
        self._ending = threading.Event()
        self._is_closed = False
        self._counting = threading.Lock()  # a value counts as delivered or as dropped, never twice
        self._reported: set[str] = set()
        self._dropped_reported = 0
        self._last_error = ""
        self._thread: threading.Thread | None = None

    def stats(self) -> dict[str, Any]:
        """Return the counts. `state` is `open` while the sink is left alone after several failures."""
        counts = {name: getattr(self, name) for name in ("delivered", "dropped", "errors", "retries")}
        return {**counts, "waiting": len(self._queue), "state": self._breaker.state}

    def takes(self, metric_type: MetricType) -> bool:
        """Return whether the sink takes metrics of a type. Raise what the sink raises."""
        can = getattr(self._sink, "can_handle_type", None)
        return not callable(can) or bool(can(metric_type))

    def put(self, metric: MetricData) -> None:
        """Queue a metric, without blocking. A full queue and a closed sink drop the metric and count it."""
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
            self.dropped += len(self._queue)
            self._queue.clear()
            lost = self.dropped - self._dropped_reported
            self._dropped_reported = self.dropped
        reports = [f"did not get {number_of(lost, 'value')}"] if lost else []
        reports += ["did not end in time"] if is_late else []
        if reports:
            why = f"; the last error was {self._last_error}" if lost and self._last_error else ""
            user_warnings.warn(f"the backend {self.name} {' and '.join(reports)}{why}")

    def _serve(self) -> None:
        if self._config is not None and not self._attempt("open", "it can't start:", self._open):
            return
        receive = getattr(self._target, "receive_metric", None) or partial(deliver, self._target)
        while not self._is_closed:
            is_last_turn = self._ending.is_set()
            self._deliver_all(receive)
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
        call(backend, "initialize", config)
        if callable(getattr(backend, "create_backend", None)):
            self._target = backend.create_backend(dict(config))
            call(self._target, "initialize", config)
        call(self._target, "start_experiment", config["experiment_name"], config["project"])
        call(backend, "start")

    def _close(self) -> None:
        call(self._target, "save_experiment", dict(self._config or {}))
        call(self._target, "end_experiment")
        call(self._sink, "stop")
        call(self._sink, "cleanup")

    def _deliver_all(self, receive: Callable[[MetricData], object]) -> None:
        while True:
            with self._counting:
                if self._is_closed or not self._queue:
                    return
                metric = self._queue[0]
            is_delivered = self._attempt("value", "it raised", partial(receive, metric))
            with self._counting:
                if self._is_closed:  # `join` gave up, and has counted the value as dropped
                    return
                self._queue.popleft()
                self.delivered += is_delivered
                self.errors += not is_delivered
                self.dropped += not is_delivered

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


@dataclass
class RoutingRule:
    """A rule that leads metrics of some sources to a sink. `*` in a pattern stands for any end."""

    source_pattern: str
    sink_id: str
    metric_types: set[MetricType] | None = None
    filter_func: Callable[[MetricData], bool] | None = None

    def matches(self, metric: MetricData) -> bool:
        """Return whether the rule applies to a metric."""
        begin, star, _ = self.source_pattern.partition("*")
        if metric.source and not (metric.source.startswith(begin) if star else metric.source == begin):
            return False
        if self.metric_types and metric.type not in self.metric_types:
            return False
        return self.filter_func is None or bool(self.filter_func(metric))


class DataFlowOrchestrator:
    """A router of metrics. The run gets every metric; sinks get what the rules say.

    `num_workers` has no effect: each sink has one thread, which keeps its values in order. `retry` says how often a
    sink that fails is tried again.
    """

    def __init__(self, max_queue_size: int = 10_000, num_workers: int = 4, retry: Retry = USUAL) -> None:
        self.max_queue_size = max_queue_size
        self.retry = retry
        self.num_workers = num_workers
        self.sources: dict[str, Any] = {}
        self.sinks: dict[str, Any] = {}
        self.routing_rules: list[RoutingRule] = []
        self.running = False
        self.recorder = Recorder()
        self.config: dict[str, Any] = {"experiment_name": "experiment", "project": "default"}
        """Configuration for backends of `add_backend`."""
        self.threads: dict[str, SinkThread] = {}
        self._lock = threading.RLock()
        self._rule_errors = 0

    def register_source(self, source: Any) -> None:
        """Register a source. Raise ValueError if its id is taken."""
        name = source.get_source_id()
        with self._lock:
            if name in self.sources:
                raise ValueError(f"the source {name!r} is already registered")
            self.sources[name] = source

    def register_sink(self, sink: Any) -> None:
        """Register a sink that its owner starts and stops. Raise ValueError if its id is taken."""
        self._add_sink(sink.get_sink_id(), sink)

    def add_routing_rule(self, rule: RoutingRule) -> None:
        """Add a rule for metrics from now on."""
        with self._lock:
            self.routing_rules = [*self.routing_rules, rule]

    def add_backend(self, backend: Any, config: Mapping[str, Any] | None = None) -> None:
        """Add a backend or backend plugin that gets all metrics, and that `start` and `stop` open and close."""
        with self._lock:
            name = wanted = name_of(backend)
            others = 1
            while name in self.sinks:
                name = f"{wanted}_{(others := others + 1)}"
            self._add_sink(name, backend, {**self.config, **(config or {})})
            self.add_routing_rule(RoutingRule("*", name))

    def remove_backend(self, backend: Any) -> None:
        """Deliver what waits for a backend, close it and forget it."""
        with self._lock:
            name = next((name for name, sink in self.sinks.items() if sink is backend), "")
            self.sinks.pop(name, None)
            self.routing_rules = [rule for rule in self.routing_rules if rule.sink_id != name]
            thread = self.threads.pop(name, None)
        if thread is not None:
            thread.end()
            thread.join(time.monotonic() + _STOP_S)

    def emit_metric(self, metric: MetricData) -> None:
        """Record a metric in the run and queue it for the sinks. Never raises and never blocks."""
        self.recorder.record(metric)
        if self.threads:
            self.route(metric)

    route_metric = emit_metric

    def route(self, metric: MetricData) -> None:
        """Queue a metric for the sinks alone, once for each."""
        chosen: dict[str, SinkThread] = {}
        for rule in self.routing_rules:
            thread = self.threads.get(rule.sink_id)
            try:
                if thread is not None and rule.matches(metric) and thread.takes(metric.type):
                    chosen[rule.sink_id] = thread
            except Exception as error:  # noqa: BLE001 – filters and sinks are code of the user
                self._rule_errors += 1
                if self._rule_errors == 1:
                    user_warnings.warn(f"a rule for the sink {rule.sink_id} raised {error_text(error)}")
        for thread in chosen.values():
            thread.put(metric)

    def start(self) -> None:
        """Start the threads of all sinks. A second call has no effect."""
        with self._lock:
            self.running = True
            for thread in self.threads.values():
                thread.start()

    def stop(self, timeout: float = _STOP_S) -> None:
        """Deliver what waits, for at most `timeout` seconds in all. Report what is lost, by sink."""
        with self._lock:
            if not self.running:
                return
            self.running = False
            threads = list(self.threads.values())
        deadline_s = time.monotonic() + timeout
        for thread in threads:
            thread.end()
        for thread in threads:
            thread.join(deadline_s)

    @contextmanager
    def batch_emit(self, source_id: str) -> Iterator[Callable[[MetricData], None]]:
        """Return a `with` block that collects metrics of a source and emits them at its end."""
        batch: list[MetricData] = []
        yield batch.append
        for metric in batch:
            metric.source = source_id
            self.emit_metric(metric)

    def get_stats(self) -> dict[str, Any]:
        """Return the counts of all sinks together, and of each one under `sinks`."""
        sinks = {name: thread.stats() for name, thread in self.threads.items()}
        names = ("delivered", "dropped", "errors", "waiting")
        delivered, dropped, errors, waiting = (sum(stats[name] for stats in sinks.values()) for name in names)
        return {
            "metrics_processed": delivered,
            "metrics_dropped": dropped,
            "processing_errors": self._rule_errors + errors,
            "queue_size": waiting,
            "num_sources": len(self.sources),
            "num_sinks": len(self.sinks),
            "num_routing_rules": len(self.routing_rules),
            "running": self.running,
            "sinks": sinks,
        }

    def _add_sink(self, name: str, sink: Any, config: Mapping[str, Any] | None = None) -> None:
        """Register a sink and its thread. With a `config` the thread opens and closes it."""
        with self._lock:
            if name in self.sinks:
                raise ValueError(f"the sink {name!r} is already registered")
            self.sinks[name] = sink
            thread = self.threads[name] = SinkThread(sink, self.max_queue_size, self.retry, config)
            if self.running:
                thread.start()


Orchestrator = DataFlowOrchestrator
"""The same class under the name of the architecture document."""
