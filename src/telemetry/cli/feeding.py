"""Feeds beside an aggregator: each a `telemetry feed` of its own, which is started again if it is killed."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Final, Self

from telemetry import limits
from telemetry.cli import console
from telemetry.emit.spawn import telemetry_command
from telemetry.errors import UsageError
from telemetry.humane import printable

_LAST_WORDS_S: Final = 10.0  # for what has been sent already, and the goodbye of a producer
_KILLED_S: Final = 10.0  # for the end of a process that was killed
_LINE_BYTES: Final = 4 * limits.KIB


def check_feeds(texts: Sequence[str]) -> None:
    """Raises UsageError for one that can't be."""
    from telemetry.integrations.feeds import load_feed, parse_feed

    for text in texts:
        load_feed(parse_feed(text).name)
    if len(set(texts)) < len(texts):
        raise UsageError("a feed is named twice", hint="leave one out: its requests would count twice")


def feed_command(feed: str, endpoint: str, *, texts: bool) -> list[str]:
    return [*telemetry_command(), "feed", feed, endpoint, *([] if texts else ["--no-texts"])]


class Feeding:
    """A context manager, which leaves no process behind. What the feeds say goes to `say`, from their threads."""

    def __init__(
        self,
        feeds: Sequence[str],
        say: Callable[[str], object] = console.say,
        *,
        texts: bool = True,
        command: Callable[..., list[str]] = feed_command,
    ) -> None:
        """Raises UsageError as `check_feeds`."""
        if feeds:
            check_feeds(feeds)
        self._names = list(feeds)
        self._say = say
        self._texts = texts
        self._command = command
        self._feeds: list[_Feed] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def failed(self) -> bool:
        """Whether one did not end well, or nothing came to it. To be asked when they have ended."""
        return any(feed.code != 0 for feed in self._feeds)

    def begin(self, endpoint: str) -> None:
        """Starts them for the run that listens there. Raises OSError."""
        for name in self._names:
            self._feeds.append(_Feed(name, self._command(name, endpoint, texts=self._texts), self._say))

    def end(self) -> None:
        """Has them take what was sent until now and end. Blocks for about ten seconds at most, for all of them
        together. May be called twice."""
        for feed in self._feeds:
            feed.ask_to_end()
        deadline_s = time.monotonic() + _LAST_WORDS_S
        for feed in self._feeds:
            feed.wait(deadline_s)


class _Feed:
    def __init__(self, name: str, command: Sequence[str], say: Callable[[str], object]) -> None:
        self.code: int | None = None
        """That the last of its processes ended with; None before."""
        self._name = name
        self._command = command
        self._say = say
        self._lock = threading.Lock()
        self._ending = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._look_after, name="telemetry-feed", daemon=True)
        self._thread.start()

    def ask_to_end(self) -> None:
        with self._lock:
            self._ending = True
            with suppress(ProcessLookupError):
                self._process.terminate()

    def wait(self, deadline_s: float) -> None:
        """Kills one that has not ended by then."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        if self._thread.is_alive():
            with suppress(ProcessLookupError):
                self._process.kill()
            self._thread.join(_KILLED_S)

    def _start(self) -> subprocess.Popen[bytes]:
        """In a session of its own: a terminal's signals are for the command, which has still something to say.

        SIGTERM is blocked in it until it says that it can be asked to end.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _look_after(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        for left in reversed(range(limits.RESTARTS + 1)):
            code = self._until_it_ends()
            with self._lock:
                if self._ending or code >= 0:
                    break
                again = "; it is started again" if left else ""
                self._say(f"{printable(self._name)}: the feed was ended by signal {-code}{again}")
                if left:
                    self._process = self._start()
        self.code = code
        if code > 0:
            self._say(f"{printable(self._name)}: the feed ended with code {code}")

    def _until_it_ends(self) -> int:
        with self._process as process:
            assert process.stderr is not None
            for line in _lines(process.stderr):
                self._say(line)
        return process.returncode


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """What a feed says, without who says it: that is said again."""
    while line := stream.readline(_LINE_BYTES):
        words = printable(line.decode(errors="replace").rstrip())
        if words:
            yield words.removeprefix("telemetry: ")
