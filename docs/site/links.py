"""Finds links of the built site that lead nowhere: to a page, a heading or a picture that is not there.

It reads the HTML, so it also sees the pages that are written from the code. Links to other sites are not followed.
Scripts, styles and pictures of other sites are errors, because the site has to work without a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MADE_BY_SCRIPTS = ("__",)
"""Anchors that begin so are put there by the theme's script."""


class Page(HTMLParser):
    """The links of a page, and the places in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.loaded: list[str] = []
        """Addresses that a browser loads together with the page."""
        self.anchors = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and tag in ("a", "img", "link", "script", "iframe"):
                self.links.append(value or "")
                if name == "src" or ("rel", "stylesheet") in attrs:
                    self.loaded.append(value or "")


def broken(site: Path) -> Iterator[tuple[str, str]]:
    """Yield the page and the link of each link that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    for page in pages.values():
        if page.path.name == "404.html":  # served from any folder
            continue
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield page.path.relative_to(site).as_posix(), link
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
            anchor = unquote(parts.fragment)
            exists = target.is_file() and target.is_relative_to(site.resolve())
            if exists and target in pages and not anchor.startswith(MADE_BY_SCRIPTS):
                exists = anchor in pages[target].anchors
            if not exists:
                yield page.path.relative_to(site).as_posix(), link
