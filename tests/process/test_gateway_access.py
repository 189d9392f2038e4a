"""Tests of who may use a gateway, and of requests that are broken, too large or sent by halves."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.process.conftest import DEADLINE_S
from tests.process.gateways import TOKEN, Gateway, Site, counters
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

WaitUntil = Callable[..., Any]
MIB = 1 << 20
COUNT = json.dumps({"events": [{"type": "count", "name": "n"}]}).encode()
JSON = {"Content-Type": "application/json"}


def send(gateway: Gateway, content: Any, **headers: str) -> httpx.Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return gateway.client.post("/v1/events", content=content, headers=JSON | named)


def test_other_machines_need_a_token(site: Site) -> None:
    """A gateway without a token does not start where other machines could reach it."""
    site.begin()
    code, out, err = site.run("gateway", "job", "--listen", "0.0.0.0:0")
    assert (code, out) == (2, "")
    assert "needs a token" in err
    assert "TELEMETRY_GATEWAY_TOKEN" in err
    code, _, err = site.run("gateway", "job", "--listen", "0.0.0.0:0", environ={"TELEMETRY_GATEWAY_TOKEN": "abc"})
    assert code == 2
    assert "too weak" in err
    gateway = site.gateway("--listen", "0.0.0.0:0", environ={"TELEMETRY_GATEWAY_TOKEN": TOKEN})
    paths = ["/v1/snapshot", "/v1/stream", "/v1/history", "/v1/runs", "/prometheus", "/openapi.json"]
    for path in paths:
        answer = gateway.get(path)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), path
    assert send(gateway, COUNT).status_code == 401
    assert send(gateway, COUNT, Authorization=f"Bearer {TOKEN[:-1]}").status_code == 401
    assert send(gateway, COUNT, Authorization=f"Bearer {TOKEN}").status_code == 200
    gateway.client.headers["Authorization"] = f"Bearer {TOKEN}"
    for path in paths:
        if path != "/v1/stream":
            assert gateway.get(path).status_code == 200, path
    assert gateway.get("/openapi.json").json()["security"] == [{"token": []}]
    final = site.stop()
    assert counters(final) == {"n": 1.0}


def test_pages_of_other_sites_get_nothing(site: Site) -> None:
    """Pages of other sites get nothing, because a browser sends the page's name.

    That name may resolve to this machine.
    """
    site.begin()
    gateway = site.gateway()
    for path in ("/v1/snapshot", "/prometheus", "/openapi.json"):
        answer = gateway.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert "--host-name" in answer.json()["message"]
    assert send(gateway, COUNT, Host="evil.example").status_code == 421
    assert send(gateway, COUNT, Host="localhost:1").status_code == 200
    named = site.gateway("--listen", "127.0.0.1:0", "--host-name", "Metrics.Example")
    assert named.get("/v1/snapshot", headers={"Host": "metrics.example:8000"}).status_code == 200
    assert counters(site.stop()) == {"n": 1.0}


def test_a_body_is_bounded(site: Site, wait_until: WaitUntil) -> None:
    """Plain, in chunks or compressed. The limit is the same."""
    site.begin()
    gateway = site.gateway()
    padding = b" " * (16 * MIB)
    assert send(gateway, COUNT + padding[: -len(COUNT)]).status_code == 200
    for content in (COUNT + padding, iter([COUNT, padding, padding])):
        try:
            answer = send(gateway, content)
        except httpx.TransportError:  # the answer came before all was sent, and the connection was closed
            continue
        assert answer.status_code == 413, answer.text
        assert "16 MiB" in answer.json()["message"]
    bomb = gzip.compress(COUNT + padding + padding)
    assert len(bomb) < MIB
    assert send(gateway, bomb, Content_Encoding="gzip").status_code == 413
    assert send(gateway, gzip.compress(COUNT), Content_Encoding="gzip").status_code == 200
    assert counters(site.stop()) == {"n": 2.0}


@pytest.mark.parametrize(
    ("content", "headers", "status", "words"),
    [
        (b"{", {}, 400, "not valid JSON"),
        (b"", {}, 400, "not valid JSON"),
        (COUNT, {"Content_Type": "text/plain"}, 415, "application/json or application/msgpack"),
        (COUNT, {"Content_Type": ""}, 415, "missing"),
        (COUNT, {"Content_Type": "application/msgpack"}, 400, "not valid msgpack"),
        (COUNT, {"Content_Encoding": "br"}, 415, "use gzip"),
        (gzip.compress(COUNT, mtime=0)[:-3], {"Content_Encoding": "gzip"}, 400, "cut off"),
        (b"[]", {}, 422, "body: Expected `object`"),
    ],
)
def test_a_broken_request_is_explained(
    reader: Gateway, content: bytes, headers: Any, status: int, words: str
) -> None:
    """The status says whose fault it is, the message what to change."""
    answer = send(reader, content, **headers)
    assert answer.status_code == status
    found = answer.json()
    assert found["status"] == "error"
    assert words in found["message"]


def test_paths_and_methods_that_are_not_there(reader: Gateway) -> None:
    """The answers have the form of all errors."""
    assert reader.get("/v2/events").json() == {
        "status": "error",
        "message": "there is no path /v2/events",
        "detail": [],
    }
    wrong = reader.client.delete("/v1/events")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert reader.client.head("/v1/snapshot").status_code == 200


@pytest.fixture(scope="module")
def shared() -> Any:
    """A site with one run and one gateway, for tests that leave both as they are."""
    made = Site()
    made.begin()
    made.gateway()
    yield made
    made.close()


@pytest.fixture
def reader(shared: Site) -> Gateway:
    return shared.gateways[0]


def test_a_client_that_goes_away_has_sent_nothing(site: Site, wait_until: WaitUntil) -> None:
    """Half a request is none, wherever it ends, and the others don't notice."""
    site.begin()
    gateway = site.gateway()
    head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % (len(COUNT) + 1) + COUNT
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(COUNT) + COUNT + b"\r\n"
    halves = [b"", b"PO", head, whole, whole[:-5], chunked]
    for half in halves:
        for reset in (False, True):
            connection = socket.create_connection(gateway.address)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(half)
            connection.close()
    open_halves = [socket.create_connection(gateway.address) for _ in halves]
    for connection, half in zip(open_halves, halves, strict=True):
        connection.sendall(half)
    assert send(gateway, COUNT).status_code == 200
    final = site.stop()
    assert counters(final) == {"n": 1.0}
    assert final["completeness"] == "complete"
    gateway.child.wait(DEADLINE_S)
    assert gateway.child.returncode == 0
    for connection in open_halves:
        connection.close()


def test_an_address_that_is_taken_is_named(site: Site) -> None:
    """An address that is taken is named, with what to do."""
    site.begin()
    gateway = site.gateway()
    taken = gateway.url.removeprefix("http://")
    code, _, err = site.run("gateway", "job", "--listen", taken)
    assert code == 2
    assert f"can't listen on {taken}" in err
    for wrong in ("localhost", "127.0.0.1:x", "127.0.0.1:70000"):
        code, _, err = site.run("gateway", "job", "--listen", wrong)
        assert code == 2
        assert "is not an address" in err


def test_a_run_that_is_not_there_is_an_error(site: Site) -> None:
    """A run that is not there is an error before the gateway listens."""
    code, _, err = site.run("gateway", "nothing", "--listen", "127.0.0.1:0")
    assert code != 0
    assert "nothing" in err
