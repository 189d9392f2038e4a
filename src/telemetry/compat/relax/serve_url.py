"""The address of the metrics service: a gateway, or an application of Ray Serve."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Final

GATEWAY_VARIABLE: Final = "TELEMETRY_GATEWAY_URL"
_DEFAULT: Final = "http://localhost:8000"
_ANY_HOST: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def get_serve_url(route_prefix: str = "/metrics") -> str:
    """Return the URL of a route of the service.

    It is the one of TELEMETRY_GATEWAY_URL, else of Ray Serve if it runs, else Ray Serve's default on this host.
    """
    return find_serve_url(route_prefix) or _joined(_DEFAULT, route_prefix)


def find_serve_url(route_prefix: str = "/metrics") -> str | None:
    """Return the URL of a route of a service that is known to be there, or None."""
    gateway = os.environ.get(GATEWAY_VARIABLE, "").rstrip("/")
    if gateway:
        return _joined(gateway, route_prefix)
    return find_ray_serve_url(route_prefix)


def find_ray_serve_url(route_prefix: str = "/metrics") -> str | None:
    """Return the URL of a route of Ray Serve, or None if no healthy proxy has an application there."""
    address = _ray_serve_address(route_prefix)
    return address and _joined(address, route_prefix)


def ray_serve_host() -> str:
    """Return the host that the proxies of Ray Serve listen on; empty if it does not run or can't be asked."""
    try:
        client = _ray_serve_client()
        return "" if client is None else str(client.http_config.host or "")
    except Exception:  # noqa: BLE001 – as below
        return ""


def _joined(address: str, route_prefix: str) -> str:
    prefix = "/" + route_prefix.strip("/")
    return address if prefix == "/" or address.endswith(prefix) else address + prefix


def _ray_serve_address(route_prefix: str) -> str | None:
    """Return the address of a healthy proxy of Ray Serve that has an application at the route, or None.

    Ray has no public call for the address, so this asks its controller the way that `serve status` does. It starts
    nothing: a process that has not joined a Ray cluster has no address.
    """
    try:
        client = _ray_serve_client()
        if client is None:
            return None
        return _proxy_address(_with_defaults(client.get_serve_details(), client), route_prefix)
    except Exception:  # noqa: BLE001 – names that Ray may change, and a cluster that may be going away
        return None


def _ray_serve_client() -> Any:
    """Return the client of Ray Serve; None if Serve does not run, or this process has not joined Ray."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return import_module("ray.serve.context")._get_global_client(raise_if_no_controller_running=False)


def _with_defaults(details: dict[str, Any], client: Any) -> dict[str, Any]:
    """Add Ray's defaults to the HTTP options. The details have only those that somebody set."""
    config = getattr(client, "http_config", None)
    options = {name: getattr(config, name, None) for name in ("host", "port", "root_path")}
    given = details.get("http_options") or {}
    options |= {name: value for name, value in given.items() if value is not None}
    return details | {"http_options": options}


def _proxy_address(details: dict[str, Any], route_prefix: str) -> str | None:
    """Return the address of a proxy, out of the details of an instance of Ray Serve."""
    applications = (details.get("applications") or {}).values()
    wanted = route_prefix.rstrip("/")
    if not any(_prefix(application) == wanted for application in applications):
        return None
    options = details.get("http_options") or {}
    healthy = [
        proxy for proxy in (details.get("proxies") or {}).values() if _word(proxy.get("status")) == "HEALTHY"
    ]
    here = [proxy for proxy in healthy if proxy.get("node_ip") in _own_addresses()]
    if not healthy:
        return None
    host = str(options.get("host") or "")
    if not host or host in _ANY_HOST:
        host = str((here or healthy)[0].get("node_ip") or _ANY_HOST.get(host, "127.0.0.1"))
    root = str(options.get("root_path") or "").rstrip("/")
    return f"http://{f'[{host}]' if ':' in host else host}:{options.get('port') or 8000}{root}"


def _own_addresses() -> set[str]:
    return {str(sys.modules["ray"].util.get_node_ip_address())}


def _prefix(application: dict[str, Any]) -> str:
    return str(application.get("route_prefix") or "").rstrip("/")


def _word(status: Any) -> str:
    return str(getattr(status, "value", status))
