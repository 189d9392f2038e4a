"""Metrics, base classes of backends, collectors and frameworks, and the calls of classes that users wrote.

Tracelet's architecture document and its code name different methods. These classes have both.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from telemetry.client.records import flatten
from telemetry.client.steps import number

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
    """An integration of a training framework. It passes on metrics from `start_tracking` to `stop_tracking`."""

    def initialize(self, experiment: Experiment) -> None: ...
    def start_tracking(self) -> None: ...
    def stop_tracking(self) -> None: ...
    def log_metric(self, name: str, value: Any, iteration: int) -> None: ...


class BackendInterface:
    """A store for values. Its methods are called on one thread, in order, with their arguments by position.

    `start_experiment` comes first, `save_experiment` and `end_experiment` come after the last value.
    """

    def start_experiment(self, name: str, project: str) -> str:
        """Begin an experiment and return its id."""
        return ""

    def end_experiment(self) -> None: ...
    def log_metric(self, name: str, value: Any, step: int | None = None) -> None: ...
    def log_params(self, params: dict[str, Any]) -> None: ...
    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None: ...
    def save_experiment(self, experiment_data: dict[str, Any]) -> None: ...


class CollectorInterface:
    """A source of values. `collect` is called at intervals between `start` and `stop`."""

    def initialize(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...

    def collect(self) -> dict[str, Any]:
        """Return the current values."""
        return {}


class MetricSource:
    """A part that emits metrics under its id."""

    def get_source_id(self) -> str:
        return type(self).__name__

    def emit_metric(self, metric: MetricData) -> None: ...


class MetricSink:
    """A part that receives metrics on a thread of its own, if `can_handle_type` is true for their type."""

    def get_sink_id(self) -> str:
        return type(self).__name__

    def can_handle_type(self, metric_type: MetricType) -> bool:
        return True

    def receive_metric(self, metric: MetricData) -> None: ...


# --- calls of classes that users wrote ---------------------------------------------------------------

_NUMBERS: Final = {MetricType.SCALAR, MetricType.SYSTEM, MetricType.CUSTOM, MetricType.TENSOR}


def call(owner: Any, name: str, *arguments: Any) -> Any:
    """Call a method with as many of the arguments as it takes. Without this method it has no effect."""
    method = getattr(owner, name, None)
    if not callable(method):
        return None
    try:
        kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
    except (TypeError, ValueError):
        return method(*arguments)
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return method(*arguments)
    return method(*arguments[: sum(kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)])


def deliver(sink: Any, metric: MetricData) -> None:
    """Pass a metric to `handle_metric`, or by its type to `log_metric`, `log_params` or `log_artifact`.

    Metrics of other types are left out.
    """
    if callable(handle := getattr(sink, "handle_metric", None)):
        handle(metric)
    elif metric.type in (MetricType.PARAMETER, MetricType.HPARAMS):
        is_whole = metric.type is MetricType.HPARAMS and isinstance(metric.value, Mapping)
        sink.log_params(dict(flatten(metric.value if is_whole else {metric.name: metric.value})))
    elif metric.type is MetricType.ARTIFACT:
        call(sink, "log_artifact", str(metric.value), (metric.metadata or {}).get("artifact_path"))
    elif metric.type in _NUMBERS and (value := plain(metric.value)) is not None:
        sink.log_metric(metric.name, value, metric.iteration)


def plain(value: Any) -> float | int | None:
    """Return a number of Python, also for a number of numpy and a tensor of one element, else None."""
    try:
        return value if type(value) in (int, float) else number(value)
    except Exception:  # noqa: BLE001 – a value may raise anything
        return None


def name_of(owner: Any) -> str:
    """Return the name of a user's object for messages and statistics."""
    for method in ("get_sink_id", "get_metadata"):
        if callable(getattr(owner, method, None)):
            answer = getattr(owner, method)()
            return str(getattr(answer, "name", answer))
    return str(getattr(owner, "name", type(owner).__name__))
