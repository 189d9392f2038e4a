"""Where the threads of a feed leave news for the app: bounded, the newest wins."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from telemetry.tui.feed.news import News, Note, Trends
from telemetry.tui.model.scene import TREND_POINTS

_NOTES: Final = 20
"""Unread sentences; nobody reads more at once."""


class Inbox:
    """`tell` is for any thread and `take` for one. `wake` is called, by the thread that tells, for the first news
    after each `take`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._newest: dict[type[News], News] = {}
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
                self._newest[type(news)] = news
            woken, self._awake = self._awake, True
        if not woken:
            self._wake()

    def take(self) -> list[News]:
        """All that has come since the last call: of each kind the newest, all trends and all notes."""
        with self._lock:
            news = [*self._newest.values(), *self._trends, *self._notes]
            self._newest.clear()
            self._trends.clear()
            self._notes.clear()
            self._awake = False
        return news
