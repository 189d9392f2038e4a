"""A page of telemetry in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

FINISHED = "html[data-drawn=true]"
"""Found once the page has drawn all that is visible without a click. Its policy forbids to evaluate conditions."""


class Seen:
    """A page in the browser, and all that it did besides being drawn."""

    def __init__(self, browser: Page, folder: Path) -> None:
        self.page = browser
        self._folder = folder
        self.asked: list[str] = []
        self.said: list[str] = []
        browser.on("request", lambda request: self.asked.append(request.url))
        browser.on("console", lambda message: self.said.append(message.text))
        browser.on("pageerror", lambda error: self.said.append(str(error)))
        browser.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def open(self, html: str) -> Page:
        """Open a page from a file, as people do."""
        path = self._folder / "report.html"
        path.write_text(html)
        self.page.goto(path.as_uri())
        return self.page

    def report(self, html: str) -> Page:
        """Open a report and wait until its pictures are drawn."""
        self.open(html)
        self.page.locator(FINISHED).wait_for(state="attached")
        return self.page

    def check_quiet(self) -> None:
        """Check that there was no error, no message, no dialog, and no request to another address."""
        assert self.said == []
        assert [url for url in self.asked if not url.endswith("/report.html")] == []
