"""Connections of HTTP: bounds for what a client may send before its token is checked. Real sockets, no run."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from telemetry import limits
from telemetry.gateway import server

DEADLINE_S = 30.0
KIB = 1 << 10
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
NOT_FOUND = b"HTTP/1.1 404"


class Web:
    """A server with the gateway's connections and an application that answers 404, or waits for `/wait`."""

    def __init__(self) -> None:
        self.listener = server.listen("127.0.0.1", 0)
        self.asked = threading.Semaphore(0)
        self.released: asyncio.Event | None = None
        self._server = server.quiet_server(self)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: list[socket.socket] = []
        self._thread.start()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.released = asyncio.Event()
        await self._server.serve([self.listener])
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()  # type: ignore[union-attr]
        await asyncio.sleep(0.01)  # the loop closes their sockets in its next turns

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind.endswith("shutdown"):
                    return
        if scope["path"] == "/wait":
            assert self.released is not None
            self.asked.release()
            await self.released.wait()
        if scope["path"] == "/large":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(64):
                await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
                self.asked.release()
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def connect(self) -> socket.socket:
        made = socket.create_connection(self.listener.getsockname(), timeout=DEADLINE_S)
        self._clients.append(made)
        return made

    def release(self) -> None:
        assert self._loop is not None
        assert self.released is not None
        self._loop.call_soon_threadsafe(self.released.set)

    def close(self) -> None:
        self.release()
        self._server.should_exit = True
        self._thread.join(DEADLINE_S)
        for client in self._clients:
            client.close()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(server, "limit_of_descriptors", lambda: 32)  # 16 connections, 8 of one peer
    made = Web()
    yield made
    made.close()


def all_of(connection: socket.socket) -> bytes:
    """Return what arrives until the server closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_a_head_is_bounded(web: Web) -> None:
    """A header without an end is refused after some KiB, also when each part is small."""
    with web.connect() as connection:
        connection.sendall(HEAD + b"X: ")
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 << 20:
                sent += connection.send(b"x" * KIB)
        answer = all_of(connection)
    assert sent < 8 << 20  # what the sockets hold
    assert not answer or answer.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("parts", [1, 8])
def test_the_bound_of_a_head_does_not_depend_on_its_parts(web: Web, parts: int) -> None:
    """A head below the bound is read, and one above it is refused with a message."""
    for size, status in (
        (limits.GATEWAY_HEAD_BYTES - KIB, NOT_FOUND),
        (limits.GATEWAY_HEAD_BYTES + 1, b"HTTP/1.1 431"),
    ):
        head = HEAD + b"Connection: close\r\nX: " + b"x" * size + b"\r\n\r\n"
        with web.connect() as connection:
            step = -(-len(head) // parts)
            with suppress(ConnectionError):
                for begin in range(0, len(head), step):
                    connection.sendall(head[begin : begin + step])
            answer = all_of(connection)
        assert answer.startswith(status), answer
        assert status == NOT_FOUND or b"32 KiB" in answer


def test_trailers_are_bounded(web: Web) -> None:
    """Fields after a body in chunks count as those before it."""
    with web.connect() as connection:
        connection.sendall(HEAD.replace(b"GET /", b"POST /wait") + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"1\r\nx\r\n0\r\n")
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 << 20:
                sent += connection.send(b"X: y\r\n" * 200)
    assert sent < 8 << 20


def test_a_large_body_is_no_head(web: Web) -> None:
    """A body has a bound of its own."""
    body = b"x" * (8 * limits.GATEWAY_HEAD_BYTES)
    with web.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body))
        connection.sendall(body)
        assert all_of(connection).startswith(NOT_FOUND)


def test_requests_in_one_piece_are_bounded(web: Web) -> None:
    """A client that sends requests without waiting for answers would make the server hold them all."""
    few = limits.GATEWAY_PIPELINED
    with web.connect() as connection:
        connection.sendall((HEAD + b"\r\n") * (few - 1) + HEAD + b"Connection: close\r\n\r\n")
        assert all_of(connection).count(NOT_FOUND) == few
    with web.connect() as connection:
        connection.sendall(HEAD.replace(b" /", b" /wait") + b"\r\n" + (HEAD + b"\r\n") * (few + 1))
        assert all_of(connection) == b""


@pytest.mark.parametrize("half", [b"", b"GE", HEAD])
def test_a_head_that_does_not_arrive_ends_the_connection(
    web: Web, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    """The client is told, if it has begun a request."""
    monkeypatch.setattr(limits, "GATEWAY_HEAD_S", 0.05)
    with web.connect() as connection:
        connection.sendall(half)
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 408") if half else answer == b""


def test_a_silence_after_an_answer_ends_the_connection(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a body that was refused counts as silence, and so does the half of a second request."""
    monkeypatch.setattr(limits, "GATEWAY_HEAD_S", 0.05)
    for request in (HEAD + b"Content-Length: 9\r\n\r\n", HEAD + b"\r\n" + HEAD):
        with web.connect() as connection:
            connection.sendall(request)
            assert connection.recv(len(NOT_FOUND)) == NOT_FOUND
            connection.sendall(b"x")
            all_of(connection)


def test_a_request_that_is_answered_late_is_not_cut(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is one of the client."""
    monkeypatch.setattr(limits, "GATEWAY_HEAD_S", 0.05)
    with web.connect() as connection:
        connection.sendall(HEAD.replace(b" /", b" /wait") + b"Connection: close\r\n\r\n")
        with web.connect() as silent:
            assert all_of(silent) == b""
        web.release()
        assert all_of(connection).startswith(NOT_FOUND)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such timeout")
def test_an_answer_that_is_not_read_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client could hold an answer, and its connection, for ever."""
    monkeypatch.setattr(limits, "GATEWAY_UNREAD_S", 0.1)
    with server.listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted, pytest.raises(TimeoutError):
            accepted.sendall(b"x" * (64 << 20))


def test_silent_connections_keep_nobody_out(web: Web) -> None:
    """The oldest one that waits for a request makes room for a new one of the same peer."""
    silent = [web.connect() for _ in range(40)]
    with web.connect() as connection:
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert all_of(connection).startswith(NOT_FOUND)
    assert all_of(silent[0]) == b""


def test_a_client_that_does_not_read_makes_room(web: Web) -> None:
    """A client that does not read loses connections that it would keep for as long as it likes."""
    for _ in range(8):
        web.connect().sendall(HEAD.replace(b" /", b" /large") + b"\r\n")
        assert web.asked.acquire(timeout=DEADLINE_S)
    deadline_s = time.monotonic() + DEADLINE_S
    answer = b""
    while not answer.startswith(NOT_FOUND):  # it is 503 until the buffers of one of them are full
        assert time.monotonic() < deadline_s
        with web.connect() as connection:
            connection.sendall(HEAD + b"Connection: close\r\n\r\n")
            answer = all_of(connection)


def test_a_peer_whose_connections_are_all_in_use_gets_no_more(web: Web) -> None:
    """The answer says so, and other peers have the rest."""
    used = [web.connect() for _ in range(8)]
    for each in used:
        each.sendall(HEAD.replace(b" /", b" /wait") + b"Connection: close\r\n\r\n")
        assert web.asked.acquire(timeout=DEADLINE_S)
    with web.connect() as connection:
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"too many connections" in answer
    with socket.create_connection(web.listener.getsockname(), source_address=("127.0.0.2", 0)) as other:
        other.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert all_of(other).startswith(NOT_FOUND)
    web.release()
    for each in used:
        assert all_of(each).startswith(NOT_FOUND)
