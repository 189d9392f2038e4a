"""Metrics of one experiment as calls of the client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from telemetry.client import module_level as client
from telemetry.client import notice
from telemetry.client.step_axes import StepAxes
from telemetry.client.wall_time import monotonic_ns
from telemetry.compat.tracelet.core.metrics import MetricData, MetricType
from telemetry.compat.tracelet.core.sinks import plain

AXIS: Final = "iteration"
"""First axis of an experiment. Captures of SummaryWriter and the like use `step`, and count by themselves."""
_FILES: Final = {
    MetricType.ARTIFACT: "",
    MetricType.IMAGE: "image",
    MetricType.FIGURE: "image",
    MetricType.VIDEO: "video",
    MetricType.AUDIO: "audio",
    MetricType.EMBEDDING: "embedding",
    MetricType.MESH: "mesh",
}
"""Types that are recorded by reference to a file, and the kind of artifact that they become."""
_SETTINGS: Final = {MetricType.PARAMETER, MetricType.HPARAMS}


class Recorder:
    """A translator to the client. It never raises: what it can't record is reported once."""

    def __init__(self, prefix: str = "", axes: StepAxes | None = None, directory: str = "") -> None:
        """`prefix` is put before each name. `directory` is the folder for figures."""
        self.prefix = prefix
        self.axes = axes or StepAxes(AXIS)
        self.directory = directory
        self._reported: set[str] = set()

    def log(self, name: str, value: Any, step: int) -> None:
        """Record a value of a step: a number, a text, or an array of many numbers as a histogram."""
        name = f"{self.prefix}{name}" if self.prefix else name
        try:
            axis = self.axes.axis(name, step)
        except TypeError:  # the step is no number; the client reports it
            axis = AXIS
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
            self.leave_out(metric.name, f"{type(error).__name__}: {error}")

    def params(self, values: Mapping[str, Any]) -> None:
        """Record settings."""
        client.params({f"{self.prefix}{name}": value for name, value in values.items()} if self.prefix else values)

    def artifact(self, name: str, path: str | os.PathLike[str], kind: str = "", step: int | None = None) -> None:
        """Record a file by reference."""
        name = f"{self.prefix}{name}"
        axis = AXIS if step is None else self.axes.axis(name, step)
        client.artifact(name, path, kind, step=step, axis=axis)

    def leave_out(self, name: str, why: str) -> None:
        """Report a value that is not recorded, once for each name."""
        if name not in self._reported and len(self._reported) < 20:
            self._reported.add(name)
            notice.warn(f"{name!r} is not recorded: {why}. This warning appears once")

    def _record(self, metric: MetricData) -> None:
        kind, value, step = metric.type, metric.value, metric.iteration
        name = f"{self.prefix}{metric.name}"
        if kind in _SETTINGS:
            self.params(
                value if kind is MetricType.HPARAMS and isinstance(value, Mapping) else {metric.name: value}
            )
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
        return AXIS if step is None else self.axes.axis(name, step)

    def _figure(self, metric: MetricData) -> Any:
        """Save a figure of matplotlib below the run directory and return its path."""
        if not callable(getattr(metric.value, "savefig", None)) or not self.directory:
            return metric.value
        folder = Path(self.directory, "figures")
        folder.mkdir(exist_ok=True)
        name = "".join(letter if letter.isalnum() else "_" for letter in metric.name)
        path = folder / f"{name}-{metric.iteration or 0}.png"
        metric.value.savefig(path)
        return path
