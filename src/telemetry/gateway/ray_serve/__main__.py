"""`python -m telemetry.gateway.ray_serve`: deploy the metrics service on Ray Serve, show its use, or stop it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from importlib.util import find_spec
from typing import Final

from telemetry.client import Run, start
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.errors import TelemetryError
from telemetry.gateway.options import URL_VARIABLE
from telemetry.gateway.ray_serve import cluster, demo, deployment

_RUN: Final = "metrics-service"
_LOOK_S: Final = 1.0


def main(arguments: list[str] | None = None) -> int:
    """Run the program. Return its exit code."""
    args = _parser().parse_args(arguments)
    try:
        return 0 if _done(args) else 1
    except TelemetryError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m telemetry.gateway.ray_serve",
        description="Deploy the metrics service on Ray Serve and log a few steps to it. Without a run in "
        f"{ENDPOINT_VARIABLE} and without a Ray cluster, this starts both, and they end with it.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--deploy-only",
        action="store_true",
        help="only deploy. If the run or Ray ends with this process, it waits for Ctrl-C or --stop",
    )
    what.add_argument("--demo-only", action="store_true", help="log to a service that is deployed already")
    what.add_argument("--api-demo", action="store_true", help="the same with plain HTTP requests")
    what.add_argument("--stop", action="store_true", help="delete the service from Ray Serve")
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="number of replicas (default: 1)")
    parser.add_argument(
        "--to",
        action="append",
        metavar="NAME[:key=value,…]",
        help="backend of a run that is started here, as in `telemetry run --to`; repeatable (default for the "
        "demonstration: tensorboard, if it is installed)",
    )
    parser.add_argument("--name", default=deployment.APPLICATION, help="name of the application (default: metrics)")
    parser.add_argument(
        "--route-prefix", default=deployment.ROUTE_PREFIX, metavar="PATH", help="its route (default: /metrics)"
    )
    parser.add_argument("--url", default="", help="URL of the service for --demo-only and --api-demo")
    return parser


def _done(args: argparse.Namespace) -> bool:
    if args.stop:
        return _stop(args)
    if args.demo_only:
        return demo.use_client(_known_url(args), _say)
    if args.api_demo:
        return demo.use_http(_known_url(args), _say)
    return _deploy(args)


def _stop(args: argparse.Namespace) -> bool:
    cluster.connect()
    deleted = deployment.delete(args.name)
    _say(f"{args.name} is deleted" if deleted else f"Ray Serve has no application {args.name}")
    return deleted


def _known_url(args: argparse.Namespace) -> str:
    """Return the URL of a service that is deployed already. Raise EndpointError if it is not found."""
    if args.url:
        return str(args.url).rstrip("/")
    if gateway := os.environ.get(URL_VARIABLE, ""):
        return f"{gateway.rstrip('/')}{args.route_prefix}"
    cluster.connect()
    return deployment.url(args.route_prefix)


def _deploy(args: argparse.Namespace) -> bool:
    cluster.ray_and_serve()
    run = None if os.environ.get(ENDPOINT_VARIABLE) else start(_RUN, to=_backends(args))
    deployed = False
    try:
        url = deployment.deploy(replicas=args.replicas, route_prefix=args.route_prefix, name=args.name)
        deployed = True
        _say(f"the metrics service is at {url}")
        stays = run is None and not cluster.is_local()
        if not args.deploy_only:
            done = demo.use_client(url, _say)
            _say_how_to_use()
        else:
            done = True
            if not stays:
                _wait(args.name)
        if stays:
            _say("it stays on Ray Serve; --stop deletes it")
    finally:
        if run is not None or cluster.is_local():
            if deployed:
                deployment.delete(args.name)
            _finish(run)
    return done


def _backends(args: argparse.Namespace) -> list[str] | None:
    if args.to or args.deploy_only:
        return list(args.to) if args.to else None
    return ["tensorboard"] if find_spec("tensorboard") else []


def _wait(name: str) -> None:
    """Wait for a signal, the end of the run, or the deletion of the application."""
    _say("press Ctrl-C to end it")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: ended.set())
    _, serve = cluster.ray_and_serve()
    while not ended.wait(_LOOK_S):
        if PROCESS.state == "finished" or name not in serve.status().applications:
            return


def _finish(run: Run | None) -> None:
    if run is not None:
        report = run.finish()
        _say(f"the run is {report.completeness}; its result is in {run.directory}")


def _say_how_to_use() -> None:
    _say("")
    _say("in a program:")
    _say("    from telemetry.compat.relax import MetricsClient, get_serve_url")
    _say("    client = MetricsClient(get_serve_url('/metrics'))")
    _say("    client.log_metric(step, 'train/loss', loss)")
    _say("    client.report_step(step)")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
