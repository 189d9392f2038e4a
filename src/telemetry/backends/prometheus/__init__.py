"""The Prometheus backend: the newest snapshot of a run, served for scraping."""

from telemetry.backends.prometheus.backend import PrometheusBackend

__all__ = ["PrometheusBackend"]
