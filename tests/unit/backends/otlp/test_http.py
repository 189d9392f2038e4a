"""OTLP over HTTP."""

from __future__ import annotations

from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.otlp_receiver import Answer, HttpReceiver

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.otlp.http import HttpSender, retry_after_s
from telemetry.backends.otlp.messages import metrics_request
from telemetry.backends.otlp.receiver import KeyRefused, NotTaken, OtlpOptions, Taken, target_of

REQUEST = metrics_request([], {"service.name": "x"})


def send(folder: Path, *answers: Answer) -> Taken:
    with HttpReceiver(folder / "got") as there:
        there.answers = list(answers)
        sender = HttpSender(target_of(OtlpOptions(endpoint=there.endpoint), {}))
        return sender.send("metrics", REQUEST)


def test_a_request_arrives(tmp_path: Path) -> None:
    """A request arrives as it was, although it was made smaller on the way."""
    assert send(tmp_path) == Taken()
    (path,) = (tmp_path / "got").iterdir()
    assert path.read_bytes() == REQUEST.SerializeToString()


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        (Answer(body=b"\x0a\x02\x08\x05"), Taken(5)),
        (Answer(headers={"Content-Type": "application/json"}, body=b"{}"), Taken()),
        (Answer(body=b"\xff\xff"), Taken(0, "its answer is unreadable")),
    ],
)
def test_answers_are_read(tmp_path: Path, answer: Answer, taken: Taken) -> None:
    """One that is no protobuf says nothing."""
    assert send(tmp_path, answer) == taken


@pytest.mark.parametrize(
    ("status", "kind", "attributes"),
    [
        (400, NotTaken, {"reason": "http_400", "too_large": False, "unknown": False}),
        (404, NotTaken, {"unknown": True}),
        (413, NotTaken, {"too_large": True}),
        (302, NotTaken, {"reason": "http_302"}),
        (501, NotTaken, {"unknown": True}),
        (401, KeyRefused, {}),
        (403, KeyRefused, {}),
        (429, Unavailable, {"after_s": 7.0}),
        (500, Unavailable, {}),
        (503, Unavailable, {"after_s": 7.0}),
    ],
)
def test_errors_mean_what_they_say(
    tmp_path: Path, status: int, kind: type[Exception], attributes: dict[str, Any]
) -> None:
    """An HTTP status means a failure that passes, a refused key, or a request that is not taken.

    The error tells when to come again.
    """
    headers = {"Retry-After": "7", "Content-Type": "text/plain", "Location": "/v1/metrics"}
    with pytest.raises(kind, match=f"HTTP {status}: too\\\\x1b bad") as told:
        send(tmp_path, Answer(status, headers, b"too\x1b\n bad"))
    assert {name: getattr(told.value, name) for name in attributes} == attributes


def test_nobody_there_may_pass(tmp_path: Path) -> None:
    """The receiver may come back."""
    with HttpReceiver(tmp_path / "got") as there:
        endpoint = there.endpoint
    with pytest.raises(Unavailable, match="refused"):
        HttpSender(target_of(OtlpOptions(endpoint=endpoint), {})).send("metrics", REQUEST)


def test_a_certificate_that_is_none_is_said(tmp_path: Path) -> None:
    """A certificate file that can't be read is named in the error."""
    target = target_of(
        OtlpOptions(endpoint="https://x:1"), {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "none")}
    )
    with pytest.raises(NotConfigured, match=r"can't read .*none"):
        HttpSender(target)


@given(
    st.text() | st.integers().map(str) | st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S -0000"))
)
def test_any_header_is_a_time_within_an_hour(header: str) -> None:
    """Any text of a receiver's header gives a time from now to an hour ahead."""
    assert 0.0 <= retry_after_s(header, 0.0) <= 3_600.0


def test_when_to_come_again() -> None:
    """A time to come again is in seconds or a date, never more than an hour ahead nor before now."""
    assert retry_after_s("2.5", 0.0) == 2.5
    assert retry_after_s(formatdate(1_000_060, usegmt=True), 1_000_000.0) == 60.0
    assert [retry_after_s(odd, 0.0) for odd in ("", "soon", "nan", "-3", "1e999")] == [0.0, 0.0, 0.0, 0.0, 3600.0]
