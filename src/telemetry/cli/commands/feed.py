"""`telemetry feed`: messages that another program publishes, recorded as part of a run."""

from __future__ import annotations

import argparse
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.common.formatting import number_of, printable
from telemetry.errors import EndpointError, TelemetryError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.client import Run
    from telemetry.integrations.feeds import Ending, Feed, FeedKind, FeedSpec

_VARIABLE: Final = "TELEMETRY_ENDPOINT"
_SILENT_S: Final = 2.0  # snapshots arrive several times a second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "feed",
        metavar="NAME[:ADDRESS]",
        help="feed, such as `endpoints`, and the address it is published at: ipc://PATH (may contain "
        "`*`) or tcp://HOST:PORT; without an address, search this machine",
    )
    find_run.add_run_argument(parser)
    parser.add_argument(
        "--beside",
        type=int,
        default=0,
        metavar="PID",
        help="receive all sessions of the processes started by PID, and only those, until stopped; "
        "`telemetry run` uses this for its command",
    )
    parser.add_argument("--no-texts", action="store_true", help="ignore texts: do not count their tokens")


def run(args: argparse.Namespace) -> int:
    from telemetry.client import start
    from telemetry.client.process import PROCESS
    from telemetry.integrations.feeds import load_feed, parse_feed

    stop = _FeedStop()
    spec = parse_feed(args.feed)
    kind = load_feed(spec.name)
    endpoint = _endpoint(args)
    os.environ[_VARIABLE] = endpoint
    with ExitStack() as last:
        watch = last.enter_context(_EndWatch(endpoint))
        PROCESS.ends_with_run = True  # a feed has no events of its own: it is at work only within a session
        feed_run = start(
            f"{spec.name} feed", policy="block"
        )  # blocking is fine: the sender's messages wait meanwhile
        last.callback(feed_run.finish)
        fed = _Fed(spec, kind, feed_run, texts=not args.no_texts, beside=args.beside, endpoint=endpoint)
        PROCESS.is_at_work = fed.is_at_work
        return _feed(fed, watch, stop)


def _feed(fed: _Fed, watch: _EndWatch, stop: _FeedStop) -> int:
    """Take messages until the feed ends, and mark a failure in the run. Raises EndpointError."""
    wrong = "the feed failed"
    try:
        ending = _take_all(fed, watch, stop) if fed.beside else _take_one(fed, watch, stop)
        wrong = "" if fed.taken or ending == "run_over" else "no messages received"  # a stopped run takes no marks
    except TelemetryError as error:
        wrong = str(error)
        raise
    finally:
        if wrong:
            fed.mark(wrong)
    if not fed.taken:
        fed.say(f"{_IN_WORDS[ending]}; no messages received")
        return Exit.ERROR if ending == "gone" else Exit.BACKEND_FAILED
    return Exit.ERROR if fed.went else Exit.OK


class _Fed:
    """A feed, its run, and counts of what it received. Thread-safe."""

    def __init__(
        self, spec: FeedSpec, kind: FeedKind, run: Run, *, texts: bool, beside: int = 0, endpoint: str = ""
    ) -> None:
        self.spec = spec
        self.run = run
        self.beside = beside
        self.endpoint = endpoint
        self._kind = kind
        self._texts = texts
        self.taken = 0
        """Messages taken so far."""
        self.went = 0
        """Senders that disappeared without an end message."""
        self._feeds: list[Feed] = []
        """Feeds of the sessions that have begun."""
        self._lock = threading.Lock()

    @property
    def topics(self) -> Sequence[bytes]:
        return self._kind.topics

    def begin(self, number: str = "") -> Feed:
        """Return the feed of a session that begins."""
        from telemetry.integrations.feeds import FeedOptions

        feed = self._kind(self.run, FeedOptions(say=self.say, texts=self._texts, session=number))
        with self._lock:
            self._feeds = [feed, *(other for other in self._feeds if not other.over)]
        return feed

    def is_at_work(self) -> bool:
        """Return whether a session has begun and not ended, so that its sender may still send."""
        with self._lock:
            return not all(feed.over for feed in self._feeds)

    def say(self, message: str) -> None:
        console.say(f"{self.spec.name}: {message}")

    def mark(self, message: str) -> None:
        self.run.mark(printable(f"feed {self.spec}: {message}"))

    def note(self, message: str) -> None:
        """Print a message and mark it in the run, for readers of the result. A stopped run takes no more marks."""
        self.say(message)
        self.mark(message)

    def tell(self, ending: Ending, taken: int) -> None:
        """Count and report the end of one sender."""
        with self._lock:
            self.taken += taken
            self.went += ending == "gone"
        if ending == "gone":
            self.mark(_IN_WORDS[ending])
        self.say(f"{_IN_WORDS[ending]}; received {number_of(taken, 'message')}")

    @property
    def patterns(self) -> list[str]:
        """Address patterns to search for senders; empty for a fixed address. Raises EndpointError."""
        from telemetry.integrations.sender_addresses import is_pattern

        name, address = self.spec.name, self.spec.address
        if address and not is_pattern(address):
            return []
        patterns = [address] if address else list(self._kind.addresses)
        if not patterns:
            raise EndpointError(f"{name} has no default address", hint=f"write {name}:ADDRESS")
        return patterns


def _take_one(fed: _Fed, watch: _EndWatch, stop: _FeedStop) -> Ending:
    """Take the messages of one sender until it ends."""
    from telemetry.cli.beside_run.feed_sessions import FeedSession
    from telemetry.integrations.feeds import FeedLoop
    from telemetry.integrations.sender_addresses import await_listening
    from telemetry.transport.subscription import ForeignSubscription

    address = fed.spec.address
    if patterns := fed.patterns:
        address = await_listening(patterns, lambda: bool(stop) or watch.over(), fed.note)
        if not address:
            return "stopped" if stop else "run_over"
    with ForeignSubscription(address, fed.topics) as messages:
        fed.say(f"listening to {address}")
        session = FeedSession(fed.begin)
        feed_loop = FeedLoop(session, messages, run_over=watch.over, stopped=lambda: bool(stop), say=fed.note)
        try:
            ending = feed_loop.run()
        finally:
            session.close()
        if feed_loop.taken:
            fed.tell(ending, feed_loop.taken)
        return ending


def _take_all(fed: _Fed, watch: _EndWatch, stop: _FeedStop) -> Ending:
    """Take every session of a command until the command is over."""
    from telemetry.cli.beside_run.feed_sessions import SessionNumbering, Sessions, sessions_in
    from telemetry.integrations.sender_addresses import CommandProcesses, SendersOfCommand

    snapshot = find_run.ask(fed.endpoint)
    patterns = fed.patterns
    find: Callable[[], list[str]]
    if patterns:
        processes = CommandProcesses(fed.beside, _VARIABLE, fed.endpoint)
        find = SendersOfCommand(patterns, processes, snapshot.started_ns, fed.note).new
    else:
        given = iter([[fed.spec.address]])
        find = functools.partial(next, given, [])
    sessions = Sessions(
        fed.topics,
        fed.begin,
        SessionNumbering(sessions_in(snapshot.counters)),
        patient=not patterns,
        say=fed.say,
        note=fed.note,
        told=fed.tell,
    )
    return sessions.run(find, lambda: bool(stop), watch.over)


_IN_WORDS: Final[dict[Ending, str]] = {
    "ended": "the sender has ended",
    "stopped": "stopped",
    "run_over": "the run is over",
    "gone": "the sender disconnected without an end message",
}


def _endpoint(args: argparse.Namespace) -> str:
    """Return the address of the run: the one named, else the one from the environment.

    Raises what `find_run.require_live` raises.
    """
    around = os.environ.get(_VARIABLE, "")
    endpoint = around if around and args.target == find_run.LATEST else find_run.require_live(find_run.find(args))
    find_run.check_listened(endpoint)
    return endpoint


class _FeedStop:
    """A flag that is true once SIGTERM or SIGINT asked this process to end. Main thread only."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # blocked by the parent thread

    def __bool__(self) -> bool:
        return self._asked

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


class _EndWatch:
    """A check whether a run has ended.

    If its aggregator died, the run counts as live for a while: it may be restarted.
    """

    def __init__(self, endpoint: str) -> None:
        """Subscribe to the run. Blocks until the aggregator answers. Raises EndpointError, KeysError."""
        from telemetry.transport import subscribe

        self._endpoint = endpoint
        self._snapshots = subscribe(endpoint)
        self._over = False
        self._heard_s = self._there_s = time.monotonic()

    def __enter__(self) -> _EndWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self._snapshots.close()

    def over(self) -> bool:
        """Return whether the run is over.

        Returns at once, or after at most 0.2 s if no snapshot arrived for a while.
        """
        snapshot = self._snapshots.recv(0.0)
        now_s = time.monotonic()
        if snapshot is not None:
            self._heard_s = self._there_s = now_s
            self._over = snapshot.state not in ("INITIALIZE", "LIVE")
        elif now_s - self._heard_s > _SILENT_S:
            self._over |= self._gone(now_s)
        return self._over

    def _gone(self, now_s: float) -> bool:
        from telemetry.transport.endpoints import refuses

        if not refuses(self._endpoint):
            self._there_s = now_s
        return now_s - self._there_s > limits.RETURN_S
