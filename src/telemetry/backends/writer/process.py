"""The process of a writer: its folder, its threads and its exit code.

  main thread     calls the tracker's library
  inflow          reads the run
  attendant       reports the status

Exit codes: 0 if all is delivered, 6 if something is not, 2 if it can't start, 1 if it crashed or hung.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import msgspec

from telemetry import limits
from telemetry.backends import choice as choices
from telemetry.backends.backend import Backend, NotConfigured
from telemetry.backends.sources.source import Position, Source
from telemetry.backends.writer.delivery import Delivery, Ending
from telemetry.backends.writer.reader import RunReader
from telemetry.backends.writer.tally import WriterTally
from telemetry.common.file_lock import FileLock, lock_file
from telemetry.common.files import open_file
from telemetry.config.plugins.choice import Choice
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError, error_text
from telemetry.redaction import mask_secrets
from telemetry.store.append_file import describe
from telemetry.store.backends import BACKENDS, Counts, Unconfirmed, WriterCheckpoint, WriterFacts, WriterFolder
from telemetry.supervise.parent import parent_pid
from telemetry.wire.codec import carriable
from telemetry.wire.control import TellBackend
from telemetry.wire.exit_codes import Exit
from telemetry.wire.snapshot import BackendStat

_ANSWER_S: Final = 0.3
_PAUSES: Final = 10  # usual times between two reports to wait after an aggregator did not answer
PATIENCE_S: Final = 10.0
_KILLED_S: Final = 5.0
_STOPPED: Final = (b"T", b"t")
_ALIVE: Final = ("starting", "writing", "idle", "retrying", "closing")
_HUNG: Final = "a call into its library hung, so its process was killed"


class Client(Protocol):
    def request(self, message: TellBackend, timeout_s: float) -> object: ...

    def close(self) -> None: ...


class StatusReporter:
    """A reporting thread that runs from `start` to `stop`.

    It reports at once when the writer makes progress, at most every `limits.BACKEND_STATUS_LEAST_S`.
    """

    def __init__(
        self,
        tally: WriterTally,
        folder: WriterFolder,
        connect: Callable[[], Client] | None,
        *,
        on_orphaned: Callable[[], object],
        every_s: float | None = None,
        log_fd: int = -1,
    ) -> None:
        """Prepare the thread.

        `connect` opens a connection to the run's aggregator; None if there is no aggregator. `on_orphaned` is
        called when the parent process has ended. `every_s`: seconds between two reports of a writer that makes no
        progress; None for the current `limits.BACKEND_STATUS_S`. `log_fd`: log file, which is truncated when it
        gets too long.
        """
        self._tally = tally
        self._folder = folder
        self._connect = connect
        self._on_orphaned = on_orphaned
        self._every_s = every_s
        self._log_fd = log_fd
        self._parent = parent_pid()
        self._silent_until_s = 0.0
        self._client: Client | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> BackendStat:
        """Report the last state and return it. Blocks for about a second at most."""
        self._ending.set()
        self._tally.changed.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _ANSWER_S)
        stat = self._tally.stat()
        self._keep(stat)
        if not self._thread.is_alive():  # otherwise the thread still waits for an answer and owns the connection
            self._tell(stat)
            if self._client is not None:
                self._client.close()
        return stat

    def _run(self) -> None:
        while not self._ending.is_set():
            self._tally.changed.clear()
            stat = self._tally.stat()
            self._keep(stat)
            self._tell(stat)
            self._cut_log()
            if os.getppid() != self._parent:
                self._on_orphaned()
            least_s = min(limits.BACKEND_STATUS_LEAST_S, self._usual_s)
            if not self._ending.wait(least_s):
                self._tally.changed.wait(self._usual_s - least_s)

    @property
    def _usual_s(self) -> float:
        return limits.BACKEND_STATUS_S if self._every_s is None else self._every_s

    def _keep(self, stat: BackendStat) -> None:
        with suppress(TelemetryError):  # the disk may be full; the aggregator still gets the report
            self._folder.write_status(stat)

    def _tell(self, stat: BackendStat) -> None:
        if self._connect is None:
            return
        if time.monotonic() < self._silent_until_s:
            return
        try:
            self._client = self._client or self._connect()
            self._client.request(TellBackend(stat=stat), _ANSWER_S)
        except TelemetryError:
            self._silent_until_s = time.monotonic() + _PAUSES * self._usual_s
            if self._client is not None:
                self._client.close()
                self._client = None

    def _cut_log(self) -> None:
        with suppress(OSError):
            if self._log_fd >= 0 and os.fstat(self._log_fd).st_size > limits.BACKEND_LOG_BYTES:
                os.ftruncate(self._log_fd, 0)


@dataclass(frozen=True)
class WriterTask:
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


class StopFlag:
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


class WriterMessages:
    """Messages to the user. A library's stdout and stderr go to a log file instead."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._fd = os.dup(2)
        os.register_at_fork(after_in_child=self._close)  # a reader of stderr must not wait for a child

    def say(self, text: str) -> None:
        """Print a line to stderr, from any thread. Ignores a closed stderr."""
        with suppress(OSError):
            os.write(self._fd, f"telemetry: {self._name}: {text}\n".encode(errors="replace"))

    def _close(self) -> None:
        with suppress(OSError):
            os.close(self._fd)


def write_run(order: WriterTask) -> int:
    """Deliver a run. Blocks until it is delivered or until a stop is requested. Returns the exit code.

    Call it in the main thread of a dedicated process: it takes over signals, stdout and stderr. Raises UsageError
    for an invalid `order.to`.
    """
    stop = StopFlag()
    choice = choices.parse(order.to)
    output = WriterMessages(choice.name)
    folder = WriterFolder(order.run / BACKENDS / choice.name)
    try:
        return _Writer(order, choice, folder, output, stop).run()
    except TelemetryError as error:
        output.say(str(error).removeprefix(f"{choice.kind}: "))
        return Exit.USAGE if isinstance(error, UsageError | NotConfigured) else Exit.ERROR
    except Exception as error:  # noqa: BLE001 – the root of a process: its end must say why
        traceback.print_exc()
        output.say(f"it crashed with {error_text(error)}; see {folder.log}")
        return Exit.ERROR


class _Writer:
    def __init__(
        self, order: WriterTask, choice: Choice, folder: WriterFolder, output: WriterMessages, stop: StopFlag
    ) -> None:
        self._order = order
        self._choice = choice
        self._folder = folder
        self._words = output
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

    def _deliver(self, tally: WriterTally, checkpoint: WriterCheckpoint, log_fd: int) -> Ending:
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
            ahead = Unconfirmed(self._folder.ahead)
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


def _checkpoint(folder: WriterFolder) -> tuple[WriterCheckpoint, Position]:
    """Return the newest checkpoint and its position.

    Raises NotConfigured for an unusable checkpoint, because starting over might write everything twice.
    """
    try:
        checkpoint = folder.read_checkpoint()
        return checkpoint, msgspec.convert(checkpoint.position, Position)
    except RunDirectoryError as error:
        why = error.message
    except msgspec.ValidationError as error:
        why = f"{folder.checkpoint} is damaged: {error}"
    raise NotConfigured(why, hint=f"remove {folder.path} to write the whole run again")


def _tally(choice: Choice, folder: WriterFolder, counts: Counts, position: Position) -> WriterTally:
    """Return a tally that continues the counts of previous processes."""
    before = None
    with suppress(RunDirectoryError):
        before = folder.read_status()
    died = before is not None and before.state in _ALIVE
    tally = WriterTally(choice.name, choice.kind, counts, restarts=(before.restarts if before else 0) + died)
    tally.position = position
    if before is not None:
        tally.retried = max(tally.retried, before.retried)
        tally.place = before.place
        hung = died and before.calling_s > limits.BACKEND_CALL_S - limits.BACKEND_SILENT_S
        tally.last_error = _HUNG if hung else before.last_error
    return tally


def _facts(order: WriterTask, choice: Choice) -> WriterFacts:
    (to,) = mask_secrets([carriable(str(choice))])
    cwd = carriable(os.getcwd())
    return WriterFacts(name=choice.name, kind=choice.kind, to=to, cwd=cwd, every_s=order.every_s)


def _code(tally: WriterTally) -> int:
    return Exit.OK if tally.state == "done" and not tally.dropped else Exit.BACKEND_FAILED


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


def claim(folder: WriterFolder, patience_s: float = PATIENCE_S) -> FileLock:
    """Lock the folder. Forked children don't inherit the lock.

    Waits up to `patience_s` for another writer, then kills that writer if it is stopped or hangs.

    Raises NotConfigured if the other writer works or can't be killed, and RunDirectoryError. On file systems
    without locks, it always succeeds.
    """
    try:
        fd = open_file(folder.lock, os.O_RDWR | os.O_CREAT, depth=3)
    except OSError as error:
        raise RunDirectoryError(f"can't lock the writer's folder: {describe(error)}") from error
    if not _take(fd, patience_s):
        pid = _holder(fd)
        if not _may_be_killed(pid, folder):
            os.close(fd)
            raise NotConfigured(
                f"another writer, process {pid}, is using {folder.path}", hint="wait for its end, or end it"
            )
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        if not _take(fd, _KILLED_S):
            os.close(fd)
            raise NotConfigured(
                f"process {pid} still uses {folder.path}, although it was killed",
                hint=f"wait until it has ended (`ps -p {pid}`), then try again",
            )
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return FileLock(fd)


def _take(fd: int, patience_s: float) -> bool:
    try:
        return lock_file(fd, patience_s, of_process=True)
    except OSError:
        return True


def _holder(fd: int) -> int:
    """Return the process id of the lock's holder, or 0 if unknown."""
    with suppress(OSError, ValueError):
        return int(os.pread(fd, 20, 0))
    return 0


def _may_be_killed(pid: int, folder: WriterFolder) -> bool:
    """Check whether a process is a writer of this run that is stopped or hangs. Works on Linux only."""
    if pid <= 0:
        return False
    proc = Path(f"/proc/{pid}")
    try:
        arguments = proc.joinpath("cmdline").read_bytes().split(b"\0")
        state = proc.joinpath("stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    run = os.fsencode(folder.path.parent.parent.name)
    if b"--writer" not in arguments or not any(run in word for word in arguments):
        return False
    return state in _STOPPED or _silent(folder, pid)


def _silent(folder: WriterFolder, pid: int) -> bool:
    with suppress(RunDirectoryError):
        stat = folder.read_status()
        return (
            stat is not None and stat.pid == pid and time.time_ns() - stat.time_ns > limits.BACKEND_SILENT_S * 1e9
        )
    return False


class HangGuard:
    """A watchdog that needs no interpreter lock, so it also ends a call that holds the lock.

    The exit code is 1. The stacks of all threads are written to the log.
    """

    def __init__(self, tally: WriterTally, log_fd: int, seconds: float | None = None) -> None:
        """Create a guard.

        `seconds`: timeout of a call; None for `limits.BACKEND_CALL_S` at the start of the call.
        """
        self._tally = tally
        self._log_fd = log_fd
        self._seconds = seconds

    @contextmanager
    def __call__(self, seconds: float | None = None) -> Iterator[None]:
        """Guard one call. `seconds`: timeout of this one, in place of the usual one."""
        if seconds is None:
            seconds = limits.BACKEND_CALL_S if self._seconds is None else self._seconds
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._log_fd)
        self._tally.calling_since_s = self._tally.clock()
        try:
            yield
        finally:
            self._tally.calling_since_s = None
            faulthandler.cancel_dump_traceback_later()
