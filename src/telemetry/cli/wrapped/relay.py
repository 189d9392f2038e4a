"""Between the terminal of the wrapped command and ours: what it writes is read at once, whoever looks at it."""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from typing import Final

from telemetry import limits
from telemetry.formatting import size
from telemetry.store.output_log import OutputLog

_READ_BYTES: Final = 64 * limits.KIB
_READS_A_TURN: Final = 16  # a flood of output must not keep the keyboard, or the end, waiting
_LINE_BYTES: Final = 4 * limits.KIB  # of one that is not finished; no terminal's line is longer
_PIECE_BYTES: Final = 4 * limits.KIB  # what a terminal takes at once, where it could not be opened not to block
_SCREEN_BYTES: Final = limits.MIB  # of output for a screen that is slow; a screenful is a few KiB


class Relay:
    """A thread that reads `master`, the far side of the command's terminal, and writes it to the log.

    If it is connected, also to `screen`, beginning with a line that is not finished: it may be a question. What
    comes from `keyboard` goes to the command then. A screen that does not keep up misses output, which is said
    there and is in the log: the command never waits for it. Without output and keys the thread sleeps. All methods
    are for other threads; none blocks unless it says so.
    """

    def __init__(self, master: int, log: OutputLog, *, keyboard: int, screen: int) -> None:
        self._master = master
        self._log = log
        self._keyboard = keyboard
        self._typed = b""
        """What the command's terminal has not taken yet. Meanwhile no more is read."""
        self._screen = _Screen(screen, str(log.path))
        self._typing = self._showing = self._to_show = self._closing = False
        self._line = b""
        """What the command has written since the last line's end, while nobody sees it."""
        self._within_line = False
        """Whether the screen's cursor is in a line of the command's."""
        self._settled: threading.Event | None = None
        self._news, self._news_in = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._news_in, False)
        self._thread = threading.Thread(target=self._run, name="telemetry-relay", daemon=True)
        self._thread.start()

    def connect(self, *, keyboard: bool, screen: bool) -> None:
        """From now on."""
        self._typing, self._to_show = keyboard, screen
        self._wake()

    def breaks_line(self) -> bool:
        """Whether what others write on the screen now would go on in a line of the command's, such as a question.

        They are expected to begin another: it is True once.
        """
        within_line, self._within_line = self._within_line, False
        return within_line

    def settle(self, timeout_s: float) -> None:
        """Waits until all that the command has written is in the log, and on the screen if that is connected.

        Blocks for `timeout_s` at most: others may write on, and screens stand still.
        """
        settled = self._settled = threading.Event()
        self._wake()
        settled.wait(timeout_s)

    def close(self) -> None:
        """Ends the thread. Blocks while it writes to the disk. May be called twice."""
        if not self._closing:
            self._closing = True
            self._wake()
            self._thread.join()
            os.close(self._news)
            os.close(self._news_in)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full of wake-ups already
            os.write(self._news_in, b"\0")

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        # Signals are for the main thread. With SIGTTIN blocked, reading in the background fails and stops nobody.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing:
            readable, writable = _ready(self._sources(), self._sinks())
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
        with suppress(OSError):  # there is no more for now
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
            self._typing = False  # the keyboard is gone, or the terminal's foreground is somebody else's

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

    `select` takes no descriptor beyond 1,023.
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
    """Output on its way to a descriptor that does not block."""

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
        """As much as the screen takes now."""
        try:
            del self._pending[: os.write(self.fd, self._pending[:_PIECE_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            self._gone = True
            self._pending.clear()
        if not self._pending and self._missed_bytes:
            missed, self._missed_bytes = self._missed_bytes, 0
            said = f"\r\ntelemetry: {size(missed)} of output came too fast and are in {self._log_path}\r\n"
            self._pending += said.encode()
