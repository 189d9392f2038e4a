"""The process behind `telemetry top --web`: textual-serve, protected by a token and limited to this machine.

Pages of any site, and all users of this machine, can open a websocket to it. So the token, the Host and the Origin
of each request are checked. Reads its order, one JSON object, from stdin. Kills its process group when stdin
closes.
"""

from __future__ import annotations

import html
import json
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Any, Final

from aiohttp import web
from textual_serve.server import Server

from telemetry.cli.browser.launch import HOST

_LOOPBACK: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
"""Host names that browsers use for this machine. Behind `ssh -L` the port differs."""
_FOREIGN_LINK: Final = re.compile(r"<link\b[^>]*https?://(?!127\.0\.0\.1)[^>]*>", re.DOTALL)
_HEAD: Final = """
<title>TITLE</title>
<link rel="icon" href="data:," />
<style>
  @font-face {
    font-family: 'Roboto Mono';
    src: url('/static/fonts/RobotoMono-VariableFont_wght.ttf');
    font-weight: 100 700;
  }
</style>
<link rel="preload" href="/static/fonts/RobotoMono-VariableFont_wght.ttf" as="font" type="font/ttf" crossorigin />
<script>
  new MutationObserver((_, observer) => {  // keys work without a click
    const keyboard = document.querySelector(".xterm-helper-textarea");
    if (keyboard) { keyboard.focus(); observer.disconnect(); }
  }).observe(document, { childList: true, subtree: true });
</script>
"""
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CockpitServer(Server):
    """A server for one command; each page runs it in a new process."""

    def __init__(self, command: str, port: int, title: str, token: str) -> None:
        super().__init__(command, host=HOST, port=port, title=title)
        self._token = token
        self._cookie = f"telemetry-{port}"

    async def app(self) -> web.Application:
        """Return the application with all routes guarded."""
        app = await self._make_app()
        app.middlewares.append(self._guard)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the parent process has printed the address."""

    async def handle_index(self, request: web.Request) -> Any:
        """Return the page, with its font and addresses from this server."""
        response: web.Response = await super().handle_index(request)  # type: ignore[assignment]
        head = _HEAD.replace("TITLE", html.escape(self.title))
        page = _FOREIGN_LINK.sub("", response.text or "").replace("</head>", f"{head}</head>")
        response.text = page.replace(f"{HOST}:{self.port}", request.host)
        response.headers["Content-Security-Policy"] = _POLICY.format(host=request.host)
        response.headers["Referrer-Policy"] = "no-referrer"
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        return response

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not _LOOPBACK.fullmatch(request.host):
            raise web.HTTPForbidden(text="open this page in a browser on the same machine")
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            raise web.HTTPForbidden(text="this request came from another site")
        shown = (request.query.get("token", ""), request.cookies.get(self._cookie, ""))
        if not any(secrets.compare_digest(os.fsencode(token), self._token.encode()) for token in shown):
            raise web.HTTPForbidden(text="open the full address that `telemetry top --web` printed, token included")
        return await handler(request)


def _end_with_parent() -> None:
    """Kill the process group when the parent process ends: the viewers would run on forever."""
    sys.stdin.read()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    Thread(target=_end_with_parent, daemon=True).start()
    listener = socket.socket(fileno=order["fd"])
    server = CockpitServer(order["command"], listener.getsockname()[1], order["title"], order["token"])
    web.run_app(server.app(), sock=listener, handle_signals=False, print=None, access_log=None)


if __name__ == "__main__":
    main()
