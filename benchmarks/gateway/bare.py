"""An application that answers each POST with a constant: the server's own share of a request."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from telemetry.gateway.server import listen, url_of

PATH: Final = "/v1/events"
_ANSWER: Final = json.dumps({"status": "success", "message": "1 of 1 events recorded", "recorded": 1}).encode()


async def _answer(request: Request) -> Response:
    await request.body()
    return Response(_ANSWER, media_type="application/json")


def serve() -> None:
    """Serve with the settings of a gateway."""
    listener = listen("127.0.0.1", 0)
    app = Starlette(routes=[Route(PATH, _answer, methods=["POST"])])
    settings = uvicorn.Config(app, access_log=False, server_header=False, log_config=None, lifespan="off")
    print(url_of("127.0.0.1", listener.getsockname()[1]), file=sys.stderr, flush=True)
    asyncio.run(uvicorn.Server(settings).serve([listener]))


if __name__ == "__main__":
    serve()
