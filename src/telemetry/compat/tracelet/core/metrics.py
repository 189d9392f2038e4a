"""Metrics as Tracelet's parts hand them on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Any


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
