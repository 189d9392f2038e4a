"""The deployment of the gateway on Ray Serve: how it is made, found and deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.run import start
from telemetry.compat.relax.native import names_of
from telemetry.compat.relax.tracking_utils import init_tracking
from telemetry.errors import EndpointError, UsageError
from telemetry.gateway.access import check_token
from telemetry.gateway.options import TOKEN_VARIABLE, GatewayOptions
from telemetry.gateway.ray_serve import cluster
from telemetry.integrations.ray.serve_address import find_serve_url, serve_host
from telemetry.transport.endpoints import refuses

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from telemetry.gateway.gateway import Gateway

APPLICATION: Final = "metrics"
ROUTE_PREFIX: Final = "/metrics"
ONGOING_VARIABLE: Final = "METRICS_SERVE_MAX_ONGOING_REQUESTS"
_ONGOING: Final = 200
_LOOK_S: Final = 2.0  # how often Ray looks for dead replicas, and thus how soon one is replaced
_LAST_REQUESTS_S: Final = 0.5  # pause before a replica that is to end looks whether it still has requests
_LEAVING_S: Final = 30.0  # for a replica's last events


def deploy(
    endpoint: str = "",
    *,
    replicas: int = 1,
    route_prefix: str = ROUTE_PREFIX,
    max_ongoing_requests: int | None = None,
    name: str = APPLICATION,
    token: str = "",
    to: Sequence[str] | None = None,
) -> str:
    """Deploy the gateway of a run on Ray Serve and return its URL.

    Example:
        url = ray_serve.deploy(replicas=2, to=["tensorboard"])

    `endpoint` is the control address of the run, by default TELEMETRY_ENDPOINT. Without a run, this process starts
    one that delivers to the backends `to`. A second call replaces the application. `max_ongoing_requests` is the
    limit of each replica, by default METRICS_SERVE_MAX_ONGOING_REQUESTS or 200. `token` is by default
    TELEMETRY_GATEWAY_TOKEN.

    Joins the Ray cluster, or starts a local one. Raises UsageError for an option that can't work, and EndpointError
    if the run or Ray Serve does not answer.
    """
    if replicas < 1:
        raise UsageError(f"replicas is {replicas}: give 1 or more")
    _, serve = cluster.ray_and_serve()
    address = _address_of_run(endpoint)
    if address and to:
        user_warnings.warn(
            "the run is open already, so `to` has no effect; backends are chosen where a run is started"
        )
    elif not address:
        address = start(name, to=to).endpoint
    cluster.join()
    serve.start()
    application = _application(address, token, replicas=replicas, max_ongoing_requests=max_ongoing_requests)
    try:
        serve.run(application, name=name, route_prefix=route_prefix)
    except RuntimeError as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise EndpointError(
            f"Ray Serve could not start the gateway: {reason[-1].strip()}",
            hint="`serve status` and the logs of the replicas tell more",
        ) from error
    return url(route_prefix)


def url(route_prefix: str = ROUTE_PREFIX) -> str:
    """Return the URL of the gateway on Ray Serve: a healthy proxy, on this node if there is one.

    Raises EndpointError if no healthy proxy has an application at the route.
    """
    base_url = find_serve_url(route_prefix)
    if base_url is None:
        raise EndpointError(
            f"Ray Serve has no application at {route_prefix}",
            hint="deploy it with telemetry.gateway.ray_serve.deploy(); this process must have joined Ray",
        )
    return base_url


def delete(name: str = APPLICATION) -> bool:
    """Delete the gateway and wait until its replicas have left the run. Return False if there is none.

    Call it before `ray.shutdown()`, which kills replicas: the run would report them as incomplete.
    """
    ray, serve = cluster.ray_and_serve()
    if not ray.is_initialized() or name not in serve.status().applications:
        return False
    serve.delete(name)
    return True


class MetricsService:
    """The gateway under the name and with the arguments of Relax's service.

    Example:
        serve.run(MetricsService.bind(config=args), name="metrics", route_prefix="/metrics")
    """

    @staticmethod
    def bind(
        healthy: Any = None,
        pg: Any = None,
        config: Any = None,
        role: str = APPLICATION,
        *,
        endpoint: str = "",
        replicas: int = 1,
        token: str = "",
    ) -> Any:
        """Return an application for `serve.run`. Without a run, start one with the backends of `config`.

        `config` is a namespace or a dictionary with options such as `use_tensorboard`. `healthy`, `pg` and `role`
        have no effect: Ray Serve looks after replicas. Raises UsageError or EndpointError as `deploy`.
        """
        cluster.ray_and_serve()
        if not endpoint:
            _open_run(config)
        address = _address_of_run(endpoint)
        if not address:
            raise EndpointError(
                "the metrics service has no run: none could be started", hint=f"set {ENDPOINT_VARIABLE}"
            )
        cluster.join()
        return _application(address, token, replicas=replicas, max_ongoing_requests=None)


def _application(address: str, token: str, *, replicas: int, max_ongoing_requests: int | None) -> Any:
    _, serve = cluster.ray_and_serve()
    cluster.check_reach(address)
    secret = token or os.environ.get(TOKEN_VARIABLE, "")
    check_token(serve_host() or "localhost", secret)
    # The proxies of Ray Serve decide which hosts clients may name.
    app = ReplicaApp(GatewayOptions(endpoint=address, token=secret, names=("*",)))
    deployment = serve.deployment(serve.ingress(app)(Replica)).options(
        name=cluster.DEPLOYMENT,
        num_replicas=replicas,
        max_ongoing_requests=_ongoing() if max_ongoing_requests is None else max_ongoing_requests,
        ray_actor_options={"num_cpus": 0},  # a job may have reserved all of them
        health_check_period_s=_LOOK_S,
        graceful_shutdown_wait_loop_s=_LAST_REQUESTS_S,
        graceful_shutdown_timeout_s=_LEAVING_S,
        logging_config={"enable_access_log": False},  # a line a request would cost more than the request records
    )
    return deployment.bind(address)


def _ongoing() -> int:
    text = os.environ.get(ONGOING_VARIABLE) or str(_ONGOING)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{ONGOING_VARIABLE} is {text!r}: give a number of requests, 1 or more")
    return int(text)


def _address_of_run(endpoint: str) -> str:
    """Return the address of the given run, or of this process's run; empty if there is none.

    Raises EndpointError if no aggregator listens there.
    """
    of_process = PROCESS.endpoint if PROCESS.state == "live" else ""
    address = endpoint or os.environ.get(ENDPOINT_VARIABLE, "") or of_process
    if address and refuses(address):
        raise EndpointError(f"no aggregator listens at {address}", hint="`telemetry ls --live` shows the live runs")
    return address


def _open_run(config: Any) -> None:
    """Make sure that this process has a run, as a program without the service does."""
    settings = dict(config) if isinstance(config, Mapping) else dict(vars(config)) if config is not None else {}
    settings.pop("use_metrics_service", None)  # no adapter: the program makes one where it logs
    init_tracking(SimpleNamespace(**settings))


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
        adapters, has_wandb = names_of([] if snapshot is None else snapshot.backends)
        return {
            "adapters": adapters,
            "use_wandb": has_wandb,
            "buffered_steps": 0 if snapshot is None else sum(axis.open for axis in snapshot.axes),
        }
