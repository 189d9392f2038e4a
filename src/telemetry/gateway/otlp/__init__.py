"""OTLP requests as recording calls: spans of OpenTelemetry become spans, its metrics become instruments.

Pure translation of bodies that have arrived. The packages of the extra `otlp` are imported at the first request.
"""

from telemetry.gateway.otlp.messages import Accepted, BadBody, check_library
from telemetry.gateway.otlp.metrics import MetricState, take_metrics
from telemetry.gateway.otlp.traces import take_traces

__all__ = ["Accepted", "BadBody", "MetricState", "check_library", "take_metrics", "take_traces"]
