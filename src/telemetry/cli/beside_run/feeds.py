"""Feeds beside an aggregator: each a `telemetry feed` of its own, which is started again if it is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from telemetry.cli import console
from telemetry.errors import UsageError
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import telemetry_command

_LAST_WORDS_S: Final = 10.0  # for what has been sent already, and the goodbye of a producer
_MANNER: Final = ChildPolicy("feed", holds_term=True)


def check_feeds(texts: Sequence[str]) -> None:
    """Raises UsageError for one that can't be."""
    from telemetry.integrations.feeds import load_feed, parse_feed

    for text in texts:
        load_feed(parse_feed(text).name)
    if len(set(texts)) < len(texts):
        raise UsageError("a feed is named twice", hint="leave one out: its requests would count twice")


def feed_command(feed: str, endpoint: str, *, texts: bool, beside: int = 0) -> list[str]:
    flags = [*(["--beside", str(beside)] if beside else []), *([] if texts else ["--no-texts"])]
    return [*telemetry_command(), "feed", feed, endpoint, *flags]


class Feeds:
    """A context manager, which leaves no process behind. What the feeds say goes to `say`, from their threads."""

    def __init__(
        self,
        feeds: Sequence[str],
        say: Callable[[str], object] = console.say,
        *,
        texts: bool = True,
        beside: int = 0,
        command: Callable[..., list[str]] = feed_command,
    ) -> None:
        """`beside`: the process whose descendants are fed from, all their sessions; 0: one session of whoever is
        there. Raises UsageError as `check_feeds`."""
        if feeds:
            check_feeds(feeds)
        self._names = list(feeds)
        self._say = say
        self._texts = texts
        self._beside = beside
        self._command = command
        self._feeds: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pids(self) -> list[int]:
        """Their processes."""
        return [feed.pid for feed in self._feeds]

    @property
    def failed(self) -> bool:
        """Whether one did not end well, or nothing came to it. To be asked when they have ended."""
        return any(feed.code != 0 for feed in self._feeds)

    def begin(self, endpoint: str) -> None:
        """Starts them for the run that listens there. Raises OSError."""
        for name in self._names:
            command = self._command(name, endpoint, texts=self._texts, beside=self._beside)
            self._feeds.append(Child(name, command, _MANNER, self._say))

    def end(self) -> None:
        """Has them take what was sent until now and end. Blocks for about ten seconds at most, for all of them
        together. May be called twice."""
        for feed in self._feeds:
            feed.ask_to_end()
        deadline_s = time.monotonic() + _LAST_WORDS_S
        for feed in self._feeds:
            if not feed.wait(deadline_s):
                feed.kill()
