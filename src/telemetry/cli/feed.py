"""`telemetry feed`: what another program publishes, as part of a run."""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console, runs
from telemetry.cli.exits import Exit
from telemetry.errors import EndpointError, TelemetryError
from telemetry.humane import number_of, printable

if TYPE_CHECKING:
    from telemetry.emit import Run
    from telemetry.integrations.feeds import FeedKind, FeedSpec
    from telemetry.integrations.pump import Ending

_VARIABLE: Final = "TELEMETRY_ENDPOINT"
_SILENT_S: Final = 2.0  # snapshots come several times a second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "feed",
        metavar="NAME[:ADDRESS]",
        help="what is fed, such as `endpoints`, and the address it is published at, ipc://PATH (which may contain "
        "`*`) or tcp://HOST:PORT; without one it is looked for on this machine",
    )
    runs.add_run_argument(parser)
    parser.add_argument("--no-texts", action="store_true", help="pass over texts: nobody counts their tokens")


def run(args: argparse.Namespace) -> int:
    from telemetry.emit import start
    from telemetry.integrations.feeds import load_feed, parse_feed

    stop = _Stop()
    spec = parse_feed(args.feed)
    kind = load_feed(spec.name)
    endpoint = _endpoint(args)
    os.environ[_VARIABLE] = endpoint
    with ExitStack() as last:
        watch = last.enter_context(_Watch(endpoint))
        one = start(f"{spec.name} feed", policy="block")  # it can wait: the sender's messages do meanwhile
        last.callback(one.finish)
        return _feed(spec, kind, one, watch, stop, texts=not args.no_texts)


def _feed(spec: FeedSpec, kind: FeedKind, one: Run, watch: _Watch, stop: _Stop, *, texts: bool) -> int:
    """What went wrong is marked in the run. Raises as `_take`."""
    wrong = "it failed"
    try:
        ending, taken = _take(spec, kind, one, watch, stop, texts=texts)
        wrong = "" if taken else "nothing came"
        if taken and ending == "gone":
            wrong = _IN_WORDS[ending]
    except TelemetryError as error:
        wrong = str(error)
        raise
    finally:
        if wrong:
            one.mark(printable(f"feed {spec}: {wrong}"))
    came = f"{number_of(taken, 'message')} taken" if taken else "nothing came"
    console.say(f"{spec.name}: {_IN_WORDS[ending]}; {came}")
    if ending == "gone":
        return Exit.ERROR
    return Exit.OK if taken else Exit.BACKEND_FAILED


def _take(
    spec: FeedSpec, kind: FeedKind, one: Run, watch: _Watch, stop: _Stop, *, texts: bool
) -> tuple[Ending, int]:
    """How it ended, and the number of messages. Raises EndpointError."""
    from telemetry.integrations.feeds import FeedOptions
    from telemetry.integrations.places import await_listening, is_pattern
    from telemetry.integrations.pump import Pump
    from telemetry.transport.foreign import ForeignSubscription

    def say(words: str) -> None:
        console.say(f"{spec.name}: {words}")

    def note(words: str) -> None:
        """Also for those who read the result: a run that is stopped takes no last words of ours."""
        say(words)
        one.mark(printable(f"feed {spec}: {words}"))

    address = spec.address
    if not address or is_pattern(address):
        patterns = [address] if address else list(kind.addresses)
        if not patterns:
            raise EndpointError(f"{spec.name} is nowhere by itself", hint=f"write {spec.name}:ADDRESS")
        address = await_listening(patterns, lambda: bool(stop) or watch.over(), note)
        if not address:
            return ("stopped" if stop else "run_over"), 0
    with ForeignSubscription(address, kind.topics) as messages:
        say(f"listening to {address}")
        feed = kind(one, FeedOptions(say=say, texts=texts))
        pump = Pump(feed, messages, run_over=watch.over, stopped=lambda: bool(stop), say=note)
        try:
            return pump.run(), pump.taken
        finally:
            feed.close()


_IN_WORDS: Final[dict[Ending, str]] = {
    "ended": "the sender has ended",
    "stopped": "stopped",
    "run_over": "the run is over",
    "gone": "the sender has gone without a word",
}


def _endpoint(args: argparse.Namespace) -> str:
    """Where the run listens: by its name, or else as the environment says. Raises as `runs.require_live`."""
    around = os.environ.get(_VARIABLE, "")
    endpoint = around if around and args.target == runs.LATEST else runs.require_live(runs.find(args))
    runs.check_listened(endpoint)
    return endpoint


class _Stop:
    """True once somebody has asked this process to end. Main thread only."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # inherited from a thread

    def __bool__(self) -> bool:
        return self._asked

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


class _Watch:
    """Whether a run takes nothing more. One whose aggregator died may go on, and is waited for."""

    def __init__(self, endpoint: str) -> None:
        """Blocks for the aggregator's answer. Raises EndpointError, KeysError."""
        from telemetry.transport import subscribe

        self._endpoint = endpoint
        self._snapshots = subscribe(endpoint)
        self._over = False
        self._heard_s = self._there_s = time.monotonic()

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._snapshots.close()

    def over(self) -> bool:
        """Does not block, but for 0.2 s at most where nothing has been heard for a while."""
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
