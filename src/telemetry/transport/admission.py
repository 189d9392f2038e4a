"""A bound on connections: ZeroMQ aborts the process when it accepts a connection and no file descriptor is left.

ZeroMQ accepts on its own thread and offers no limit. The thread in this module sees each connection and refuses new
ones before descriptors run out. Existing connections continue: the listening socket stays open and only becomes
unreachable. An ipc address is passed to a socket that closes each new connection. A tcp port drops the packets that
open a connection; the peer's kernel sends them again later.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import zmq

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport.endpoints import ipc_path, is_tcp
from telemetry.transport.sockets import ZmqSocket

_LOG: Final = logging.getLogger("telemetry.transport")
_HEARD: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_LISTENING
_EVENT: Final = struct.Struct("=Hi")
_NUMBERS: Final = count()  # ZeroMQ releases an address some time after its socket is closed
_LOOK_EVERY_MS: Final = 100  # while new connections are refused
ASIDE: Final = ".open"
"""Suffix of the name of a listening socket that is unreachable for now."""
_SOME_ROOM: Final = 16  # this fraction of the bound must be free before peers are accepted again
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_HIGHEST: Final = 65_536  # descriptors are looked at one by one; this takes 50 ms
_LEAST_ROOM: Final = 16  # for a command, its wrapper, companions and `telemetry status`
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)
"""Socket filter `ret #0`, which drops every packet."""


def open_descriptors() -> int:
    """Return how many file descriptors this process has open."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:  # /proc is not mounted
        return sum(map(_is_open, range(min(limit_of_descriptors(), _HIGHEST))))


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def limit_of_descriptors() -> int:
    """Return how many file descriptors this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit_of_descriptors() -> None:
    """Raise the limit of open files as far as this process may.

    Each peer takes one or two descriptors, and ZeroMQ aborts without free ones.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS reports an infinite limit but rejects that number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Listener:
    """A bound socket that can be made unreachable for new peers."""

    def __init__(self, zmq_socket: ZmqSocket, endpoint: str, *, last: bool = False) -> None:
        """Take a socket that is not bound yet. With `last` it is closed for new peers after all others."""
        self.last = last
        self.monitor = zmq_socket.get_monitor_socket(_HEARD, f"inproc://admission.{next(_NUMBERS)}")
        self.shut = False
        self._made = zmq_socket
        self._path = ipc_path(endpoint)
        self._tcp = is_tcp(endpoint)
        self._fd = -1
        self._stand_in: socket.socket | None = None

    def accepted(self) -> int:
        """Return how many connections were made since the last call. Never blocks."""
        number = 0
        with suppress(zmq.Again):
            while True:
                head, _ = self.monitor.recv_multipart(zmq.NOBLOCK)
                event, value = _EVENT.unpack(head)
                if event == zmq.EVENT_LISTENING:
                    self._fd = value
                else:
                    number += 1
        return number

    def refuse_peers(self) -> None:
        """Refuse new peers. Raises OSError if that fails."""
        if self._path is not None:
            self._stand_in = _stand_in_for(self._path)
        elif self._tcp:
            self._filter(_SO_ATTACH_FILTER)
        self.shut = True

    def admit_peers(self) -> None:
        """Accept new peers again. Raises OSError if that fails."""
        if self._path is not None:
            os.rename(f"{self._path}{ASIDE}", self._path)
        elif self._tcp:
            self._filter(_SO_DETACH_FILTER)
        if self._stand_in is not None:
            self._stand_in.close()
            self._stand_in = None
        self.shut = False

    def turn_away(self) -> int:
        """Close a bounded number of connections to the stand-in socket. Return how many. Never blocks."""
        number = 0
        if self._stand_in is not None:
            with suppress(OSError):  # no peer waits, or no descriptor is left
                for _ in range(limits.BACKLOG):
                    self._stand_in.accept()[0].close()
                    number += 1
        return number

    def stop_monitor(self) -> None:
        """End the events. Only the thread that owns the socket may call this."""
        self._made.disable_monitor()

    def _filter(self, option: int) -> None:
        if not sys.platform.startswith("linux") or self._fd < 0:
            return
        code = ctypes.create_string_buffer(_DROP_ALL)
        program = struct.pack("HP", 1, ctypes.addressof(code))
        listening = socket.socket(fileno=self._fd)
        try:
            listening.setsockopt(socket.SOL_SOCKET, option, program)
        finally:
            listening.detach()


def _stand_in_for(path: Path) -> socket.socket:
    """Bind the address to a socket unknown to ZeroMQ; the listening socket keeps another name."""
    stand_in = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.rename(path, f"{path}{ASIDE}")
        try:
            stand_in.setblocking(False)
            stand_in.bind(os.fspath(path))
            stand_in.listen(limits.BACKLOG)
        except OSError:
            os.rename(f"{path}{ASIDE}", path)
            raise
    except OSError:
        stand_in.close()
        raise
    return stand_in


class Admission:
    """A thread that watches new connections, from `start` to `stop`. The thread of the sockets must call both."""

    def __init__(self) -> None:
        self._limit = limit_of_descriptors()
        kept = min(limits.DESCRIPTORS_KEPT, self._limit // 2)
        self._bound = self._limit - kept
        self._last_bound = self._bound + kept // 4
        self._listeners: Sequence[Listener] = ()
        self._thread: threading.Thread | None = None
        self._wake_in, self._wake_out = -1, -1
        self._may_come = 1
        """Number of connections that can be made before descriptors must be counted again."""
        self._come = 0
        self._turned_away = 0
        self._refusing_since: float | None = None
        self._refused = False

    def start(self, listeners: Sequence[Listener]) -> None:
        """Watch these listeners, which are bound. Raises EndpointError if there is no room for peers."""
        self._listeners = listeners
        for listener in listeners:
            listener.accepted()
        in_use = open_descriptors()
        if self._last_bound - in_use < _LEAST_ROOM:
            raise EndpointError(
                f"the limit of {self._limit:,} open files is too low: the aggregator uses {in_use:,} of them, and "
                "connections need more",
                hint="raise the limit, for example with `ulimit -n 1024`",
            )
        self._look()
        self._wake_in, self._wake_out = os.pipe()
        self._thread = threading.Thread(target=self._run, name="telemetry-admission", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and accept all peers again. Can be called twice."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        for listener in self._listeners:  # while the thread reads: a full event queue would block ZeroMQ
            listener.stop_monitor()
        os.write(self._wake_out, b"!")
        thread.join()
        os.close(self._wake_in)
        os.close(self._wake_out)
        for listener in self._listeners:
            listener.monitor.close(0)
            if listener.shut:
                with suppress(OSError):  # the file was removed
                    listener.admit_peers()

    def report(self) -> str:
        """Return a message with the number of refused connections; empty if there were none."""
        if not self._refused:
            return ""
        times = f"{self._turned_away:,} new connections" if self._turned_away else "new connections"
        return (
            f"refused {times}: the process is limited to {self._limit:,} open files and sockets; "
            "raise the limit (ulimit -Hn)"
        )

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_in, zmq.POLLIN)
        for listener in self._listeners:
            poller.register(listener.monitor, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(None if self._refusing_since is None else _LOOK_EVERY_MS))
            self._come += sum(listener.accepted() for listener in self._listeners if listener.monitor in ready)
            if self._wake_in in ready:
                return
            if self._refusing_since is not None or self._come >= self._may_come:
                self._look()

    def _look(self) -> None:
        """Count descriptors; close or open listeners accordingly."""
        in_use = open_descriptors()
        self._come = 0
        self._may_come = max(1, self._bound - in_use)
        for listener in self._listeners:
            bound = self._last_bound if listener.last else self._bound
            with suppress(OSError):  # the file was removed: nothing to close or open
                if in_use >= bound and not listener.shut:
                    listener.refuse_peers()
                elif in_use < bound - bound // _SOME_ROOM and listener.shut:
                    listener.admit_peers()
            self._turned_away += listener.turn_away()
        self._tell(in_use)

    def _tell(self, in_use: int) -> None:
        shut = any(listener.shut for listener in self._listeners)
        if shut and self._refusing_since is None:
            self._refusing_since = time.monotonic()
            self._refused = True
            _LOG.warning("new connections are refused: %d of %d file descriptors are in use", in_use, self._limit)
        elif not shut and self._refusing_since is not None:
            lasted_s = time.monotonic() - self._refusing_since
            self._refusing_since = None
            _LOG.warning("new connections are accepted again, after %.1f s", lasted_s)
