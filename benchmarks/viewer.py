"""The cockpit beside a run: how soon it is there, and what it costs while it is looked at."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

import psutil

from benchmarks.harness import ROOT, Figure, Outcome, Round, Size, Worker, median, summary

LIMIT_OPEN_S: Final = 0.8
LIMITS_PERCENT: Final = {50: 12.0, 500: 20.0}
"""By the number of series, all of which move."""
_EVENTS_PER_S: Final = 10_000
"""Every series has values in every window, and the machine has time left."""
_SCREENS: Final = {"160×48": (160, 48), "80×24": (80, 24)}
_ROUNDS: Final[dict[Size, int]] = {"full": 5, "quick": 3, "tiny": 1}
_SPAN_S: Final[dict[Size, float]] = {"full": 20.0, "quick": 5.0, "tiny": 0.5}
_SETTLE_S: Final[dict[Size, float]] = {"full": 3.0, "quick": 2.0, "tiny": 0.0}
_DEADLINE_S: Final = 30.0
_SHOWN: Final = b"LIVE"
"""The first piece of the first line once a snapshot is on the screen."""
_LEAVE: Final = b"q"
_CHUNK: Final = 65_536


class Terminal:
    """`telemetry top` in a terminal of its own, whose output is read and thrown away."""

    def __init__(self, endpoint: str, columns: int, lines: int) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "telemetry", "top", endpoint],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(slave)
        self._seen = threading.Event()
        self._seen_s = 0.0
        self.written = 0
        """Bytes."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_shown(self) -> float:
        """Seconds from its start until the run was on the screen. Raises TimeoutError."""
        if not self._seen.wait(_DEADLINE_S):
            raise TimeoutError("the run never came onto the screen")
        return self._seen_s

    def cpu_s(self) -> float:
        """Of all its threads until now."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.write(self._master, _LEAVE)
        try:
            self._process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        tail = b""
        with suppress(OSError):  # the other end is gone
            while data := os.read(self._master, _CHUNK):
                self.written += len(data)
                if not self._seen.is_set() and _SHOWN in tail + data:
                    self._seen_s = time.monotonic() - self._begin
                    self._seen.set()
                tail = data[-len(_SHOWN) :]


def opened(endpoint: str) -> Round:
    with Terminal(endpoint, *_SCREENS["80×24"]) as terminal:
        return {"open_s": terminal.wait_until_shown()}


def watched(endpoint: str, size: Size, screen: str) -> Round:
    """CPU of the viewer in percent of a core, and what it writes to the terminal."""
    with Terminal(endpoint, *_SCREENS[screen]) as terminal:
        terminal.wait_until_shown()
        time.sleep(_SETTLE_S[size])
        begin, cpu_s, written = time.monotonic(), terminal.cpu_s(), terminal.written
        time.sleep(_SPAN_S[size])
        span_s = time.monotonic() - begin
        percent = 100 * (terminal.cpu_s() - cpu_s) / span_s
        return {"cpu_percent": percent, "bytes_per_s": (terminal.written - written) / span_s}


def run(size: Size) -> Outcome:
    figures: list[Figure] = []
    measurements: dict[str, dict[str, Any]] = {}
    for series, limit in LIMITS_PERCENT.items():
        with tempfile.TemporaryDirectory(prefix="tm") as folder, Load(folder, series) as load:
            opened(load.endpoint)  # writes the bytecode
            opening = [opened(load.endpoint) for _ in range(_ROUNDS[size])]
            watching = {screen: watched(load.endpoint, size, screen) for screen in _SCREENS}
        name = f"`telemetry top` until a run of {series} series is on the screen"
        figures.append(Figure(name, median(opening, "open_s"), "s", LIMIT_OPEN_S))
        figures += [
            Figure(f"the cockpit at {screen}, {series} series at 10 Hz", found["cpu_percent"], "% of a core", limit)
            for screen, found in watching.items()
        ]
        measurements[f"{series} opening"] = summary(opening, ("open_s",))
        measurements |= {f"{series} {screen}": found for screen, found in watching.items()}
    return Outcome(figures, measurements)


class Load:
    """A run that records at a steady pace until it is left."""

    def __init__(self, folder: str, series: int) -> None:
        self._worker = Worker("benchmarks.load", "program")
        answer = self._worker.measure(action="open", name="viewed", directory=folder, policy="drop", series=series)
        self.endpoint: str = answer["endpoint"]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._thread.start()

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._worker.measure(action="finish", timeout_s=_DEADLINE_S)
        self._worker.close()

    def _record(self) -> None:
        while not self._over.is_set():
            self._worker.measure(action="record", seconds=0.5, rate=_EVENTS_PER_S)
