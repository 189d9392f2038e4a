"""Endpoints of the gateway: their description, the call that a handler gets, and the answers that it gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from telemetry.gateway.gateway import Gateway

Method = Literal["GET", "POST"]
JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
EVENT_STREAM: Final = "text/event-stream"
AGAIN: Final = MappingProxyType({"Retry-After": "1"})
"""Header of a 503."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


class FieldProblem(Struct, kw_only=True, frozen=True):
    """One field of a request that can't be used."""

    loc: list[str | int]
    """Path of the field: `body` or `query`, then names and indices."""
    msg: str
    type: str = "value_error"


class Failure(Struct, kw_only=True, frozen=True):
    """The body of every answer that is an error."""

    status: Literal["error"] = "error"
    message: str
    """What happened, and what to do."""
    detail: list[FieldProblem] = []


class Problem(Exception):
    """An error of one request, with its HTTP status. The run and other requests are not affected."""

    def __init__(
        self,
        status: int,
        message: str,
        detail: Sequence[FieldProblem] = (),
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.failure = Failure(message=message, detail=list(detail))
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Answer:
    """An answer of a handler. A `body` that is not bytes is encoded as JSON, or as msgpack if the client asks."""

    status: int
    body: Struct | dict[str, Any] | list[Any] | bytes | AsyncIterator[bytes]
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request whose token, host, size and fields were checked."""

    gateway: Gateway
    headers: Mapping[str, str]
    """Header names are in lower case."""
    raw: bytes
    """The body as it came, without its compression."""
    body: Any
    """The body as the endpoint's `body` struct; None if the endpoint has none."""
    query: Any
    """The query as the endpoint's `query` struct; None if the endpoint has none."""
    mount: str = ""
    """Path below which the application is mounted."""

    async def record(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function that records the body. Raise Problem if the run can't take it.

        A large body is recorded in a thread, so that other requests go on.
        """

        def checked() -> _T:
            self.gateway.run.check_room()
            return function(*args, **kwargs)

        return await self.gateway.work(len(self.raw), checked)


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True)
class Endpoint:
    """A path of the gateway with all that the OpenAPI document says of it."""

    method: Method
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    """HTTP status → type of the JSON body; for another body its media type as text, or a tuple of them."""
    description: str = ""
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    media_types: tuple[str, ...] = (JSON, MSGPACK)
    """Accepted content types of the body."""
    raw_body: bool = False
    """True if the handler reads the body itself. `media_types` still applies."""
    writes: bool = False
    """True if the endpoint records. It is then closed while the run can't take anything."""
