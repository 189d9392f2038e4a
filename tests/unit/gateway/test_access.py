"""Tests of the access to a gateway: the token, and the names under which it is addressed."""

from __future__ import annotations

import socket

import pytest

from telemetry.errors import UsageError
from telemetry.gateway.access import Access, check_token, is_loopback
from telemetry.gateway.endpoint import Problem

TOKEN = "0123456789abcdef"


def status(access: Access, host: str, authorization: str = "") -> int:
    """Return the status of the refusal, or 200."""
    try:
        access.check(host, authorization)
    except Problem as problem:
        return problem.status
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8000",
        "10.1.2.3:80",
        "[::1]",
        "[::1]:8000",
        "[fe80::1]:8000",
        "localhost",
        "LocalHost:8000",
        " localhost ",
        "Node7:8000",
        "",
    ],
)
def test_addresses_and_own_names_are_ours(host: str) -> None:
    """A web page can't make a browser send one of these as the name of its site."""
    assert status(Access("", ["node7"]), host) == 200


def test_the_name_of_this_machine_is_ours() -> None:
    """Clients on other machines use it."""
    assert status(Access("", []), f"{socket.gethostname().upper()}:8000") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[evil]",
        "[::1].evil.example]",
        "node8",
        "*",
    ],
)
def test_names_of_other_sites_are_refused(host: str) -> None:
    """Foreign names are refused: they may resolve to this machine, but the browser still sends them."""
    found = status(Access("", ["node7"]), host)
    assert found == (200 if host.startswith("[::1]") else 421)


def test_any_name_can_be_allowed() -> None:
    """Any name can be allowed, because the name behind a proxy is not known in advance."""
    assert status(Access("", ["*"]), "evil.example") == 200


def test_a_long_host_is_cut_in_the_message() -> None:
    """The answer does not repeat a header of any size."""
    with pytest.raises(Problem) as caught:
        Access("", []).check("x" * 10_000, "")
    assert len(caught.value.failure.message) < 300


@pytest.mark.parametrize(
    "sent", ["", TOKEN, "Bearer ", f"Bearer {TOKEN}x", f"Bearer{TOKEN}", f"Basic {TOKEN}", "Basic x", "Bearer é"]
)
def test_a_missing_or_wrong_token_is_refused(sent: str) -> None:
    """The answer says how to send it."""
    with pytest.raises(Problem) as caught:
        Access(TOKEN, []).check("127.0.0.1", sent)
    assert caught.value.status == 401
    assert caught.value.headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_token_opens(scheme: str) -> None:
    """The word before it may be in any case. The host is checked first: pages of other sites learn nothing."""
    access = Access(TOKEN, [])
    assert status(access, "127.0.0.1:8000", f"{scheme} {TOKEN}") == 200
    assert status(access, "evil.example", f"Bearer {TOKEN}") == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    """A loopback address needs no token, because no other machine reaches it."""
    assert is_loopback(host)
    check_token(host, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "10.1.2.3", "node7", "2001:db8::1"])
def test_other_addresses_need_a_token(host: str) -> None:
    """A name counts as reachable, even if it resolves to this machine."""
    assert not is_loopback(host)
    with pytest.raises(UsageError, match="needs a token"):
        check_token(host, "")
    check_token(host, TOKEN)


@pytest.mark.parametrize("token", ["short", "0123456789abcde"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_weak_token_is_refused_everywhere(host: str, token: str) -> None:
    """The message does not repeat it."""
    with pytest.raises(UsageError, match="too weak") as caught:
        check_token(host, token)
    assert token not in str(caught.value)


@pytest.mark.parametrize("end", [" ", " 0", "\n", "é"])
def test_a_token_that_no_header_carries_is_refused(end: str) -> None:
    """The server would cut a space at its end, and then refuse all requests. The message does not repeat it."""
    with pytest.raises(UsageError, match="no header can carry") as caught:
        check_token("127.0.0.1", TOKEN + end)
    assert TOKEN not in str(caught.value)
