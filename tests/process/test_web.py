"""`telemetry top --web` in a real browser: it draws, hears keys, asks nobody else, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import pytest
from tests.process.conftest import DEADLINE_S, Ground

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = Path(__file__).parents[2] / "build"
ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][0-9A-B])")
WORK = """
import sys
import telemetry

run = telemetry.start()
latency = run.series("latency", unit="ms", route="/search")
for value in range(1, 101):
    latency.record(value)
sys.stdin.read()
"""


@pytest.fixture
def page(require_tool: Callable[[str], str]) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    chromium = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        made = browser.new_context(viewport={"width": 1280, "height": 720}).new_page()
        made.set_default_timeout(DEADLINE_S * 1_000)
        yield made
        browser.close()


class Seen:
    """A record of what the page has asked for, and of what its terminal had to draw."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._drawn = b""
        self.asked: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", self._listen)

    def _listen(self, terminal: object) -> None:
        self.asked.append(terminal.url)  # type: ignore[attr-defined]
        terminal.on("framereceived", self._hear)  # type: ignore[attr-defined]

    def _hear(self, frame: bytes | str) -> None:
        if isinstance(frame, bytes):
            self._drawn += frame

    def wait_for(self, *words: str) -> None:
        """Wait until all of these words have been drawn since the last call."""
        deadline = time.monotonic() + DEADLINE_S
        while not all(word in (text := ESCAPE.sub(b"", self._drawn).decode(errors="replace")) for word in words):
            assert time.monotonic() < deadline, (words, text)
            self._page.wait_for_timeout(20)
        self._drawn = b""


def served(ground: Ground, *words: str) -> tuple[subprocess.Popen[str], str]:
    """The command, and the address it said."""
    server = ground.telemetry("top", "--web", *words)
    assert server.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", server.stderr.readline())
    assert found
    return server, found[0]


def test_a_run_in_a_browser(ground: Ground, page: Page, wait_until: Callable[..., object]) -> None:
    """The table is there, a key works, and all of it comes from this machine.

    A page that is closed ends its viewer, SIGTERM all of them and the server; the run goes on.
    """
    aggregator, endpoint = ground.serve()
    ground.popen(sys.executable, "-c", WORK, environ={"TELEMETRY_ENDPOINT": endpoint}, stdin=subprocess.PIPE)
    server, address = served(ground, "job")
    seen = Seen(page)
    page.goto(address)
    seen.wait_for("LIVE", "latency{route=/search}", "p99")
    page.keyboard.press("2")
    seen.wait_for(f"{socket.gethostname()}:")
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / "cockpit-in-a-browser.png")
    host = address.partition("/?")[0].removeprefix("http://")
    assert {urlsplit(url).netloc for url in seen.asked} == {host}

    (viewer,) = viewers(server.pid)
    second = page.context.new_page()
    second.goto(address)
    wait_until(lambda: len(viewers(server.pid)) == 2, DEADLINE_S, "a viewer for the second page")
    page.close()
    viewer.wait(DEADLINE_S)
    assert len(viewers(server.pid)) == 1

    family = psutil.Process(server.pid).children(recursive=True)
    server.send_signal(signal.SIGTERM)
    assert server.wait(DEADLINE_S) == 0
    assert psutil.wait_procs(family, timeout=DEADLINE_S)[1] == []
    assert aggregator.poll() is None


def test_a_server_whose_parent_is_killed(ground: Ground, page: Page, wait_until: Callable[..., object]) -> None:
    """A server whose parent is killed ends by itself, and its viewers end too."""
    ground.serve()
    server, address = served(ground, "job")
    page.goto(address)
    wait_until(lambda: viewers(server.pid), DEADLINE_S, "a viewer")
    family = psutil.Process(server.pid).children(recursive=True)
    server.kill()
    assert psutil.wait_procs(family, timeout=DEADLINE_S)[1] == []


def viewers(pid: int) -> list[psutil.Process]:
    """The processes behind open pages."""
    return [child for child in psutil.Process(pid).children(recursive=True) if "--served" in child.cmdline()]
