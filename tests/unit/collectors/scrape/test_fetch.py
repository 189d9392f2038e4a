"""Pages over real HTTP: connections, time, size, redirects, secrets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.unit.collectors.scrape.servers import PageServer, answer, page_server, trickle

from telemetry import limits
from telemetry.collectors.scrape.fetch import Fetcher, FetchError, normal_url, place_of, shown_url


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server("up 1\n") as made:
        yield made


@pytest.fixture
def fetcher(server: PageServer) -> Iterator[Fetcher]:
    made = Fetcher(server.url, 5.0)
    yield made
    made.close()


def fetched(url: str, timeout_s: float, **options: Any) -> bytes:
    """One page over a connection of its own."""
    with closing(Fetcher(url, timeout_s, **options)) as made:
        return made.fetch().body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:8000", "http://localhost:8000/metrics"),
        ("http://host", "http://host/metrics"),
        ("https://host:1/a?b=c#d", "https://host:1/a?b=c"),
        ("http://[::1]:9/", "http://[::1]:9/"),
        ("http://user:pw@host/x", "http://user:pw@host/x"),
    ],
)
def test_short_addresses_become_full_ones(text: str, expected: str) -> None:
    """Short addresses get the scheme and the path that nearly all servers have."""
    assert normal_url(text) == expected


@pytest.mark.parametrize("text", ["", "ftp://host/", "http://", "http://host:port/", "http://a b/", "http://a\n/"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """An invalid address is refused before anything connects."""
    with pytest.raises(ValueError, match=r"."):
        normal_url(text)


def test_secrets_of_an_address_are_not_shown() -> None:
    """A shown address has neither the password nor a token of the query."""
    assert shown_url("https://user:pw@host:1/a?token=x") == "https://host:1/a"
    assert place_of("https://user:pw@host/a") == "host:443"
    assert place_of("http://[::1]:9/") == "[::1]:9"


def test_one_connection_serves_all_pages(server: PageServer, fetcher: Fetcher) -> None:
    """The server sees which formats are read."""
    pages = [fetcher.fetch() for _ in range(3)]
    assert [page.body for page in pages] == [b"up 1\n"] * 3
    assert pages[0].content_type.startswith("text/plain")
    assert 0 < pages[0].seconds < 5
    assert len(server.connections) == 1
    _, headers = server.requests[0]
    assert headers["Accept"].startswith("text/plain")
    assert "Authorization" not in headers


def test_a_connection_that_was_closed_is_opened_again(server: PageServer, fetcher: Fetcher) -> None:
    """A server may close it between two pages, or restart."""
    fetcher.fetch()
    server.stop()
    with pytest.raises(FetchError, match="refused"):
        fetcher.fetch()
    server.start()
    assert fetcher.fetch().body == b"up 1\n"


def test_a_server_without_answer_is_left_in_time(server: PageServer) -> None:
    """A server that accepts a connection but never answers is left in time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(FetchError, match=r"no answer within 0\.2 s"):
            fetched(f"http://127.0.0.1:{silent.getsockname()[1]}/", 0.2)
        assert time.monotonic() - begun < 5.0


@pytest.mark.parametrize("in_headers", [False, True], ids=["body", "headers"])
def test_a_server_that_sends_a_byte_at_a_time_is_left_in_time(server: PageServer, *, in_headers: bool) -> None:
    """The time is that of the whole page, not of one byte."""

    def headers(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            handler.wfile.write(b"a")
            time.sleep(0.02)

    server.behave = headers if in_headers else trickle
    begun = time.monotonic()
    with pytest.raises(FetchError, match="no answer within"):
        fetched(server.url, 0.3)
    assert time.monotonic() - begun < 5.0


def test_a_page_that_is_too_large_is_refused(
    server: PageServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is too large is not read to its end. The next page is read as usual."""
    monkeypatch.setattr(limits, "SCRAPE_PAGE_BYTES", limits.MIB)
    server.page = "#" * (limits.MIB + 1)
    with pytest.raises(FetchError, match="larger than 1 MiB"):
        fetcher.fetch()
    server.page = "up 2\n"
    assert fetcher.fetch().body == b"up 2\n"


def redirect(status: int, place: str) -> Callable[[BaseHTTPRequestHandler], Any]:
    return lambda handler: answer(handler, status, b"", {"Location": place})


def test_redirects_are_followed(server: PageServer) -> None:
    """Redirects are followed, also relative ones. A loop of redirects ends."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/metrics":
            redirect(307, "/new")(handler)
        else:
            answer(handler, 200, b"new 1\n", {})

    server.behave = behave
    assert fetched(server.url, 5.0) == b"new 1\n"
    server.behave = redirect(302, "/metrics")
    with pytest.raises(FetchError, match="more than 3 times"):
        fetched(server.url, 5.0)
    server.behave = redirect(302, "ftp://elsewhere/")
    with pytest.raises(FetchError, match="the scheme is ftp"):
        fetched(server.url, 5.0)


@pytest.mark.parametrize(
    ("token", "user", "expected"), [("t0k", "", "Bearer t0k"), ("", "me:p%40w@", "Basic bWU6cEB3")]
)
def test_secrets_go_to_the_server_alone(server: PageServer, token: str, user: str, expected: str) -> None:
    """Another server, to which it redirects, gets none."""
    with page_server("other 1\n") as other:
        server.behave = redirect(302, other.url)
        url = server.url.replace("http://", f"http://{user}")
        assert fetched(url, 5.0, token=token) == b"other 1\n"
        assert server.requests[0][1]["Authorization"] == expected
        assert "Authorization" not in other.requests[0][1]


@pytest.mark.parametrize(
    ("status", "words", "hint"),
    [(401, "401 Unauthorized", "token_env"), (404, "404 Not Found", "path"), (503, "503", "")],
)
def test_a_refusal_says_what_to_do(
    server: PageServer, fetcher: Fetcher, status: int, words: str, hint: str
) -> None:
    """A refusal names a remedy, and the connection is used again afterwards."""
    server.behave = lambda handler: answer(handler, status, b"no", {})
    with pytest.raises(FetchError, match=words) as caught:
        fetcher.fetch()
    assert hint in caught.value.hint
    server.behave = None
    assert fetcher.fetch().body == b"up 1\n"


def test_proxies_of_the_environment_are_not_used(
    server: PageServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies of the environment are not used, since they are meant for the internet."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetcher.fetch().body == b"up 1\n"


def test_what_is_no_http_is_said() -> None:
    """A port of something else."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"SSH-2.0-x\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(FetchError, match="BadStatusLine"):
            fetched(f"http://127.0.0.1:{other.getsockname()[1]}/", 5.0)
        thread.join()
