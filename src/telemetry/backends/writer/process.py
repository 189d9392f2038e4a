"""The process of a writer: its folder, its threads and its exit code.

  main thread     calls the tracker's library
  inflow          reads the run
  attendant       reports the status

Exit codes: 0 if all is delivered, 6 if something is not, 2 if it can't start, 1 if it crashed or hung.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from telemetry import limits
from telemetry.backends import choice as choices
from telemetry.backends.backend import Backend, NotConfigured
from telemetry.backends.sources.source import Position, Source
from telemetry.backends.writer.claim import claim
from telemetry.backends.writer.delivery import Delivery, Ending
from telemetry.backends.writer.hang_guard import HangGuard
from telemetry.backends.writer.reader import RunReader
from telemetry.backends.writer.status import Client, StatusReporter
from telemetry.backends.writer.tally import Tally
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.files import open_file
from telemetry.plugins.choice import Choice
from telemetry.redaction import mask_secrets
from telemetry.store.append_file import describe
from telemetry.store.backends import BACKENDS, Ahead, Checkpoint, Counts, WriterFacts, WriterFolder
from telemetry.wire.codec import carriable

DELIVERED: Final = 0
CRASHED: Final = 1
FAILED: Final = 2
UNDELIVERED: Final = 6

_ALIVE: Final = ("starting", "writing", "idle", "retrying", "closing")
_HUNG: Final = "a call into its library hung, so its process was killed"


@dataclass(frozen=True)
class Order:
    """The task of a writer."""

    to: str
    """The value of `--to`."""
    run: Path
    """Directory that contains `backends/`: the run directory if this machine can read it."""
    source: Callable[[Backend, Position], Source]
    """Function that opens the items of the run for a backend, from a position on. Raises TelemetryError."""
    connect: Callable[[], Client] | None = None
    """Function that connects to the run's aggregator; None if the aggregator is gone."""
    every_s: float | None = None
    """Seconds between readings; None for the value in the settings."""


class Stop:
    """A flag that becomes true when this process is asked to end. Create it in the main thread."""

    def __init__(self) -> None:
        self._asked = False
        self.listen()

    def __bool__(self) -> bool:
        return self._asked

    def listen(self) -> None:
        """Install the signal handlers. Call it again after a library has replaced them."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # the mask is inherited

    def ask(self) -> None:
        self._asked = True

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


class Words:
    """Messages to the user. A library's stdout and stderr go to a log file instead."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fd = os.dup(2)
        os.register_at_fork(after_in_child=self._close)  # a reader of stderr must not wait for a child

    def say(self, words: str) -> None:
        """Print a line to stderr, from any thread. Ignores a closed stderr."""
        with suppress(OSError):
            os.write(self._fd, f"telemetry: {self._name}: {words}\n".encode(errors="replace"))

    def _close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)


def write_run(order: Order) -> int:
    """Deliver a run. Blocks until it is delivered or until a stop is requested. Returns the exit code.

    Call it in the main thread of a dedicated process: it takes over signals, stdout and stderr. Raises UsageError
    for an invalid `order.to`.
    """
    stop = Stop()
    choice = choices.parse(order.to)
    words = Words(choice.name)
    folder = WriterFolder(order.run / BACKENDS / choice.name)
    try:
        return _Writer(order, choice, folder, words, stop).run()
    except TelemetryError as error:
        words.say(str(error).removeprefix(f"{choice.kind}: "))
        return FAILED if isinstance(error, UsageError | NotConfigured) else CRASHED
    except Exception as error:  # noqa: BLE001 – the root of a process: its end must say why
        traceback.print_exc()
        words.say(f"it crashed with {type(error).__name__}: {error}; see {folder.log}")
        return CRASHED


class _Writer:
    def __init__(self, order: Order, choice: Choice, folder: WriterFolder, words: Words, stop: Stop) -> None:
        self._order = order
        self._choice = choice
        self._folder = folder
        self._words = words
        self._stop = stop

    def run(self) -> int:
        self._folder.make()
        with ExitStack() as last:
            last.callback(claim(self._folder).release)
            log_fd = _to_log(self._folder)
            checkpoint, position = _checkpoint(self._folder)
            tally = _tally(self._choice, self._folder, checkpoint.counts, position)
            if checkpoint.done:  # report it again: the caller may have died before it could read the status
                tally.state = "done"
                self._folder.write_status(tally.stat())
                return _code(tally)
            self._folder.write_facts(_facts(self._order, self._choice))
            status_reporter = StatusReporter(
                tally, self._folder, self._order.connect, on_orphaned=self._stop.ask, log_fd=log_fd
            )
            last.callback(status_reporter.stop)
            status_reporter.start()
            try:
                tally.state = self._deliver(tally, checkpoint, log_fd)
            except Exception as error:
                tally.said(error)
                if isinstance(error, UsageError | NotConfigured):
                    tally.state = "failed"
                raise
            return _code(tally)

    def _deliver(self, tally: Tally, checkpoint: Checkpoint, log_fd: int) -> Ending:
        say = self._words.say
        gc.disable()  # objects of a loading library stay: collecting them takes a quarter of the time
        with ExitStack() as last:
            guard = HangGuard(tally, log_fd)
            with guard():
                backend = choices.make(self._choice, self._folder.data)
            if hasattr(backend, "say"):
                backend.say = say
            source = self._order.source(backend, tally.position)
            run_reader = RunReader(source, say)
            last.callback(run_reader.close)
            tally.known = lambda: run_reader.known
            ahead = Ahead(self._folder.ahead)
            last.callback(ahead.close)
            delivery = Delivery(
                backend,
                run_reader,
                tally,
                self._folder.write_checkpoint,
                ahead,
                guard=guard,
                stopped=lambda: bool(self._stop),
                say=say,
                on_open=self._opened,
            )
            run_reader.start()
            return delivery.run(source.run, checkpoint)

    def _opened(self) -> None:
        self._stop.listen()
        if not gc.isenabled():
            gc.freeze()
            gc.enable()


def _checkpoint(folder: WriterFolder) -> tuple[Checkpoint, Position]:
    """Return the newest checkpoint and its position.

    Raises NotConfigured for an unusable checkpoint, because starting over might write everything twice.
    """
    try:
        found = folder.read_checkpoint()
        return found, msgspec.convert(found.position, Position)
    except RunDirectoryError as error:
        why = error.message
    except msgspec.ValidationError as error:
        why = f"{folder.checkpoint} is damaged: {error}"
    raise NotConfigured(why, hint=f"remove {folder.path} to write the whole run again")


def _tally(choice: Choice, folder: WriterFolder, counts: Counts, position: Position) -> Tally:
    """Return a tally that continues the counts of previous processes."""
    before = None
    with suppress(RunDirectoryError):
        before = folder.read_status()
    died = before is not None and before.state in _ALIVE
    tally = Tally(choice.name, choice.kind, counts, restarts=(before.restarts if before else 0) + died)
    tally.position = position
    if before is not None:
        tally.retried = max(tally.retried, before.retried)
        tally.place = before.place
        hung = died and before.calling_s > limits.BACKEND_CALL_S - limits.BACKEND_SILENT_S
        tally.last_error = _HUNG if hung else before.last_error
    return tally


def _facts(order: Order, choice: Choice) -> WriterFacts:
    (to,) = mask_secrets([carriable(str(choice))])
    cwd = carriable(os.getcwd())
    return WriterFacts(name=choice.name, kind=choice.kind, to=to, cwd=cwd, every_s=order.every_s)


def _code(tally: Tally) -> int:
    return DELIVERED if tally.state == "done" and not tally.dropped else UNDELIVERED


def _to_log(folder: WriterFolder) -> int:
    """Redirect stdout and stderr to the log. Returns its file descriptor. Raises RunDirectoryError."""
    try:
        fd = open_file(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, depth=3)
    except OSError as error:
        raise RunDirectoryError(f"can't open the writer's log: {describe(error)}") from error
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    return fd
