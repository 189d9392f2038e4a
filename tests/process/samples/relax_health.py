"""The debug mode of Relax's client: verbose logging, and the health of the service."""

import logging

logging.basicConfig(level=logging.DEBUG)

from telemetry.compat.relax import get_serve_url  # noqa: E402
from telemetry.compat.relax.client import MetricsClient  # noqa: E402

service_url = get_serve_url(route_prefix="/metrics")
client = MetricsClient(service_url)

health = client.health_check()
print(f"Service health: {health}")
