"""The gateway beside a run: a `telemetry gateway` process that is restarted if it is killed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from telemetry import limits
from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.cli.commands import gateway
from telemetry.errors import UsageError
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import environment, telemetry_command
from telemetry.wire.exit_codes import Exit

_LAST_WORDS_S: Final = 10.0  # for open requests, and the producer's goodbye
_GRPC_S: Final = 10.0  # for the start of the gateway
_GRPC_LOOK_S: Final = 0.05
_LOOK_S: Final = 60.0
_POLICY: Final = ChildPolicy(
    "gateway",
    restart_codes=frozenset({Exit.ERROR}),
    told_codes=frozenset({Exit.USAGE}),
    pause_s=limits.RESTART_PAUSE_S,
    lasts_s=limits.RESTART_LASTS_S,
    holds_term=True,
)


class RunGateway(Participant):
    """The gateway of a run, or none. A context manager that leaves no process behind.

    This process holds the listening socket, so that clients of a restarted gateway wait and are not refused. Once
    no gateway will follow, it closes the socket, so that they don't wait forever.
    """

    def __init__(self, listen: str | None, grpc: str | None, say: Callable[[str], object]) -> None:
        """Listen. Raises UsageError for an invalid address, one that is in use, and one that needs a token.

        `grpc` is the address for OTLP over gRPC. It is kept until the end, for a restarted gateway.
        """
        if grpc is not None and listen is None:
            raise UsageError("--gateway-grpc requires a gateway", hint="add --gateway 8000")
        self._say = say
        self._listen = listen
        self._child: Child | None = None
        self._listener: socket.socket | None = None
        self._grpc: gateway.GrpcAddress | None = None
        self.url = ""
        if listen is not None:
            server = gateway.import_server()
            host, port = gateway.parse_listen(listen)
            gateway.token_of(host)
            self._listener = server.listen(host, port)
            self.url = server.url_of(host, self._listener.getsockname()[1])
            if grpc is not None:
                self._grpc = gateway.GrpcAddress(grpc)

    @property
    def pids(self) -> list[int]:
        return [self._child.pid] if self._child is not None else []

    @property
    def failed(self) -> bool:
        """True if the gateway failed. Valid once it has ended."""
        return self._child is not None and self._child.code != 0

    def begin(self, run: BegunRun) -> dict[str, str]:
        """Start the gateway, and wait until it takes gRPC. Return variables with its addresses. Raises OSError."""
        if self._listener is None:
            return {}
        from telemetry.gateway.options import GRPC_URL_VARIABLE, URL_VARIABLE

        self._start(run.endpoint, self._listener)
        urls = {URL_VARIABLE: self.url}
        return urls if self._grpc is None else {**urls, GRPC_URL_VARIABLE: self._grpc.url}

    def _start(self, endpoint: str, listener: socket.socket) -> None:
        fd = listener.fileno()
        host, _, _ = (self._listen or "").rpartition(":")
        port = listener.getsockname()[1]
        listen = f"{host}:{port}" if host else str(port)
        command = [*telemetry_command(), "gateway", endpoint, "--listen", listen, "--listen-fd", str(fd)]
        if self._grpc is not None:
            command += ["--grpc", self._grpc.place]
        self._child = Child("gateway", command, _POLICY, self._say, environment=environment({}), pass_fds=(fd,))
        threading.Thread(
            target=_close_after, args=(self._child, listener), name="telemetry-listener", daemon=True
        ).start()
        # over HTTP clients wait for the socket of this process; a client of gRPC would be refused
        deadline_s = time.monotonic() + _GRPC_S
        while self._grpc is not None and not self._grpc.answers():
            if self._child.wait(min(time.monotonic() + _GRPC_LOOK_S, deadline_s)) or time.monotonic() > deadline_s:
                return

    def end(self) -> None:
        """Answer open requests, then end the gateway. Blocks for at most about ten seconds. May be called twice."""
        if self._child is not None and not self._child.ended:
            self._child.ask_to_end()
            if not self._child.wait(time.monotonic() + _LAST_WORDS_S):
                self._child.kill()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._grpc is not None:
            self._grpc.close()


def _close_after(child: Child, listener: socket.socket) -> None:
    """Close a socket once its child has ended for good."""
    while not child.wait(time.monotonic() + _LOOK_S):
        pass
    listener.close()
