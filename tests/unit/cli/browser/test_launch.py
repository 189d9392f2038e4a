"""Serving the cockpit: what can go wrong before there is a page."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from telemetry.cli.browser import launch
from telemetry.errors import EndpointError, TelemetryError


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody listens on."""
    with socket.socket() as listener:
        listener.bind((launch.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_without_textual_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the command that installs it."""
    monkeypatch.setattr("telemetry.cli.browser.launch.find_spec", lambda _name: None)
    with pytest.raises(TelemetryError, match=r"pip install 'telemetryd\[web\]'") as caught:
        launch.serve([sys.executable], None, "job")
    assert caught.value.exit_code == 1


def test_a_port_that_was_asked_for_is_taken(taken: int) -> None:
    """A requested port that is taken is named in the error, and no other is taken in its place."""
    with pytest.raises(EndpointError, match=f"port {taken}: .*another --port"):
        launch.serve([sys.executable], taken, "job")


def test_the_usual_port_is_taken(
    taken: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A server uses a free port if the usual one is taken. A server that ends by itself is an error."""
    monkeypatch.setattr(launch, "PORT", taken)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(TelemetryError, match="the web server exited with code 1"):
        launch.serve(["/bin/true"], None, "job")
    said = capfd.readouterr().err
    assert "http://127.0.0.1:" in said
    assert f":{taken}/" not in said
