"""The cockpit in browsers on this machine: a server in its own process group, which ends with this process.

Each open page is a viewer process in that group. Viewers would survive the server, so the whole group is killed.
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
from telemetry.common.distribution import install_hint
from telemetry.errors import EndpointError, TelemetryError
from telemetry.wire.exit_codes import Exit

HOST: Final = "127.0.0.1"
PORT: Final = 8765
"""A fixed port, so that `ssh -L` and bookmarks keep working."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(command: Sequence[str], port: int | None, title: str) -> int:
    """Serve a viewer, `command`, to every browser that knows the address. The address is printed on stderr.

    Main thread only. Blocks until SIGINT, SIGTERM or SIGHUP, and leaves no process behind. Raises EndpointError if
    the port is taken. Raises TelemetryError without textual-serve, or if the server ended by itself.
    """
    if find_spec("textual_serve") is None:
        raise TelemetryError("serving the cockpit to a browser requires textual-serve", hint=install_hint("web"))
    with _listener(port) as listener:
        token = secrets.token_urlsafe(16)
        with suppress(_Left), _leaving(), _start(listener, shlex.join(command), title, token) as server:
            try:
                console.say(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
                console.say("open it in a browser on this machine; Ctrl-C stops it")
                server.wait()
            finally:
                with suppress(ProcessLookupError, PermissionError):  # empty group; PermissionError on macOS
                    os.killpg(server.pid, signal.SIGKILL)
            raise TelemetryError(f"the web server exited with code {server.returncode}")
    return Exit.OK


class _Left(Exception):
    """The exit after a signal."""


def _listener(port: int | None) -> socket.socket:
    """Return a listening socket on loopback. Raises EndpointError."""
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
    """Start the server. It lives until its stdin closes, which also happens if this process is killed."""
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "telemetry.cli.browser.server"],
        stdin=subprocess.PIPE,
        stdout=2,
        pass_fds=[listener.fileno()],
        start_new_session=True,
        bufsize=0,
    )
    assert server.stdin is not None
    order = {"fd": listener.fileno(), "command": f"exec {command}", "title": title, "token": token}
    with suppress(BrokenPipeError):  # the server has ended already; waiting for it reports that
        server.stdin.write(json.dumps(order).encode() + b"\n")
    return server


@contextmanager
def _leaving() -> Iterator[None]:
    """Make signals that end a process raise _Left inside the block."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in _ENDING:  # a second Ctrl-C must not interrupt the cleanup
            signal.signal(number, signal.SIG_IGN)
        raise _Left

    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]  # `nohup`
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
