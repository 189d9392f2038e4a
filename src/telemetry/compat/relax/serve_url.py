"""The address of the metrics service: a gateway, or an application of Ray Serve."""

from __future__ import annotations

import os
from typing import Final

from telemetry.integrations.ray.serve_address import find_serve_url as find_ray_serve_url
from telemetry.integrations.ray.serve_address import with_route

GATEWAY_VARIABLE: Final = "TELEMETRY_GATEWAY_URL"
_DEFAULT: Final = "http://localhost:8000"


def get_serve_url(route_prefix: str = "/metrics") -> str:
    """Return the URL of a route of the service.

    It is the one of TELEMETRY_GATEWAY_URL, else of Ray Serve if it runs, else Ray Serve's default on this host.
    """
    return find_serve_url(route_prefix) or with_route(_DEFAULT, route_prefix)


def find_serve_url(route_prefix: str = "/metrics") -> str | None:
    """Return the URL of a route of a service that is known to be there, or None."""
    gateway = os.environ.get(GATEWAY_VARIABLE, "").rstrip("/")
    return with_route(gateway, route_prefix) if gateway else find_ray_serve_url(route_prefix)
