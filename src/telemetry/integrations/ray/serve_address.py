"""The address of Ray Serve, whose applications the gateway and clients of other systems use."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from telemetry.integrations.ray.names import is_on_ray

_ANY_HOST: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def find_serve_url(route_prefix: str) -> str | None:
    """Return the URL of a route of Ray Serve, or None if no healthy proxy has an application there.

    Ray has no public call for the address, so this asks its controller the way that `serve status` does. It starts
    nothing: a process that has not joined a Ray cluster has no address.
    """
    try:
        address = _proxy_address(_client(), route_prefix.rstrip("/"))
    except Exception:  # noqa: BLE001 – names that Ray may change, and a cluster that may be going away
        return None
    return address and with_route(address, route_prefix)


def serve_host() -> str:
    """Return the host that the proxies of Ray Serve listen on; empty if it does not run or can't be asked."""
    try:
        return str(_client().http_config.host or "")
    except Exception:  # noqa: BLE001 – as above
        return ""


def with_route(address: str, route_prefix: str) -> str:
    """Return the URL of a route of an address, which may have the route already."""
    prefix = "/" + route_prefix.strip("/")
    return address if prefix == "/" or address.endswith(prefix) else address + prefix


def _client() -> Any:
    """Return the client of Ray Serve; None if Serve does not run, or this process has not joined Ray."""
    if not is_on_ray():
        return None
    return import_module("ray.serve.context")._get_global_client(raise_if_no_controller_running=False)


def _proxy_address(client: Any, prefix: str) -> str | None:
    """Return the address of a healthy proxy if there is an application at the prefix. Raise if there is no Ray."""
    details = client.get_serve_details()
    prefixes = {str(each.get("route_prefix") or "").rstrip("/") for each in details["applications"].values()}
    proxies = [(each.get("node_ip"), each.get("status")) for each in details["proxies"].values()]
    nodes = [node for node, status in proxies if str(getattr(status, "value", status)) == "HEALTHY"]
    if prefix not in prefixes or not nodes:
        return None
    # the details have only the options that somebody set; the client has the defaults
    given, defaults = details.get("http_options") or {}, getattr(client, "http_config", None)
    host, port, root = (given.get(name) or getattr(defaults, name, None) for name in ("host", "port", "root_path"))
    if (host := str(host or "")) in _ANY_HOST:
        here = sys.modules["ray"].util.get_node_ip_address()
        host = str((here if here in nodes else nodes[0]) or _ANY_HOST[host])
    return f"http://{f'[{host}]' if ':' in host else host}:{port or 8000}{str(root or '').rstrip('/')}"
