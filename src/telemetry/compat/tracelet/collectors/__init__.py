"""Collectors: git and system metrics."""

from telemetry.compat.tracelet.collectors.git import GitCollector
from telemetry.compat.tracelet.collectors.system import SystemMetricsCollector

__all__ = ["GitCollector", "SystemMetricsCollector"]
