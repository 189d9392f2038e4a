"""ZeroMQ transport: the aggregator's hub, a producer's link, control clients, subscriptions.

Only this package imports zmq. The names below load on first use, so that reading a run from disk doesn't load
sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.common.lazy import lazy_names

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


__getattr__ = lazy_names(__name__, _HOME)
