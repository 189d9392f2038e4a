"""Backend writers of a run: their options, and the wait for them at the end."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.common.formatting import number_of, printable
from telemetry.config.schema import DAY_S
from telemetry.errors import UsageError
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat

if TYPE_CHECKING:
    from telemetry.config.schema import Config
    from telemetry.supervise.writers import Writers

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class RunWriters(Participant):
    """The writers of a run, one for each of its backends and one for notifications.

    They end after the run, since only then do they have all of it.
    """

    def __init__(self, writers: Writers, timeout_s: float, say_waiting: Callable[[str], object]) -> None:
        """Wait at the end for at most `timeout_s`. `say_waiting` gets one message about a wait."""
        self._writers = writers
        self._timeout_s = timeout_s
        self._say_waiting = say_waiting

    @property
    def expected(self) -> list[BackendStat]:
        """The backends that the aggregator must know before the writers start."""
        return self._writers.expected

    @property
    def failed(self) -> bool:
        return self._writers.failed

    def begin(self, run: BegunRun) -> dict[str, str]:
        self._writers.begin(run.endpoint, run.directory)
        return {}

    def conclude(self, report: Report) -> Report:
        """Let the writers deliver the rest. Return the report with their final states."""
        from telemetry.supervise.writers import with_backends

        self.deliver(report.snapshot.backends)
        return with_backends(report, self._writers.stats)

    def deliver(self, stats: Sequence[BackendStat]) -> None:
        """Let the writers deliver the rest. `stats` are the states of the run's last snapshot.

        A signal ends the wait: the run has its result already, and the rest can be delivered later. Says once which
        backends still receive data; what a backend never got is reported for each at the end.
        """
        messages: list[str] = []

        def say(late: list[BackendStat]) -> None:
            if not messages:
                messages.append(_waiting_for(late))
                self._say_waiting(messages[0])

        with suppress(KeyboardInterrupt), interruptible():
            self._writers.end(self._timeout_s, stats, say)
        self._writers.end(0.0, stats)  # finishes the interrupted call

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writers.end(0.0)


def writers(
    args: argparse.Namespace, config: Config, say: Callable[[str], object], *, gates: bool = False
) -> Writers:
    """Return the writers of backends and of notifications from the command line or the settings.

    `gates`: the run has gates. Raises UsageError for an invalid one.
    """
    from telemetry.cli.receivers import checked_receivers, variables
    from telemetry.supervise.writers import Writers, with_notifications

    to = list(args.to or ([] if args.no_backends else config.backends.to))
    if args.timeline_dir:
        folder = os.path.abspath(args.timeline_dir).replace("\\", r"\\").replace(",", r"\,")
        to.append(f"timeline:dir={folder}")
    urls = [] if args.no_notify else checked_receivers(args.notify or config.notify.urls, to)
    to = with_notifications(to, urls, gates=gates)
    if to:
        from telemetry.backends.choice import parse_all, unheeded

        for message in unheeded(config.backends.values, parse_all(to)):
            say(message)
    check_every(args.every)
    return Writers(to, say, every_s=args.every, variables=variables(urls))


def check_every(every_s: float | None) -> None:
    """Check that `--every` is within the bounds of its setting. Raises UsageError."""
    if every_s is not None and not 1 <= every_s <= DAY_S:
        raise UsageError(f"--every {every_s:g} is out of range: give one second to one day")


@contextmanager
def interruptible() -> Iterator[None]:
    """Make signals that end a process raise KeyboardInterrupt in the block, whatever their handlers were before."""
    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _waiting_for(late: Sequence[BackendStat]) -> str:
    """Return the message about backends that still receive the rest of an ended run."""
    left = ", ".join(f"{stat.name} ({_left(stat)})" for stat in late)
    return printable(f"waiting for {left}")


def _left(stat: BackendStat) -> str:
    if stat.state == "closing" or not stat.queued:
        return "closing"
    return f"{number_of(stat.queued, 'record')} not delivered"
