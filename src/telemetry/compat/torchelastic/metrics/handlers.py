"""Handlers of metrics, and the safe call of a user's own handler."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from telemetry.client import notice

_FAULTS_MOST: Final = 10
_faulty: Final[set[str]] = set()
"""Types of handlers whose fault was reported."""


class MetricData(NamedTuple):
    """One value of a metric, as handlers get it."""

    timestamp: float
    """Unix time in seconds."""
    group_name: str
    name: str
    value: Any


class MetricHandler(abc.ABC):
    """The base of handlers. Override `emit`."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one value of a metric."""


class ConsoleMetricHandler(MetricHandler):
    """A handler that prints each value to stdout."""

    def emit(self, metric_data: MetricData) -> None:
        timestamp, group, name, value = metric_data
        print(f"[{timestamp}][{group}]: {name}={value}")  # noqa: T201 – printing is what it is for


class NullMetricHandler(MetricHandler):
    """A handler that ignores all values. The default."""

    def emit(self, metric_data: MetricData) -> None:
        pass


ConsoleMetricsHandler = ConsoleMetricHandler
NullMetricsHandler = NullMetricHandler


def sender(handler: Any, group: str, name: str) -> Callable[[Any], None]:
    """Return the function that gives values of a metric to a handler. It never raises."""
    now = time.time

    def send(value: Any) -> None:
        try:
            handler.emit(MetricData(now(), group, name, value))
        except Exception as error:  # noqa: BLE001 – a user's handler may raise anything, and must not break the program
            _report(handler, name, error)

    return send


def _report(handler: Any, name: str, error: Exception) -> None:
    """Report the first fault of each type of handler."""
    kind = type(handler).__qualname__
    if kind not in _faulty and len(_faulty) < _FAULTS_MOST:
        _faulty.add(kind)
        notice.warn(
            f"{kind}.emit() failed for metric {name!r}: {type(error).__name__}: {error}. The program goes on, and "
            "the metric is recorded; this warning appears once"
        )
