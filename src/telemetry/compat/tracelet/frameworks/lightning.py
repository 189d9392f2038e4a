"""Lightning: values of `self.log`, as its logger connector reduces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telemetry.compat.tracelet.core.automatic import hold_integration
from telemetry.compat.tracelet.core.interfaces import FrameworkInterface


class CapturedFramework(FrameworkInterface):
    """A framework whose values a capture of this package records."""

    name = ""
    capture = ""

    def __init__(self) -> None:
        self._experiment: Any = None
        self._release: Callable[[], object] | None = None

    def initialize(self, experiment: Any) -> None:
        """Bind the framework to an experiment and begin to record its values."""
        self._experiment = experiment
        self.start_tracking()

    def start_tracking(self) -> None:
        """Begin to record values. A second call has no effect."""
        if self._release is None:
            self._release = hold_integration(self.capture)

    def stop_tracking(self) -> None:
        """Restore the framework."""
        if self._release is not None:
            self._release()
            self._release = None

    def log_metric(self, name: str, value: Any, iteration: int | None = None) -> None:
        """Log a value to the experiment. Without an experiment it has no effect."""
        if self._experiment is not None:
            self._experiment.log_metric(name, value, iteration)


class LightningFramework(CapturedFramework):
    """The integration of Lightning."""

    name = "lightning"
    capture = "lightning"
