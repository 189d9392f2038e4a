"""Metrics of one experiment as calls of the client, and the run that experiments of this process share."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as client
from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.run import Run, start
from telemetry.client.step_axes import StepAxes
from telemetry.client.wall_time import monotonic_ns
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricType
from telemetry.compat.tracelet.core.sinks import plain
from telemetry.compat.variables import variables
from telemetry.errors import error_text
from telemetry.redaction import mask_secrets

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


class Recorder:
    """A translator to the client. It never raises: what it can't record is reported once."""

    def __init__(self, prefix: str = "", directory: str = "") -> None:
        """`prefix` is put before each name. `directory` is the folder for figures."""
        self.prefix = prefix
        self.axes = StepAxes(f"{prefix}{AXIS}")
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
        if kind is MetricType.HPARAMS and isinstance(value, Mapping):
            self.params(value)
        elif kind in (MetricType.PARAMETER, MetricType.HPARAMS):
            self.params({metric.name: value})
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


class SharedRun:
    """The open run, the experiments that use it, and their recorders. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.run: Run | None = None
        self._ends_run = False
        self._users: set[str] = set()
        self._recorders: dict[str, Recorder] = {}
        self._run_id = ""

    def join(
        self, experiment_id: str, name: str, to: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[Run, Recorder]:
        """Start a run for an experiment, or join the run that is open. Raise TelemetryError if there is none.

        `to` and `environment` are for the writers of backends. They are used only where this call starts the run.
        """
        with self._lock:
            starts_run = False
            if self.run is None or self.run.finished:
                is_open = PROCESS.state == "live"
                starts_run = not is_open and not os.environ.get(ENDPOINT_VARIABLE)
                run_name = name.encode(errors="replace").decode()[: limits.NAME_CHARS] or "experiment"
                with variables(environment if starts_run else {}):
                    self.run = start(None if is_open else run_name, to=list(to) if starts_run else [])
                self._ends_run, self._users = starts_run and self.run.owner, set()
            if to and not starts_run:
                options = " ".join(f"--to '{text}'" for text in mask_secrets(to))
                user_warnings.warn(
                    f"this experiment records into the run {self.run.name!r}, which is open already; its backends "
                    f"are chosen where it is started, as in: telemetry run {options} -- COMMAND"
                )
            self._users.add(experiment_id)
            return self.run, self._recorder(self.run, name)

    def leave(self, experiment_id: str) -> None:
        """End the part of an experiment. The last one ends the run, if these experiments started it."""
        with self._lock:
            self._users.discard(experiment_id)
            run = self.run
            if run is not None and not self._users:
                self.run = None
                if self._ends_run:
                    run.finish()

    def _recorder(self, run: Run, name: str) -> Recorder:
        """Return the recorder of an experiment. Names of a second experiment in a run begin with its name."""
        if self._run_id != run.run_id:
            self._run_id, self._recorders = run.run_id, {}
        if name not in self._recorders:
            prefix = f"{name}/" if self._recorders else ""
            if prefix:
                user_warnings.warn(
                    f"the run has several experiments: names of values of {name!r} begin with {prefix!r}"
                )
            self._recorders[name] = Recorder(prefix, run.directory)
        return self._recorders[name]


SHARED_RUN: Final = SharedRun()
"""The run of this process."""
