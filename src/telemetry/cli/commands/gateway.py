"""`telemetry gateway`: metrics of one run over HTTP."""

from __future__ import annotations

import argparse
import os
import socket
from types import ModuleType
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.common.distribution import install_hint
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit

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
    parser.add_argument(
        "--grpc",
        default=None,
        metavar="[HOST:]PORT",
        help="also take OTLP over gRPC at this address, such as 4317; needs the extra `otlp`",
    )
    parser.add_argument("--listen-fd", type=int, default=None, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    server = import_server()
    host, port = parse_listen(args.listen)
    token = token_of(host)
    grpc = None if args.grpc is None else GrpcAddress(args.grpc, keep=args.listen_fd is None)
    endpoint = find_run.require_live(find_run.find(args))
    if not 0 <= args.deliver_within <= 600:
        raise UsageError(f"--deliver-within {args.deliver_within:g} is out of range: give 0 to 600 seconds")
    inherited = args.listen_fd is not None
    listener = socket.socket(fileno=args.listen_fd) if inherited else server.listen(host, port)
    url = server.url_of(host, listener.getsockname()[1])
    address = "" if grpc is None else grpc.place
    options = _options(args, endpoint, host, listener.getsockname()[1], token, grpc=address)

    def ready() -> None:
        if not inherited:
            console.say(f"gateway of {args.target} at {url}; its API: {url}/openapi.json")
            if grpc is not None:
                console.say(f"it takes OTLP over gRPC at {grpc.url}")

    server.serve(options, listener, ready)
    if grpc is not None:
        grpc.close()
    return Exit.OK


class GrpcAddress:
    """The address at which a gateway takes OTLP over gRPC."""

    def __init__(self, text: str, *, keep: bool = True) -> None:
        """Check `[HOST:]PORT`. `keep` it from other processes, unless the process that started this one does.

        Raises UsageError, also if grpcio or a token is missing.
        """
        from telemetry.gateway.otlp import grpc

        grpc.check_grpc()
        host, port = parse_listen(text)
        token_of(host)
        self._keeper = grpc.reserve(host, port) if keep else None
        if self._keeper is not None:
            port = self._keeper.getsockname()[1]
        self._address = ("127.0.0.1" if host in ("0.0.0.0", "::") else host, port)
        self.place = grpc.place_of(host, port)
        self.url = import_server().url_of(host, port)

    def answers(self) -> bool:
        """Return True if a server listens at the address."""
        try:
            with socket.create_connection(self._address, timeout=1.0):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """Give the address back. May be called twice."""
        if self._keeper is not None:
            self._keeper.close()


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


def _options(
    args: argparse.Namespace, endpoint: str, host: str, port: int, token: str, *, grpc: str
) -> GatewayOptions:
    from telemetry.gateway.options import GatewayOptions
    from telemetry.supervise.parent import parent_pid

    return GatewayOptions(
        endpoint=endpoint,
        token=token,
        names=tuple(args.names),
        host=host,
        port=port,
        grpc=grpc,
        deliver_within_s=args.deliver_within,
        runs_dir=str(find_run.root_directory(args.dir)),
        parent=0 if args.listen_fd is None else parent_pid(),
    )
