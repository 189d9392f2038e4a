"""Metrics, and base classes of backends, collectors and frameworks. A subclass implements what it needs.

Tracelet's architecture document and its code name different methods. These classes have both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.compat.tracelet.core.experiment import Experiment

__all__ = ["BackendInterface", "CollectorInterface", "FrameworkInterface", "MetricSink", "MetricSource"]


class MetricType(Enum):
    """Types of metrics."""

    SCALAR = "scalar"
    TENSOR = "tensor"
    ARTIFACT = "artifact"
    PARAMETER = "parameter"
    SYSTEM = "system"
    CUSTOM = "custom"
    HISTOGRAM = "histogram"
    IMAGE = "image"
    TEXT = "text"
    FIGURE = "figure"
    EMBEDDING = "embedding"
    VIDEO = "video"
    AUDIO = "audio"
    MESH = "mesh"
    HPARAMS = "hparams"


@dataclass
class MetricData:
    """A value on its way from a source to sinks."""

    name: str
    value: Any
    type: MetricType
    iteration: int | None = None
    timestamp: float | None = None
    source: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.timestamp is None:
            self.timestamp = time.time()

    @property
    def step(self) -> int | None:
        return self.iteration


class Metric(MetricData):
    """A scalar in the form of Tracelet's architecture document: name, value, step."""

    def __init__(self, name: str, value: Any, step: int | None = None, **more: Any) -> None:
        super().__init__(name, value, more.pop("type", MetricType.SCALAR), step, **more)


class FrameworkInterface:
    """An integration of a training framework."""

    def initialize(self, experiment: Experiment) -> None:
        """Bind the framework to an experiment."""

    def start_tracking(self) -> None:
        """Begin to pass on metrics of the framework."""

    def stop_tracking(self) -> None:
        """End it."""

    def log_metric(self, name: str, value: Any, iteration: int) -> None:
        """Pass on one metric."""


class BackendInterface:
    """A store for values. Its methods are called on one thread, in order, with their arguments by position."""

    def start_experiment(self, name: str, project: str) -> str:
        """Begin an experiment and return its id."""
        return ""

    def end_experiment(self) -> None:
        """End it, after the last value."""

    def log_metric(self, name: str, value: Any, step: int | None = None) -> None:
        """Store a number."""

    def log_params(self, params: dict[str, Any]) -> None:
        """Store parameters."""

    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None:
        """Store a file."""

    def save_experiment(self, experiment_data: dict[str, Any]) -> None:
        """Store what is known about the experiment at its end."""


class CollectorInterface:
    """A source of values that are read at intervals."""

    def initialize(self) -> None:
        """Prepare to collect."""

    def collect(self) -> dict[str, Any]:
        """Return the values of now."""
        return {}

    def start(self) -> None:
        """Begin to collect."""

    def stop(self) -> None:
        """End it."""


class MetricSource:
    """A part that emits metrics."""

    def get_source_id(self) -> str:
        """Return the name of this source."""
        return type(self).__name__

    def emit_metric(self, metric: MetricData) -> None:
        """Pass a metric on."""


class MetricSink:
    """A part that receives metrics, on a thread of its own."""

    def get_sink_id(self) -> str:
        """Return the name of this sink."""
        return type(self).__name__

    def receive_metric(self, metric: MetricData) -> None:
        """Take a metric."""

    def can_handle_type(self, metric_type: MetricType) -> bool:
        """Return whether this sink takes metrics of a type."""
        return True
