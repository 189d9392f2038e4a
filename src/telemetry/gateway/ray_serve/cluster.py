"""The Ray cluster of this process: how it is joined, and what a run must allow for there."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from telemetry.common.distribution import install_hint
from telemetry.errors import EndpointError, UsageError
from telemetry.transport.endpoints import is_loopback, is_tcp

DEPLOYMENT: Final = "MetricsService"
"""Name of the deployment, in whatever application."""
_ADDRESS_VARIABLE: Final = "RAY_ADDRESS"
_hooked: Final[list[bool]] = []


def ray_and_serve() -> tuple[Any, Any]:
    """Return the modules `ray` and `ray.serve`. Raise UsageError if a package of the extra is missing."""
    try:
        return import_module("ray"), import_module("ray.serve")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Ray Serve needs {error.name}, which is not installed", hint=install_hint("ray")
        ) from error


def join() -> None:
    """Join the Ray cluster of this machine or of RAY_ADDRESS, or start a local one."""
    ray, _ = ray_and_serve()
    if not ray.is_initialized():
        ray.init()
    _hook_exit()


def connect() -> None:
    """Join a Ray cluster that runs already. Raise EndpointError if there is none."""
    ray, _ = ray_and_serve()
    if ray.is_initialized():
        return
    address = os.environ.get(_ADDRESS_VARIABLE) or "auto"
    try:
        ray.init(address=address, log_to_driver=False, logging_level="WARNING")
    except ConnectionError as error:
        raise EndpointError(
            "no Ray cluster answers on this machine", hint=f"start it, or set {_ADDRESS_VARIABLE}"
        ) from error


def is_local() -> bool:
    """Check whether the cluster ends with this process, which started it. Ray has no public call for this."""
    try:
        node = import_module("ray._private.worker")._global_node
        return bool(node is not None and node.is_head())
    except Exception:  # noqa: BLE001 – names that Ray may change
        return False


def check_reach(endpoint: str) -> None:
    """Raise UsageError if replicas on some node of the cluster could not reach an address."""
    ray, _ = ray_and_serve()
    others = other_hosts(ray.nodes(), ray.util.get_node_ip_address())
    if others and (not is_tcp(endpoint) or is_loopback(endpoint)):
        raise UsageError(
            f"{endpoint} reaches only this machine, but the Ray cluster also has {_listed(others)}",
            hint="start the run where all nodes reach it, with `telemetry serve --bind tcp://ADDRESS:PORT` and the "
            "keys of `telemetry keys new` on each node, and pass its address",
        )


def other_hosts(nodes: Iterable[Mapping[str, Any]], own: str) -> list[str]:
    """Return the addresses of live nodes on other machines. Several nodes may share a machine."""
    return sorted({str(node["NodeManagerAddress"]) for node in nodes if node["Alive"]} - {own})


def _listed(hosts: list[str]) -> str:
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def _hook_exit() -> None:
    if not _hooked:
        _hooked.append(True)
        atexit.register(_at_exit)


def _at_exit() -> None:
    """Delete the applications of a local cluster, which ends with this process.

    Ray kills replicas when it stops, so they could not tell the run that they have sent everything. Exit functions
    run last in, first out, so this one runs before Ray's own.
    """
    try:
        ray, serve = ray_and_serve()
        if ray.is_initialized() and is_local():
            for name, application in serve.status().applications.items():
                if DEPLOYMENT in application.deployments:
                    serve.delete(name)
    except Exception:  # noqa: BLE001 – the cluster may be gone already, which is no error of the program
        return
