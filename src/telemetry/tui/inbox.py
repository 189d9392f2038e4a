"""A bounded inbox in which a feed's threads leave news for the app. A newer item replaces an older one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from telemetry.tui.feed.news import MembersOf, News, Note, Trends
from telemetry.tui.model.scene import TREND_POINTS

_NOTES: Final = 20
"""Largest number of unread notes. Users do not read more at once."""


class Inbox:
    """An inbox. Any thread may call `tell`; one thread calls `take`.

    `wake` is called for the first news after each `take`, by the thread that calls `tell`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._newest: dict[tuple[type[News], str], News] = {}
        """The newest news by kind; producers of nodes also by node."""
        self._trends: deque[News] = deque(maxlen=TREND_POINTS)
        self._notes: deque[News] = deque(maxlen=_NOTES)
        self._awake = False

    def tell(self, news: News) -> None:
        with self._lock:
            if isinstance(news, Trends):
                self._trends.append(news)
            elif isinstance(news, Note):
                self._notes.append(news)
            else:
                self._newest[type(news), news.node if isinstance(news, MembersOf) else ""] = news
            woken, self._awake = self._awake, True
        if not woken:
            self._wake()

    def take(self) -> list[News]:
        """Return the news since the last call: the newest of each kind, all trends and all notes."""
        with self._lock:
            news = [*self._newest.values(), *self._trends, *self._notes]
            self._newest.clear()
            self._trends.clear()
            self._notes.clear()
            self._awake = False
        return news
