"""Addresses and errors of Apprise: what works is sent, what fails has a reason, and no reason has a secret."""

from __future__ import annotations

import logging
import time

import pytest
from tests.notification_receiver import SECRET, NotificationReceiver

from telemetry.backends.backend import NotConfigured
from telemetry.backends.notify.apprise_receiver import problems, receivers, scrubbed
from telemetry.backends.notify.message import message

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # plug-ins of Apprise, as they are imported


def test_a_notification_arrives() -> None:
    """Title, body and look."""
    with NotificationReceiver() as server:
        (one,) = receivers([server.url])
        lines = ["p99 5 ms < 9 ms & more", "*second* _line_"]
        assert one.send(message("k", "error", "Ünï: a <b>", lines, look="failure", time_ns=time.time_ns())) == ""
    (got,) = server.got
    assert (got.title, got.body, got.look) == ("Ünï: a <b>", "\n".join(lines), "failure")
    assert one.label == "json://***"


def test_a_failure_has_a_reason_without_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    """A secret of an address is neither in the reason of a failure nor printed by the library."""
    with NotificationReceiver() as server:
        server.is_down = True
        (one,) = receivers([server.url.replace("json://", "json://user:pa55w0rdx@")])
        reason = one.send(message("k", "error", "t", ["b"], look="info", time_ns=0))
        assert "503" in reason or "JSON" in reason
    gone = one.send(message("k", "error", "t", ["b"], look="info", time_ns=0))
    assert gone
    out, err = capfd.readouterr()
    assert out == err == ""
    for text in (reason, gone):
        assert SECRET not in text
        assert "pa55w0rdx" not in text


@pytest.mark.parametrize(
    "url", ["nosuch://token12345", "slack://token12345", "no address", "", "mailto://u:pa55w0rdx@"]
)
def test_a_wrong_address_is_named_without_its_secret(url: str) -> None:
    """An unknown service, or an address that lacks a part."""
    ((number, reason),) = problems(["json://127.0.0.1", url])
    assert number == 1
    assert reason
    assert "token12345" not in reason
    assert "pa55w0rdx" not in reason
    with pytest.raises(NotConfigured) as error:
        receivers([url])
    assert "token12345" not in str(error.value)


def test_parts_of_an_address_are_masked_in_any_spelling() -> None:
    """Libraries quote paths, hosts and queries of their own."""
    url = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnl%2Fzz?footer=no&to=person"
    text = "HTTPSConnectionPool(host='hooks'): /services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnl/zz failed\nto=person"
    found = scrubbed(text, url)
    assert "T1JJ3T3L2" not in found
    assert "TIiajkdnl" not in found
    assert "person" not in found
    assert "\n" not in found


def test_the_logging_of_the_process_stays() -> None:
    """The logging of the process stays as it is: only warnings of the library are kept from the log."""
    before = logging.getLogger("apprise").handlers[:]
    problems(["nosuch://x"])
    assert logging.getLogger("apprise").handlers == before
    assert logging.getLogger("apprise").propagate
