"""Feeds beside an aggregator: a `telemetry feed` process for each, restarted if it is killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from telemetry.cli import console
from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.errors import UsageError
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import telemetry_command

_LAST_WORDS_S: Final = 10.0  # for messages that were sent already, and the producer's goodbye
_MANNER: Final = ChildPolicy("feed", holds_term=True)


def check_feeds(texts: Sequence[str]) -> None:
    """Raise UsageError for an invalid feed, or one that is named twice."""
    from telemetry.integrations.feeds import load_feed, parse_feed

    for text in texts:
        load_feed(parse_feed(text).name)
    if len(set(texts)) < len(texts):
        raise UsageError("the same feed is given twice", hint="remove one: otherwise its requests count twice")


def feed_command(feed: str, endpoint: str, *, texts: bool, beside: int = 0) -> list[str]:
    flags = [*(["--beside", str(beside)] if beside else []), *([] if texts else ["--no-texts"])]
    return [*telemetry_command(), "feed", feed, endpoint, *flags]


class Feeds(Participant):
    """The feed processes of a run. A context manager that leaves no process behind.

    Messages of the feeds go to `say`, called from their threads.
    """

    def __init__(
        self,
        feeds: Sequence[str],
        say: Callable[[str], object] = console.say,
        *,
        texts: bool = True,
        beside: int = 0,
        command: Callable[..., list[str]] = feed_command,
    ) -> None:
        """Check the feeds. Raises UsageError as `check_feeds` does.

        `beside` is a process: all sessions of its descendants are taken in. 0 takes in one session of any sender
        found.
        """
        if feeds:
            check_feeds(feeds)
        self._names = list(feeds)
        self._say = say
        self._texts = texts
        self._beside = beside
        self._command = command
        self._feeds: list[Child] = []

    @property
    def pids(self) -> list[int]:
        """Process ids of the feeds."""
        return [feed.pid for feed in self._feeds]

    @property
    def failed(self) -> bool:
        """True if a feed failed or received nothing. Valid once the feeds have ended."""
        return any(feed.code != 0 for feed in self._feeds)

    def begin(self, run: BegunRun) -> dict[str, str]:
        """Start the feeds. Raises OSError."""
        for name in self._names:
            command = self._command(name, run.endpoint, texts=self._texts, beside=self._beside)
            self._feeds.append(Child(name, command, _MANNER, self._say))
        return {}

    def end(self) -> None:
        """Let the feeds take all messages sent so far, then end them.

        Blocks for at most about ten seconds for all together. May be called twice.
        """
        for feed in self._feeds:
            feed.ask_to_end()
        deadline_s = time.monotonic() + _LAST_WORDS_S
        for feed in self._feeds:
            if not feed.wait(deadline_s):
                feed.kill()
