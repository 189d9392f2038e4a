"""ZeroMQ transport: the aggregator's hub, a producer's link, control clients, subscriptions.

Only this package imports zmq. The names below load on first use, so that reading a run from disk doesn't load
sockets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.transport.client import ControlClient, hello
    from telemetry.transport.endpoints import Endpoints, plan, runtime_directory
    from telemetry.transport.hub import Hub, Wakeup
    from telemetry.transport.producer import ProducerLink
    from telemetry.transport.subscription import Subscription, subscribe

_HOME = {
    "ControlClient": "telemetry.transport.client",
    "Endpoints": "telemetry.transport.endpoints",
    "Hub": "telemetry.transport.hub",
    "ProducerLink": "telemetry.transport.producer",
    "Subscription": "telemetry.transport.subscription",
    "Wakeup": "telemetry.transport.hub",
    "hello": "telemetry.transport.client",
    "plan": "telemetry.transport.endpoints",
    "runtime_directory": "telemetry.transport.endpoints",
    "subscribe": "telemetry.transport.subscription",
}

__all__ = [
    "ControlClient",
    "Endpoints",
    "Hub",
    "ProducerLink",
    "Subscription",
    "Wakeup",
    "hello",
    "plan",
    "runtime_directory",
    "subscribe",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'telemetry.transport' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
