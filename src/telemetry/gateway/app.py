"""The ASGI application: it checks a request, decodes it, calls the handler and encodes the answer."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.gateway import openapi
from telemetry.gateway.access import Access
from telemetry.gateway.bodies import converted, media_type, plain, too_large, unzipped
from telemetry.gateway.endpoint import JSON, MSGPACK, Answer, Call, Endpoint, Failure, Problem
from telemetry.gateway.gateway import Gateway
from telemetry.gateway.routes import ENDPOINTS

DOCUMENT_PATH: Final = "/openapi.json"
_ENCODE_JSON: Final = msgspec.json.Encoder().encode
_ENCODE_MSGPACK: Final = msgspec.msgpack.Encoder().encode


def create_app(gateway: Gateway) -> Starlette:
    """Return the application. It joins the run when the server starts it, and leaves when the server stops."""
    options = gateway.options
    access = Access(options.token, options.names)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await gateway.open()
        try:
            yield
        finally:
            await gateway.close()

    app = Starlette(
        routes=[
            *(_route(endpoint, gateway, access) for endpoint in ENDPOINTS),
            _document_route(access, token=bool(options.token)),
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.gateway = gateway
    return app


def _route(endpoint: Endpoint, gateway: Gateway, access: Access) -> Route:
    handle = functools.partial(_handle, endpoint, gateway, access)
    return Route(endpoint.path, _named(handle, endpoint.path), methods=[endpoint.method])


def _named(handle: Callable[[Request], Awaitable[Response]], name: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await handle(request)

    endpoint.__name__ = name
    return endpoint


async def _handle(endpoint: Endpoint, gateway: Gateway, access: Access, request: Request) -> Response:
    headers: Mapping[str, str] = request.headers
    try:
        access.check(headers.get("host", ""), headers.get("authorization", ""))
        if endpoint.writes:
            gateway.run.check_room()
        with gateway.body_room.share() as take:
            call = await _call(endpoint, gateway, request, take)
            if endpoint.writes:
                gateway.run.check_room()  # other requests may have taken the room while this one's body arrived
            answer = await endpoint.handler(call)
    except Problem as problem:
        answer = Answer(problem.status, problem.failure, headers=problem.headers)
    except Exception as error:  # noqa: BLE001 – a defect of this package; the server would drop it without a word
        user_warnings.warn(_told(endpoint, error))
        answer = Answer(500, Failure(message="the gateway failed; it is unknown whether this was recorded"))
    return _response(answer, headers.get("accept", ""))


def _told(endpoint: Endpoint, error: Exception) -> str:
    """Return one line about an error of a handler, with the place where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.name} ({frame.filename}:{frame.lineno})"
    return f"{endpoint.method} {endpoint.path} failed in {where}: {type(error).__name__}: {error}"


async def _call(endpoint: Endpoint, gateway: Gateway, request: Request, take: Callable[[int], None]) -> Call:
    query = None
    if endpoint.query is not None:
        query = converted(dict(request.query_params), endpoint.query, "query")
    raw, body = b"", None
    if endpoint.body is not None or endpoint.raw_body:
        kind = media_type(request.headers)
        if kind not in endpoint.media_types:
            shown = f"{kind[:60]!r}" if kind else "missing"
            raise Problem(415, f"the content type is {shown}: send {' or '.join(endpoint.media_types)}")
        raw = await _read(request, take)
        encoding = request.headers.get("content-encoding", "")
        if encoding:
            raw = await gateway.work(limits.GATEWAY_BODY_BYTES, functools.partial(unzipped, raw, encoding))
            take(len(raw))
        of = endpoint.body
        if of is not None:
            body = await gateway.work(len(raw), lambda: converted(plain(raw, kind), of, "body"))
    return Call(
        gateway=gateway,
        headers=request.headers,
        raw=raw,
        body=body,
        query=query,
        mount=request.scope.get("root_path", ""),
    )


async def _read(request: Request, take: Callable[[int], None]) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.GATEWAY_BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > limits.GATEWAY_BODY_BYTES:
                    raise too_large()
                take(len(part))
                parts.append(part)
    except ClientDisconnect:
        raise Problem(400, "the body is cut off") from None
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {limits.GATEWAY_BODY_S:g} s", headers={"Connection": "close"}
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _response(answer: Answer, accept: str) -> Response:
    body, headers = answer.body, dict(answer.headers)
    if isinstance(body, bytes):
        return Response(body, answer.status, headers, answer.media_type)
    if isinstance(body, AsyncIterator):
        return StreamingResponse(body, answer.status, headers, answer.media_type)
    if MSGPACK in accept:
        return Response(_ENCODE_MSGPACK(body), answer.status, headers, MSGPACK)
    return Response(_ENCODE_JSON(body), answer.status, headers, JSON)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer a path or a method that the gateway does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: f"there is no path {request.url.path[:200]}", 405: f"{request.method} is not allowed here"}
    failure = Failure(message=messages.get(status, "the request failed"))
    headers = error.headers if isinstance(error, HTTPException) else None
    return Response(_ENCODE_JSON(failure), status, dict(headers or {}), JSON)


def _document_route(access: Access, *, token: bool) -> Route:
    @functools.cache
    def encoded() -> bytes:
        return _ENCODE_JSON(openapi.document(ENDPOINTS, token=token))

    async def document(request: Request) -> Response:
        try:
            access.check(request.headers.get("host", ""), request.headers.get("authorization", ""))
        except Problem as problem:
            return _response(Answer(problem.status, problem.failure, headers=problem.headers), "")
        return Response(encoded(), media_type=JSON)

    return Route(DOCUMENT_PATH, document, methods=["GET"])
