"""Tests of the messages from the aggregator to the process that started it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.daemon.readiness import sd_notify, tell_failure, tell_ready
from telemetry.errors import EndpointError


@pytest.fixture(autouse=True)
def no_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)


@pytest.fixture
def manager(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(short_dir / "notify"))
        made.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(short_dir / "notify"))
        yield made


def line_of(tell: object) -> dict[str, object]:
    """Return the line that came through the pipe, and check that the pipe is closed afterwards."""
    reader, writer = os.pipe()
    tell(writer)  # type: ignore[operator]
    with os.fdopen(reader) as pipe:
        (line,) = pipe.read().splitlines()
    return dict(json.loads(line))


def test_ready_is_one_line_and_the_pipe_is_closed() -> None:
    """A reader that waits for readiness needs only the end of the line."""
    assert line_of(lambda fd: tell_ready(fd, {"pid": 5, "name": "ä"})) == {"pid": 5, "name": "ä"}


def test_failure_is_one_line_with_what_the_starter_needs_to_raise_it_again() -> None:
    """Message, hint, class and exit code."""
    error = EndpointError("in use", hint="choose another")
    assert line_of(lambda fd: tell_failure(fd, error)) == {
        "error": "in use",
        "hint": "choose another",
        "kind": "EndpointError",
        "exit_code": 1,
    }


def test_nobody_waits() -> None:
    """A missing pipe, or one whose reader is gone, is no failure of the aggregator."""
    tell_ready(None, {})
    reader, writer = os.pipe()
    os.close(reader)
    tell_ready(writer, {})


def test_the_service_manager_is_told(manager: socket.socket) -> None:
    """READY=1 with the ready line, anything else as it is."""
    tell_ready(None, {})
    assert manager.recv(100) == b"READY=1"
    sd_notify("STOPPING=1")
    assert manager.recv(100) == b"STOPPING=1"


def test_an_abstract_address_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abstract address, a name without a file, works: systemd in containers uses them."""
    name = f"telemetry-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        sd_notify("WATCHDOG=1")
        assert manager.recv(100) == b"WATCHDOG=1"


def test_a_manager_that_is_gone_is_no_failure(monkeypatch: pytest.MonkeyPatch, short_dir: Path) -> None:
    """The run matters more than who watches it."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(short_dir / "nobody"))
    sd_notify("READY=1")


def test_a_manager_that_does_not_read_blocks_nobody(manager: socket.socket) -> None:
    """A full queue loses a keep-alive, and costs no tick."""

    def flood() -> None:
        for _ in range(500):
            sd_notify("WATCHDOG=1")

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
