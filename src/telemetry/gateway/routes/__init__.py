"""The endpoints of the gateway, by topic."""

from __future__ import annotations

from telemetry.gateway.endpoint import Endpoint
from telemetry.gateway.routes import events, history, otlp, prometheus, reading, relax

ENDPOINTS: tuple[Endpoint, ...] = (
    *relax.ENDPOINTS,
    *events.ENDPOINTS,
    *otlp.ENDPOINTS,
    *reading.ENDPOINTS,
    *history.ENDPOINTS,
    *prometheus.ENDPOINTS,
)
