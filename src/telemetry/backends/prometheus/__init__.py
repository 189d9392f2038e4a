"""Prometheus: the newest snapshot of a run at an address that it scrapes."""

from telemetry.backends.prometheus.backend import PrometheusBackend

__all__ = ["PrometheusBackend"]
