"""Tracelet's interface: one call starts an experiment, and its values go to the run and to trackers.

import telemetry.compat.tracelet as tracelet

experiment = tracelet.start_logging("digits", project="vision", backend="mlflow")
experiment.log_metric("loss", 0.5, 0)
tracelet.stop_logging()
"""

from telemetry.compat.tracelet.automagic import AutomagicConfig, automagic, capture_hyperparams
from telemetry.compat.tracelet.backends import get_backend
from telemetry.compat.tracelet.collectors import GitCollector, SystemMetricsCollector
from telemetry.compat.tracelet.core.artifacts import ArtifactType, TraceletArtifact
from telemetry.compat.tracelet.core.experiment import Experiment, ExperimentConfig
from telemetry.compat.tracelet.core.orchestrator import Metric, Orchestrator
from telemetry.compat.tracelet.exceptions import BackendError, ConfigurationError, TraceletException
from telemetry.compat.tracelet.frameworks import LightningFramework, PyTorchFramework
from telemetry.compat.tracelet.interface import (
    get_active_backends,
    get_active_experiment,
    start_logging,
    stop_logging,
)
from telemetry.compat.tracelet.settings import TraceletSettings, configure
from telemetry.compat.tracelet.utils.imports import get_available_backends as available_backends
from telemetry.compat.tracelet.utils.imports import get_available_frameworks as available_frameworks

__version__ = "0.1.0"
"""The version of the interface, not of this package."""

__all__ = ["ArtifactType", "AutomagicConfig", "BackendError", "ConfigurationError", "Experiment"]
__all__ += ["ExperimentConfig", "GitCollector", "LightningFramework", "Metric", "Orchestrator", "PyTorchFramework"]
__all__ += ["SystemMetricsCollector", "TraceletArtifact", "TraceletException", "TraceletSettings", "automagic"]
__all__ += ["available_backends", "available_frameworks", "capture_hyperparams", "configure", "get_active_backends"]
__all__ += ["get_active_experiment", "get_backend", "start_logging", "stop_logging"]
