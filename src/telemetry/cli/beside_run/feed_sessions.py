"""The sessions of a command: one thread listens to each of its senders until it is asked to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from telemetry import limits
from telemetry.history.request_model import issued_kind
from telemetry.integrations.feeds import Ending, Feed, FeedLoop
from telemetry.transport.subscription import ForeignSubscription
from telemetry.wire.feeds import SESSION
from telemetry.wire.snapshot import CounterStat

_LOOK_S: Final = 0.1


class SessionNumbering:
    """A counter that names sessions, in the order of their first messages. Thread-safe."""

    def __init__(self, before: int = 0) -> None:
        """Start after `before` sessions, which an earlier process reported."""
        self._lock = threading.Lock()
        self._count = before

    def __call__(self) -> str:
        """Return the label of the next session; empty for the first."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                return ""
            most = limits.FEED_SESSIONS
            return str(self._count) if self._count <= most else f"{most}+"


def sessions_in(counters: Iterable[CounterStat]) -> int:
    """Return the number of sessions in a run's counters: those that a feed reported before it was killed."""
    numbers = [0]
    for stat in counters:
        if issued_kind(stat.name, stat.unit):
            label = stat.labels.get(SESSION, "1").rstrip("+")
            numbers.append(int(label) if label.isdecimal() else 0)
    return max(numbers)


class FeedSession:
    """A feed that is created on its first message: the number of the session is not known before."""

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
    """The sessions of one command. `run` blocks the main thread; each sender has its own thread."""

    def __init__(
        self,
        topics: Sequence[bytes],
        begin: Callable[[str], Feed],
        numbering: SessionNumbering,
        *,
        patient: bool,
        say: Callable[[str], object],
        note: Callable[[str], object],
        told: Callable[[Ending, int], object],
    ) -> None:
        """Prepare the sessions.

        `begin` returns the feed of a new session, by its number. `patient` is True if a new sender may appear
        at the address of one that is gone. `note` gets messages for readers of the result too. `told` gets the
        ending of each session and its number of messages. Functions are called from any thread.
        """
        self._topics = topics
        self._begin = begin
        self._numbering = numbering
        self._patient = patient
        self._say = say
        self._note = note
        self._told = told
        self._stopped = threading.Event()
        self._run_over = threading.Event()

    def run(
        self, find: Callable[[], list[str]], stopped: Callable[[], bool], run_over: Callable[[], bool]
    ) -> Ending:
        """Listen to all addresses that `find` returns until asked to stop. Takes all messages sent by then.

        Raises what `find` raises, and EndpointError.
        """
        listening: list[Future[None]] = []
        with ThreadPoolExecutor(limits.FEED_PLACES, "telemetry-feed") as pool:
            try:
                while not stopped() and not run_over():
                    listening += [pool.submit(self._listen, address) for address in find()]
                    for future in [future for future in listening if future.done()]:
                        listening.remove(future)
                        future.result()
                    time.sleep(_LOOK_S)
            finally:
                (self._run_over if run_over() else self._stopped).set()
            for future in listening:
                future.result()
        return "run_over" if self._run_over.is_set() else "stopped"

    def _listen(self, address: str) -> None:
        """Take one session after another until the sender is gone."""
        with ForeignSubscription(address, self._topics) as messages:
            self._say(f"listening to {address}")
            note = self._note
            while True:
                session = FeedSession(lambda: self._begin(self._numbering()))
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
                note = _pass  # silence after a session is normal, so later notes are dropped


def _pass(_message: str) -> None:
    """Drop a message."""
