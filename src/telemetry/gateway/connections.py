"""Connections of HTTP clients, with bounds for what a client may send and hold before its token is checked."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from telemetry import limits
from telemetry.gateway.endpoint import JSON, Failure
from telemetry.transport.admission import limit_of_descriptors

HEAD_BYTES: Final = 32 * limits.KIB
"""Largest head of a request: its path and its headers."""
HEAD_S: Final = 10.0
"""Longest time for a head to arrive, after the connection was made or the last request was answered."""
PIPELINED: Final = 16
"""Requests of one connection that wait for their answers."""
_CONNECTIONS: Final = 2_048  # with a head each, these have 64 MiB
_INVALID: Final = (400, "this is not a valid request of HTTP/1.1")
_TOO_LARGE: Final = (431, f"the head is larger than {HEAD_BYTES // limits.KIB} KiB; send shorter headers")
_TOO_MANY: Final = (503, "the gateway has too many connections; use fewer, or try again")
_ENCODE: Final = msgspec.json.Encoder().encode


class Connection(HttpToolsProtocol):
    """A connection that refuses heads that are too large or too slow, and makes room for new connections."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._head_bytes = 0  # received since the last head, part of a body or end of a request
        self._refusal: tuple[int, str] | None = None
        self._waits_since_s = self.loop.time()
        self._timer = self.loop.call_later(HEAD_S, self._end_wait)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES:
            self._refusal = _TOO_LARGE
        if self._refusal is not None:
            raise ValueError  # the parser stops, and calls `send_400_response`
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            raise ValueError

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._waits_since_s = self.loop.time()
        self._timer.cancel()
        self._timer = self.loop.call_later(HEAD_S, self._end_wait)

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or _INVALID))

    @property
    def _is_idle(self) -> bool:
        """True if no request is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _end_wait(self) -> None:
        if self._head_bytes and self._is_idle:
            self._refuse(408, f"the request did not arrive within {HEAD_S:g} s; send it again")
        elif self._is_idle:
            self.transport.abort()

    def _make_room(self) -> None:
        """If there are too many connections, end the one that has waited longest, else refuse this one."""
        most = min(_CONNECTIONS, limit_of_descriptors() // 2)
        every: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        of_peer = [each for each in every if each._peer == self._peer]
        rivals = of_peer if len(of_peer) > most // 2 else every if len(every) > most else []
        waiting = [each for each in rivals if each is not self and (each._is_idle or each.flow.write_paused)]
        if waiting:
            min(waiting, key=lambda each: each._waits_since_s).transport.abort()
        elif rivals:
            self._refusal = _TOO_MANY

    def _refuse(self, status: int, message: str) -> None:
        """Send an error and close the connection. Only close it if another answer is under way."""
        if not self._is_idle:
            self.transport.abort()
            return
        body = _ENCODE(Failure(message=message))
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (JSON.encode(), len(body))
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
