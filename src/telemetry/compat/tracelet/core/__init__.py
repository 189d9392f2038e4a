"""The parts of Tracelet: experiments, the orchestrator, plugins and their interfaces."""

from telemetry.compat.tracelet.core.experiment import Experiment, ExperimentConfig
from telemetry.compat.tracelet.core.interfaces import BackendInterface, CollectorInterface, FrameworkInterface
from telemetry.compat.tracelet.core.orchestrator import (
    DataFlowOrchestrator,
    Metric,
    MetricData,
    MetricSink,
    MetricSource,
    MetricType,
    Orchestrator,
    RoutingRule,
)
from telemetry.compat.tracelet.core.plugins import (
    BackendPlugin,
    CollectorPlugin,
    FrameworkPlugin,
    PluginBase,
    PluginInfo,
    PluginManager,
    PluginMetadata,
    PluginState,
    PluginType,
)

__all__ = [
    "BackendInterface",
    "BackendPlugin",
    "CollectorInterface",
    "CollectorPlugin",
    "DataFlowOrchestrator",
    "Experiment",
    "ExperimentConfig",
    "FrameworkInterface",
    "FrameworkPlugin",
    "Metric",
    "MetricData",
    "MetricSink",
    "MetricSource",
    "MetricType",
    "Orchestrator",
    "PluginBase",
    "PluginInfo",
    "PluginManager",
    "PluginMetadata",
    "PluginState",
    "PluginType",
    "RoutingRule",
]
