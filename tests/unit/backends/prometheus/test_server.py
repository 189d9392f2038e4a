"""The address that is scraped."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured
from telemetry.backends.prometheus.backend import PrometheusServer, ServedPage


def ask(server: PrometheusServer, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


def test_a_scrape_gets_the_page(wait_until: Callable[..., Any]) -> None:
    """A scrape gets the page in the format that it asks for, compressed if it can read that.

    The page learns when it was sent.
    """
    served: list[str] = []

    def page(accept: str) -> ServedPage:
        return ServedPage("text/x", f"for {accept}".encode(), lambda: served.append(accept))

    with closing(PrometheusServer("127.0.0.1", 0, page)) as server:
        status, headers, body = ask(server, "/metrics", Accept="a/b")
        assert (status, headers["Content-Type"], body) == (200, "text/x", b"for a/b")
        wait_until(lambda: served == ["a/b"])
        _, headers, body = ask(server, "/metrics?x=1", Accept="c", Accept_Encoding="gzip, deflate")
        assert (headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", b"for c")
        assert b"/metrics" in ask(server, "/")[2]
        assert ask(server, "/other")[0] == 404
        assert server.address == f"http://127.0.0.1:{server.port}/metrics"


def test_before_there_is_a_page_it_says_so() -> None:
    """A scrape that gets nothing is not taken for one that got something."""
    with closing(PrometheusServer("127.0.0.1", 0, lambda accept: None)) as server:
        assert ask(server, "/metrics")[0] == 503


def test_a_page_of_another_site_gets_nothing() -> None:
    """A page of another site gets nothing.

    The site's name may lead to this machine (DNS rebinding), but the browser still asks for that name.
    """
    page = ServedPage("t", b"numbers", lambda: None)
    own = ("127.0.0.1", "localhost:9599", "LocalHost", "[::1]:9599", "10.0.0.7", socket.gethostname(), "node7:80")
    with closing(PrometheusServer("127.0.0.1", 0, lambda accept: page, ["Node7"])) as server:
        assert {ask(server, "/metrics", Host=host)[0] for host in own} == {200}
        for host in ("evil.example", "evil.example:9599", "localhost.evil.example", "127.0.0.1.evil.example", "[x"):
            status, _, body = ask(server, "/metrics", Host=host)
            assert (status, b"numbers" in body, b"names=" in body) == (421, False, True), host
    with closing(PrometheusServer("127.0.0.1", 0, lambda accept: page, ["*"])) as server:
        assert ask(server, "/metrics", Host="evil.example")[0] == 200


def test_an_address_that_can_not_be_had_is_said() -> None:
    """An address that can't be had is an error that tells what to do about it."""
    with closing(PrometheusServer("127.0.0.1", 0, lambda accept: None)) as server:
        with pytest.raises(NotConfigured, match=f"port {server.port} of 127.0.0.1 is in use") as told:
            PrometheusServer("127.0.0.1", server.port, lambda accept: None)
        assert "port=0" in told.value.hint
    with pytest.raises(NotConfigured, match="is not available"):
        PrometheusServer("192.0.2.1", 0, lambda accept: None)


def test_nobody_is_answered_afterwards() -> None:
    """The port is free at once."""
    server = PrometheusServer("127.0.0.1", 0, lambda accept: None)
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
    PrometheusServer("127.0.0.1", server.port, lambda accept: None).close()


def test_who_is_being_answered_is_waited_for() -> None:
    """The first scrape of the final values ends it, also while the second is at work."""
    begun, go, found = threading.Event(), threading.Event(), []

    def page(accept: str) -> ServedPage:
        begun.set()
        assert go.wait(10.0)
        return ServedPage("t", b"all of it", lambda: None)

    server = PrometheusServer("127.0.0.1", 0, page)
    scraper = threading.Thread(target=lambda: found.append(ask(server, "/metrics")[2]))
    scraper.start()
    assert begun.wait(10.0)
    threading.Timer(0.02, go.set).start()
    server.close()
    scraper.join()
    assert found == [b"all of it"]


def test_a_crowd_is_sent_away(wait_until: Callable[..., Any]) -> None:
    """Clients that hold a connection in silence don't pile up. The next one is served once they are gone."""
    with closing(PrometheusServer("127.0.0.1", 0, lambda accept: ServedPage("t", b"", lambda: None))) as server:
        crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(9)]
        assert crowd[8].recv(1) == b""
        for one in crowd:
            one.close()
        wait_until(lambda: _served(server))


def _served(server: PrometheusServer) -> bool:
    try:
        return ask(server, "/metrics")[0] == 200
    except (OSError, http.client.HTTPException):
        return False
