"""`telemetry gateway`: metrics of one run over HTTP."""

from __future__ import annotations

import argparse
import os
import socket
from types import ModuleType
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.cli.exit_codes import Exit
from telemetry.distribution import install_hint
from telemetry.errors import UsageError

if TYPE_CHECKING:
    from telemetry.gateway.options import GatewayOptions

LISTEN = "127.0.0.1:8000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="[HOST:]PORT",
        help=f"address to listen on (default: {LISTEN}); port 0 is any free port. An address that other "
        "machines reach needs a token in TELEMETRY_GATEWAY_TOKEN",
    )
    parser.add_argument(
        "--host-name",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="additional host name that clients may use in URLs; repeatable; `*` allows any. IP addresses, "
        "localhost and the name of this machine are always allowed",
    )
    parser.add_argument(
        "--deliver-within",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="longest wait of report_step for backends (default: 2); after it the answer is 202",
    )
    parser.add_argument("--listen-fd", type=int, default=None, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    server = import_server()
    host, port = parse_listen(args.listen)
    token = token_of(host)
    endpoint = find_run.require_live(find_run.find(args))
    if not 0 <= args.deliver_within <= 600:
        raise UsageError(f"--deliver-within {args.deliver_within:g} is out of range: give 0 to 600 seconds")
    inherited = args.listen_fd is not None
    listener = socket.socket(fileno=args.listen_fd) if inherited else server.listen(host, port)
    url = server.url_of(host, listener)
    options = _options(args, endpoint, host, listener.getsockname()[1], token)

    def ready() -> None:
        if not inherited:
            console.say(f"gateway of {args.target} at {url}; its API: {url}/openapi.json")

    server.serve(options, listener, ready)
    return Exit.OK


def import_server() -> ModuleType:
    """Return the module that serves. Raises UsageError if the packages of the extra are missing."""
    try:
        from telemetry.gateway import server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("telemetry"):
            raise
        raise UsageError(
            f"the gateway needs {error.name}, which is not installed", hint=install_hint("gateway")
        ) from error
    return server


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`. Raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or LISTEN.partition(":")[0]
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            f"{text!r} is not an address to listen on", hint=f"write PORT or HOST:PORT, such as {LISTEN}"
        )
    return host, int(port)


def token_of(host: str) -> str:
    """Return the token of the environment. Raises UsageError if `host` needs a better one."""
    from telemetry.gateway.access import check_token
    from telemetry.gateway.options import TOKEN_VARIABLE

    token = os.environ.get(TOKEN_VARIABLE, "")
    check_token(host, token)
    return token


def _options(args: argparse.Namespace, endpoint: str, host: str, port: int, token: str) -> GatewayOptions:
    from telemetry.gateway.options import GatewayOptions

    return GatewayOptions(
        endpoint=endpoint,
        token=token,
        names=tuple(args.names),
        host=host,
        port=port,
        deliver_within_s=args.deliver_within,
        runs_dir=str(find_run.root_directory(args.dir)),
    )
