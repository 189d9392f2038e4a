"""The logger that Lightning programs name themselves. Its base class is Lightning's, so it is made on first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from telemetry.client import module_level as telemetry
from telemetry.client.steps import DEFAULT_AXIS
from telemetry.integrations.loop_axes import LoopAxes, record_own, record_params

_PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")


def _package() -> str:
    for name in _PACKAGES:
        if name in sys.modules:
            return name
    return _PACKAGES[0] if find_spec("lightning") is not None else _PACKAGES[1]


def logger_class() -> type:
    """Return the class, for the Lightning package that the program uses. Raises ImportError without any."""
    package = _package()
    base: Any = import_module(f"{package}.loggers").Logger
    rank_zero = import_module(f"{package}.utilities.rank_zero")

    class TelemetryLogger(base):  # type: ignore[misc]  # the base is of another library
        """A Lightning logger that records into the run of this process.

        Example:
            trainer = Trainer(logger=[CSVLogger("logs"), TelemetryLogger()])

        Every rank records its metrics, and a step keeps their mean and spread. Hyperparameters and checkpoints are
        recorded by rank 0.
        """

        records_into_telemetry = True

        def __init__(self, name: str = "telemetry", version: str = "") -> None:
            """`name` and `version` are folders for checkpoints, if this is the first logger of its Trainer."""
            super().__init__()
            self._name = name
            self._version = version
            self.axes = LoopAxes(own=DEFAULT_AXIS)
            self._newest_step = 0
            self._recorded: set[tuple[str, int]] = set()

        @property
        def name(self) -> str:
            return self._name

        @property
        def version(self) -> str:
            return self._version

        @property
        def experiment(self) -> Any:
            """The recording functions: `logger.experiment.table(…)` is `telemetry.table(…)`."""
            return telemetry

        def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
            """Record metrics. Without a step they belong to the newest one."""
            self._newest_step = self._newest_step if step is None else step
            record_own(metrics, self._newest_step, self.axes)

        def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
            """Record settings: a mapping, or a namespace of a command line."""
            if rank_zero.rank_zero_only.rank in {0, None}:
                values = params if isinstance(params, Mapping) else vars(params)
                record_params(values, self.axes.number)

        def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
            """Record the files that a ModelCheckpoint has written since the last call, by reference."""
            if rank_zero.rank_zero_only.rank not in {0, None}:
                return
            paths = [checkpoint_callback.best_model_path, checkpoint_callback.last_model_path]
            for path in dict.fromkeys([*paths, *checkpoint_callback.best_k_models]):
                written_ns = 0
                with suppress(OSError):  # a remote file, which counts as written once
                    written_ns = os.stat(path).st_mtime_ns
                if path and (path, written_ns) not in self._recorded:
                    self._recorded.add((path, written_ns))
                    axis = self.axes.current()
                    telemetry.artifact("checkpoint", path, "model", step=self._newest_step, axis=axis)

    TelemetryLogger.__module__ = "telemetry.integrations.lightning"
    TelemetryLogger.__qualname__ = "TelemetryLogger"  # so that pickle finds it
    return TelemetryLogger
