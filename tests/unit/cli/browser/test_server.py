"""The page is for who knows the token, on this machine, from its own address, and loads nothing from elsewhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from telemetry.cli.browser.server import CockpitServer

TOKEN = "the-token"


@pytest.fixture
async def client() -> AsyncIterator[TestClient]:
    app = await CockpitServer("exec true", 8765, "<job>", TOKEN).app()
    async with TestClient(TestServer(app)) as made:
        yield made


def here(client: TestClient) -> str:
    return f"{client.host}:{client.port}"


async def test_the_page_needs_nothing_from_elsewhere(client: TestClient) -> None:
    """The page has no address but our own, and the browser may ask no other. Outside text is shown as text."""
    response = await client.get("/", params={"token": TOKEN})
    page = await response.text()
    assert response.status == 200
    assert {found for found in re.findall(r"(?:https?|wss?)://([^/\"]+)", page) if "w3.org" not in found} == {
        here(client)
    }
    assert f'data-session-websocket-url="ws://{here(client)}/ws"' in page
    assert "<title>&lt;job&gt;</title>" in page
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    font = re.search(r"url\('([^']+)'\)", page)
    assert font
    assert (await client.get(font[1])).status == 200


async def test_nothing_without_the_token(client: TestClient) -> None:
    """The page and the terminal behind it need the token. The page's cookie then opens the rest.

    Which includes the terminal: tests/process/test_web.py looks at it in a browser that has only the cookie.
    """
    for path in ("/", "/?token=another", "/ws", "/static/js/textual.js"):
        refused = await client.get(path)
        assert (refused.status, "token included" in await refused.text()) == (403, True), path
    opened = await client.get("/", params={"token": TOKEN})
    assert "HttpOnly" in opened.headers["Set-Cookie"]
    assert "SameSite=Strict" in opened.headers["Set-Cookie"]
    assert (await client.get("/static/js/textual.js")).status == 200


async def test_a_cookie_of_an_earlier_server_is_no_hindrance(client: TestClient) -> None:
    """The token in the address counts, too."""
    stale = {"Cookie": "telemetry-8765=an-older-one"}
    assert (await client.get("/", headers=stale)).status == 403
    assert (await client.get("/", params={"token": TOKEN}, headers=stale)).status == 200


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://127.0.0.1:1", 403),
        ("Origin", "null", 403),
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1.evil.example:8765", 403),
        ("Host", "localhost:9000", 200),
        ("Host", "127.0.0.1", 200),
        ("Host", "[::1]:9000", 200),
    ],
)
async def test_other_sites_are_turned_away(client: TestClient, header: str, value: str, status: int) -> None:
    """Pages of other sites and made up names of ours are refused, even with the token. A forwarded port is fine."""
    response = await client.get("/", params={"token": TOKEN}, headers={header: value})
    assert response.status == status


@pytest.mark.parametrize("line", [b"GET /?token=%ff HTTP/1.1", b"GET / HTTP/1.1\r\nCookie: telemetry-8765=\xff"])
async def test_a_token_that_is_no_text_is_another(client: TestClient, line: bytes) -> None:
    """Refused as any other wrong one, and no failure of ours."""
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(line + f"\r\nHost: {here(client)}\r\n\r\n".encode())
    assert await reader.readline() == b"HTTP/1.1 403 Forbidden\r\n"
    writer.close()
    await writer.wait_closed()
