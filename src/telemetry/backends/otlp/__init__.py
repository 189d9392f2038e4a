"""The OTLP backend: a run as metrics and traces of OpenTelemetry."""

from telemetry.backends.otlp.backend import OtlpBackend

__all__ = ["OtlpBackend"]
