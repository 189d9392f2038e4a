"""Lightning's `self.log`, and captures of frameworks that several experiments may hold."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import FrameworkInterface
from telemetry.errors import error_text
from telemetry.integrations.capture.boot_module import BOOT

Stop = Callable[[], object]


_HOLDERS: Final[Counter[Any]] = Counter()
"""Number of experiments that hold each capture."""
_LOCK: Final = threading.Lock()


def hold(capture: Any) -> Stop:
    """Install a capture, unless another experiment has. Return the function that releases it; call that once.

    The last one to release it uninstalls it.
    """

    def release() -> None:
        with _LOCK:
            _HOLDERS[capture] -= 1
            if not _HOLDERS[capture]:
                capture.uninstall()

    with _LOCK:
        _HOLDERS[capture] += 1
        if _HOLDERS[capture] == 1:
            try:
                capture.install()
            except Exception as error:  # noqa: BLE001 – a capture must not stop the program
                user_warnings.warn(f"a capture can't be installed: {error_text(error)}")
    return release


def hold_integration(name: str) -> Stop:
    """Install the capture of a framework. Leave it alone if `telemetry run --capture` has installed it."""
    return (lambda: None) if name in BOOT.PREPARED else hold(import_module(f"telemetry.integrations.{name}"))


class CapturedFramework(FrameworkInterface):
    """A framework whose values a capture of this package records."""

    name = ""
    capture = ""

    def __init__(self) -> None:
        self._experiment: Any = None
        self._release: Stop | None = None

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

    name = capture = "lightning"
