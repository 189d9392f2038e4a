"""The relay between the wrapped command's terminal and the user's.

It reads output at once, whether or not it is shown.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from typing import Final

from telemetry import limits
from telemetry.common.formatting import size
from telemetry.store.output_log import OutputLog

_READ_BYTES: Final = 64 * limits.KIB
_READS_A_TURN: Final = 16  # a flood of output must not delay the keyboard or the end
_LINE_BYTES: Final = 4 * limits.KIB  # of an unfinished line; no terminal has longer lines
_PIECE_BYTES: Final = 4 * limits.KIB  # a terminal takes this much at once, even a blocking one
_IDLE_MS: Final = 300  # without output, until an unfinished line goes to the log: it may be a question
_SCREEN_BYTES: Final = limits.MIB  # of output for a slow screen; a screenful is a few KiB


class TerminalRelay:
    """A thread that reads `master` of the command's terminal and writes the output to the log.

    Once connected, the output also goes to `screen`, beginning with an unfinished line: it may be a question. Input
    from `keyboard` then goes to the command. If the screen is too slow, output is skipped there with a notice; the
    log has all of it. The command never waits for the screen. The thread sleeps while there is no output and no
    input. All methods are for other threads. A method that blocks says so.
    """

    def __init__(self, master: int, log: OutputLog, *, keyboard: int, screen: int) -> None:
        self._master = master
        self._log = log
        self._keyboard = keyboard
        self._typed = b""
        """Input that the command's terminal has not taken yet. No more input is read meanwhile."""
        self._screen = _Screen(screen, str(log.path))
        self._typing = self._showing = self._to_show = self._closing = False
        self._line = b""
        """Output of the command since the last line end, while the screen is not connected."""
        self._within_line = False
        """True if the screen's cursor is in an unfinished line of the command."""
        self._settled: threading.Event | None = None
        self._news, self._news_in = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._news_in, False)
        self._thread = threading.Thread(target=self._run, name="telemetry-relay", daemon=True)
        self._thread.start()

    def connect(self, *, keyboard: bool, screen: bool) -> None:
        """Connect the keyboard, the screen, or both from now on."""
        self._typing, self._to_show = keyboard, screen
        self._wake()

    def breaks_line(self) -> bool:
        """Return whether a message on the screen would continue an unfinished line of the command.

        Such a line may be a question. Returns True once: the caller is expected to begin a new line.
        """
        within_line, self._within_line = self._within_line, False
        return within_line

    def settle(self, timeout_s: float) -> None:
        """Wait until all output of the command is in the log, and on the screen if that is connected.

        Blocks for at most `timeout_s`: other processes may go on writing, and a screen may be stuck.
        """
        settled = self._settled = threading.Event()
        self._wake()
        settled.wait(timeout_s)

    def close(self) -> None:
        """End the thread. Blocks while it writes to the disk. May be called twice."""
        if not self._closing:
            self._closing = True
            self._wake()
            self._thread.join()
            os.close(self._news)
            os.close(self._news_in)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._news_in, b"\0")

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        # Signals are for the main thread. With SIGTTIN blocked, reading in the background fails instead of stopping
        # the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing:
            readable, writable = _ready(self._sources(), self._sinks(), _IDLE_MS if self._log.holds_line else None)
            if not readable and not writable:
                self._log.settle()
            if self._news in readable:
                self._heed_news()
            if self._master in readable:
                self._take_output()
            if self._keyboard in readable and self._typing:
                self._take_keys()
            if self._master in writable:
                self._give_keys()
            if self._screen.fd in writable:
                self._screen.give()
            if self._settled is not None and self._quiet():
                self._log.settle()
                self._settled.set()

    def _sources(self) -> list[int]:
        listens = self._typing and not self._typed
        return [self._news, self._master, *([self._keyboard] if listens else [])]

    def _sinks(self) -> list[int]:
        return [*([self._master] if self._typed else []), *([self._screen.fd] if self._screen.waiting else [])]

    def _quiet(self) -> bool:
        if self._showing and self._screen.waiting:
            return False
        return not _ready([self._master], [], 0)[0]

    def _take_output(self) -> None:
        pieces: list[bytes] = []
        with suppress(OSError):  # there is no more output for now
            while len(pieces) < _READS_A_TURN and (piece := os.read(self._master, _READ_BYTES)):
                pieces.append(piece)
        output = b"".join(pieces)
        self._log.append(output)
        if self._showing:
            self._show(output)
        else:
            self._line = (self._line + output)[-_LINE_BYTES:].replace(b"\r", b"\n").rpartition(b"\n")[2]

    def _take_keys(self) -> None:
        try:
            self._typed = os.read(self._keyboard, _READ_BYTES)
        except OSError:
            self._typed = b""
        if not self._typed:
            self._typing = False  # the keyboard is gone, or another process group has the terminal's foreground

    def _give_keys(self) -> None:
        try:
            self._typed = self._typed[os.write(self._master, self._typed) :]
        except BlockingIOError:
            return
        except OSError:
            self._typed = b""

    def _heed_news(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._news, 256):
                pass
        if self._to_show and not self._showing:
            self._show(self._line)
            self._line = b""
        self._showing = self._to_show

    def _show(self, output: bytes) -> None:
        if output:
            self._within_line = not output.endswith(b"\n")
            self._screen.show(output)


def _ready(sources: list[int], sinks: list[int], timeout_ms: int | None = None) -> tuple[set[int], set[int]]:
    """Wait until a source can be read or a sink be written, or has failed. Returns which.

    `select` takes no descriptor above 1,023.
    """
    wanted: dict[int, int] = {}
    for fds, event in ((sources, select.POLLIN), (sinks, select.POLLOUT)):
        for fd in fds:
            wanted[fd] = wanted.get(fd, 0) | event
    poller = select.poll()
    for fd, events in wanted.items():
        poller.register(fd, events)
    failed = select.POLLHUP | select.POLLERR | select.POLLNVAL
    ready = poller.poll(timeout_ms)
    return (
        {fd for fd, event in ready if event & (select.POLLIN | failed) and fd in sources},
        {fd for fd, event in ready if event & (select.POLLOUT | failed) and fd in sinks},
    )


class _Screen:
    """A buffer of output for a non-blocking descriptor."""

    def __init__(self, fd: int, log_path: str) -> None:
        self.fd = fd
        self._log_path = log_path
        self._pending = bytearray()
        self._missed_bytes = 0
        self._gone = False

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def show(self, output: bytes) -> None:
        if self._gone:
            return
        room = 0 if self._missed_bytes else _SCREEN_BYTES - len(self._pending)
        self._missed_bytes += max(0, len(output) - room)
        self._pending += output[:room]
        self.give()

    def give(self) -> None:
        """Write as much as the screen takes now."""
        try:
            del self._pending[: os.write(self.fd, self._pending[:_PIECE_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            self._gone = True
            self._pending.clear()
        if not self._pending and self._missed_bytes:
            missed, self._missed_bytes = self._missed_bytes, 0
            message = (
                f"\r\ntelemetry: {size(missed)} of output were too fast to show; they are in {self._log_path}\r\n"
            )
            self._pending += message.encode()
