"""The content of a replica: the application of the gateway, and the class that Ray Serve makes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telemetry.compat.relax.native import WANDB
from telemetry.errors import EndpointError
from telemetry.gateway.options import GatewayOptions
from telemetry.transport.endpoints import refuses

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from telemetry.gateway.gateway import Gateway


class ReplicaApp:
    """An ASGI application that builds the gateway at its first call.

    It holds only options, so Ray can send it to a replica, where it joins the run.
    """

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self.gateway: Gateway | None = None
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            from telemetry.gateway.app import create_app
            from telemetry.gateway.gateway import Gateway

            self.gateway = Gateway(self.options)
            self._app = create_app(self.gateway)
        await self._app(_with_page(scope), receive, send)


def _with_page(scope: Scope) -> Scope:
    """Send requests for the route itself, as in `GET /metrics`, to the page for Prometheus."""
    if scope["type"] != "http":
        return scope
    prefix = str(scope.get("root_path", "")).rstrip("/")
    if scope["path"].rstrip("/") not in ("", prefix):
        return scope
    from telemetry.gateway.routes.prometheus import PATH

    return {**scope, "path": prefix + PATH}


class Replica:
    """A replica. Ray Serve adds `app`, and runs the lifespan of the application: it joins the run and leaves it."""

    app: ReplicaApp

    def __init__(self, endpoint: str) -> None:
        """Raise EndpointError if this node can see that the run is not there. Ray Serve reports it, and retries."""
        if refuses(endpoint):
            raise EndpointError(
                f"no aggregator listens at {endpoint} on this node",
                hint="the run may be over; an ipc address reaches only replicas on the machine of the run",
            )

    def get_service_metrics(self) -> dict[str, Any]:
        """Return the backends of the run and its number of open steps, for callers of the deployment's handle."""
        gateway = self.app.gateway
        snapshot = None if gateway is None else gateway.run.snapshots.newest
        stats = [] if snapshot is None else snapshot.backends
        return {
            "adapters": [stat.kind or stat.name for stat in stats if stat.kind != WANDB],
            "use_wandb": any(stat.kind == WANDB for stat in stats),
            "buffered_steps": 0 if snapshot is None else sum(axis.open for axis in snapshot.axes),
        }
