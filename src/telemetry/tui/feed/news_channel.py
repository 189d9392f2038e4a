"""The channel from a feed's threads to the receiver of news."""

from __future__ import annotations

from telemetry.tui.feed.news import News, Tell


class NewsChannel:
    """A channel that passes news on between `open` and `close`. Thread-safe."""

    def __init__(self) -> None:
        self._tell: Tell | None = None

    def open(self, tell: Tell) -> None:
        self._tell = tell

    def close(self) -> None:
        self._tell = None

    def tell(self, news: News) -> None:
        tell = self._tell
        if tell is not None:
            tell(news)
