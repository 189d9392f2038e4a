"""The only importer of zmq: the aggregator's hub, a producer's link, control clients, subscriptions."""

from telemetry.transport.client import ControlClient, hello
from telemetry.transport.endpoints import Endpoints, plan, runtime_directory
from telemetry.transport.hub import Hub, Wakeup
from telemetry.transport.producer import ProducerLink
from telemetry.transport.subscription import Subscription, subscribe

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
