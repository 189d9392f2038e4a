"""Ports for servers that a test starts: none is given out twice, to whichever process of this machine asks."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import Final

FIRST: Final = 15_000
LAST: Final = 31_999
"""Ports below those that the system gives to outgoing connections, or to a socket bound to port 0."""
_NEWEST: Final = Path(tempfile.gettempdir()) / f"telemetry-test-ports-{os.getuid()}"


def free_port(count: int = 1) -> int:
    """Return a port that nobody listens on. It comes back only after all the other ones.

    `count`: so many ports in a row are free, from this one on, and all are given out.
    """
    with open(os.open(_NEWEST, os.O_RDWR | os.O_CREAT, 0o600), "r+") as newest:
        fcntl.flock(newest, fcntl.LOCK_EX)
        port = int(newest.read() or FIRST - 1)
        while True:
            port = port + 1 if FIRST <= port <= LAST - count else FIRST
            if all(_is_free(other) for other in range(port, port + count)):
                break
        newest.seek(0)
        newest.truncate()
        newest.write(str(port + count - 1))
        return port


def _is_free(port: int) -> bool:
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True
