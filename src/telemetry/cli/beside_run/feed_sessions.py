"""The sessions of a command: a thread listens to each of its senders, until it is told to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.integrations.feed_loop import Ending, FeedLoop
from telemetry.integrations.feeds import Feed, FeedKind, FeedOptions
from telemetry.request_model import issued_kind
from telemetry.transport.foreign_subscription import ForeignSubscription
from telemetry.wire.feeds import SESSION
from telemetry.wire.snapshot import CounterStat

if TYPE_CHECKING:
    from telemetry.client import Run

_LOOK_S: Final = 0.1


class Numbering:
    """The names of sessions, in the order in which their first messages came. Thread-safe."""

    def __init__(self, before: int = 0) -> None:
        """`before`: sessions that another process has told of."""
        self._lock = threading.Lock()
        self._count = before

    def __call__(self) -> str:
        """Return the label of one session more; empty for the first."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                return ""
            most = limits.FEED_SESSIONS
            return str(self._count) if self._count <= most else f"{most}+"


def sessions_in(counters: Iterable[CounterStat]) -> int:
    """Return how many sessions a run has heard of: those that a feed told of before it was killed."""
    numbers = [0]
    for stat in counters:
        if issued_kind(stat.name, stat.unit):
            label = stat.labels.get(SESSION, "1").rstrip("+")
            numbers.append(int(label) if label.isdecimal() else 0)
    return max(numbers)


class Session:
    """A feed that is made when its first message comes: before that, nobody knows which session it is."""

    def __init__(self, make: Callable[[], Feed]) -> None:
        self._make = make
        self._feed: Feed | None = None

    @property
    def over(self) -> bool:
        return self._feed is not None and self._feed.over

    def take(self, message: bytes) -> None:
        if self._feed is None:
            self._feed = self._make()
        self._feed.take(message)

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()


class Sessions:
    """The sessions of one command. `run` blocks the main thread; each sender has a thread of its own."""

    def __init__(
        self,
        kind: FeedKind,
        run: Run,
        numbering: Numbering,
        *,
        texts: bool,
        patient: bool,
        say: Callable[[str], object],
        note: Callable[[str], object],
        told: Callable[[Ending, int], object],
    ) -> None:
        """`patient`: another sender may come to the address of one that is gone. `note` is given what readers of
        the result should know, too; `told` how each session ended, and how many messages it had. Both are called
        from any thread."""
        self._kind = kind
        self._run = run
        self._numbering = numbering
        self._texts = texts
        self._patient = patient
        self._say = say
        self._note = note
        self._told = told
        self._stopped = threading.Event()
        self._run_over = threading.Event()

    def run(
        self, find: Callable[[], list[str]], stopped: Callable[[], bool], run_over: Callable[[], bool]
    ) -> Ending:
        """Listens to all that `find` finds, until it is told to end. Takes what has been sent by then. Raises what
        `find` and EndpointError."""
        listening: list[Future[None]] = []
        with ThreadPoolExecutor(limits.FEED_PLACES, "telemetry-feed") as pool:
            try:
                while not stopped() and not run_over():
                    listening += [pool.submit(self._listen, address) for address in find()]
                    for one in [one for one in listening if one.done()]:
                        listening.remove(one)
                        one.result()
                    time.sleep(_LOOK_S)
            finally:
                (self._run_over if run_over() else self._stopped).set()
            for one in listening:
                one.result()
        return "run_over" if self._run_over.is_set() else "stopped"

    def _listen(self, address: str) -> None:
        """One session after another, until the sender is gone."""
        with ForeignSubscription(address, self._kind.topics) as messages:
            self._say(f"listening to {address}")
            note = self._note
            while True:
                session = Session(self._begin)
                feed_loop = FeedLoop(
                    session, messages, run_over=self._run_over.is_set, stopped=self._stopped.is_set, say=note
                )
                try:
                    ending = feed_loop.run()
                finally:
                    session.close()
                if feed_loop.taken:
                    self._told(ending, feed_loop.taken)
                gave_up = ending == "gone" and not feed_loop.taken and not self._patient
                if gave_up or ending in ("stopped", "run_over"):
                    return
                note = _pass  # that nothing comes after a session is no news

    def _begin(self) -> Feed:
        return self._kind(self._run, FeedOptions(say=self._say, texts=self._texts, session=self._numbering()))


def _pass(_words: str) -> None:
    """A line that nobody needs."""
