"""The cockpit in browsers on this machine: a server in a process group of its own, which ends with this process.

Each open page is a viewer process of that group. Left alone they would live on, so the whole group is killed.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import FrameType
from typing import Final, NoReturn

from telemetry.cli import console
from telemetry.cli.exit_codes import Exit
from telemetry.distribution import install_hint
from telemetry.errors import EndpointError, TelemetryError

HOST: Final = "127.0.0.1"
PORT: Final = 8765
"""The same each time, so that `ssh -L` and a bookmark go on working."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(command: Sequence[str], port: int | None, title: str) -> int:
    """Serves `command`, a viewer, to every browser that knows the address, which is said on stderr.

    Main thread only. Blocks until SIGINT, SIGTERM or SIGHUP; afterwards no process of it is left. Raises
    EndpointError if the port is taken, TelemetryError without textual-serve or if the server ended by itself.
    """
    if find_spec("textual_serve") is None:
        raise TelemetryError("the cockpit in a browser needs textual-serve", hint=install_hint("web"))
    with _listener(port) as listener:
        token = secrets.token_urlsafe(16)
        with suppress(_Left), _leaving(), _start(listener, shlex.join(command), title, token) as server:
            try:
                console.say(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
                console.say("for browsers on this machine; Ctrl-C ends it")
                server.wait()
            finally:
                with suppress(ProcessLookupError, PermissionError):  # nobody is left in it; macOS says it so
                    os.killpg(server.pid, signal.SIGKILL)
            raise TelemetryError(f"the server ended by itself, with code {server.returncode}")
    return Exit.OK


class _Left(Exception):
    """A signal came."""


def _listener(port: int | None) -> socket.socket:
    """A socket on loopback that listens already. Raises EndpointError."""
    try:
        return _bound(PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return _bound(0)
        raise EndpointError(f"port {port or PORT}: {error.strerror}", hint="choose another --port") from error


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _start(listener: socket.socket, command: str, title: str, token: str) -> subprocess.Popen[bytes]:
    """The server lives as long as its stdin, also if this process is killed."""
    server = subprocess.Popen(
        [sys.executable, "-m", "telemetry.cli.browser.server"],
        stdin=subprocess.PIPE,
        stdout=2,
        pass_fds=[listener.fileno()],
        start_new_session=True,
        bufsize=0,
    )
    assert server.stdin is not None
    order = {"fd": listener.fileno(), "command": f"exec {command}", "title": title, "token": token}
    with suppress(BrokenPipeError):  # it has ended already; waiting for it says so
        server.stdin.write(json.dumps(order).encode() + b"\n")
    return server


@contextmanager
def _leaving() -> Iterator[None]:
    """Inside, signals that end a process raise _Left."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in _ENDING:  # a second Ctrl-C must not cut the killing short
            signal.signal(number, signal.SIG_IGN)
        raise _Left

    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]  # `nohup`
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
