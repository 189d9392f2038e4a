"""The orchestrator: metrics go to the run, and to sinks of the user by routing rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import Metric, MetricData, MetricSink, MetricSource, MetricType
from telemetry.compat.tracelet.core.recorder import Recorder
from telemetry.compat.tracelet.core.sinks import USUAL, Retry, SinkThread, name_of
from telemetry.errors import error_text

__all__ = [
    "DataFlowOrchestrator",
    "Metric",
    "MetricData",
    "MetricSink",
    "MetricSource",
    "MetricType",
    "Orchestrator",
    "RoutingRule",
]
_STOP_S: Final = 10.0


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
        self.collectors: list[Any] = []
        self.running = False
        self.recorder = Recorder()
        self.config: dict[str, Any] = {"experiment_name": "experiment", "project": "default"}
        """Configuration for backends of `add_backend`."""
        self.threads: dict[str, SinkThread] = {}
        self._lock = threading.RLock()
        self._rule_errors = 0

    def register_source(self, source: Any) -> None:
        """Register a source. Raise ValueError if its id is taken."""
        with self._lock:
            self._register(self.sources, source.get_source_id(), source, "source")

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

    def route_metric(self, metric: MetricData) -> None:
        """Pass a metric on, under the name of the architecture document."""
        self.emit_metric(metric)

    def route(self, metric: MetricData) -> None:
        """Queue a metric for the sinks alone."""
        chosen: dict[str, None] = {}
        for rule in self.routing_rules:
            try:
                if rule.matches(metric) and self._takes(rule.sink_id, metric.type):
                    chosen[rule.sink_id] = None
            except Exception as error:  # noqa: BLE001 – filters and sinks are code of the user
                self._rule_errors += 1
                if self._rule_errors == 1:
                    user_warnings.warn(f"a rule for the sink {rule.sink_id} raised {error_text(error)}")
        for sink_id in chosen:
            thread = self.threads.get(sink_id)
            if thread is not None:
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

        def total(count: str) -> int:
            return sum(stats[count] for stats in sinks.values())

        return {
            "metrics_processed": total("delivered"),
            "metrics_dropped": total("dropped"),
            "processing_errors": self._rule_errors + total("errors"),
            "queue_size": total("waiting"),
            "num_sources": len(self.sources),
            "num_sinks": len(self.sinks),
            "num_routing_rules": len(self.routing_rules),
            "running": self.running,
            "sinks": sinks,
        }

    def _takes(self, sink_id: str, metric_type: MetricType) -> bool:
        can = getattr(self.sinks.get(sink_id), "can_handle_type", None)
        return sink_id in self.sinks and (not callable(can) or bool(can(metric_type)))

    def _register(self, table: dict[str, Any], name: str, part: Any, kind: str) -> None:
        if name in table:
            raise ValueError(f"the {kind} {name!r} is already registered")
        table[name] = part

    def _add_sink(self, name: str, sink: Any, config: Mapping[str, Any] | None = None) -> None:
        """Register a sink and its thread. With a `config` the thread opens and closes it."""
        with self._lock:
            self._register(self.sinks, name, sink, "sink")
            thread = self.threads[name] = SinkThread(sink, self.max_queue_size, self.retry, config)
            if self.running:
                thread.start()


Orchestrator = DataFlowOrchestrator
"""The same class under the name of the architecture document."""
