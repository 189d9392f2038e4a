"""Verdicts of `telemetry ab` on real runs, for `benchmarks.verdicts`: each comparison is a call of the command.

A comparison that is in its folder already is not made again, so that a recording which was stopped goes on. A
*neighbour* is what else the machine does meanwhile:

* quiet: nothing.
* loaded: one busy process more than the machine has cores.
* drifting: from none to that many busy processes. One starts or stops every 0.5 s to 4 s.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, Literal

from telemetry.cli.ab.session import FILE, FOLDER
from telemetry.judge.ab.model import AbResult
from telemetry.store.sealed_json import read_json

Neighbour = Literal["quiet", "loaded", "drifting"]
RUN_S: Final = 0.05
"""Time of the measured command on a quiet machine."""
_PROBE: Final = 1_000_000
_PROBES: Final = 20
_MOST_BUSY: Final = (os.cpu_count() or 1) + 1
_BUSY: Final = [sys.executable, "-S", "-c", "while True: pass"]


class Command:
    """A command of about 50 ms that can be made slower. It is measured when it is made, so do that without load."""

    def __init__(self) -> None:
        self._start_s, full_s = (min(_seconds(_counting(loops)) for _ in range(_PROBES)) for loops in (0, _PROBE))
        self._loop_s = (full_s - self._start_s) / _PROBE

    def slower_by(self, share: float) -> list[str]:
        """Return the command whose whole time, its start included, is longer by this share."""
        return _counting(round((RUN_S * (1 + share) - self._start_s) / self._loop_s))


def _counting(loops: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"for number in range({loops}): number * number"]


def _seconds(command: Sequence[str]) -> float:
    begin_s = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begin_s


def same(folder: Path, command: Command, pairs: int, seed: int) -> AbResult:
    """Compare the command with itself, for this number of pairs."""
    options = ["--same", "--min-effect", "0%", "--pairs", str(pairs)]
    return _compared(folder, [*options, "--seed", str(seed), "--", *command.slower_by(0.0)])


def planted(folder: Path, command: Command, pairs: int, seed: int, slowdown: float) -> AbResult:
    """Compare the command with a slower one, for at most this number of pairs."""
    sides = [*command.slower_by(0.0), "--", *command.slower_by(slowdown)]
    return _compared(folder, ["--pairs", str(pairs), "--seed", str(seed), "--", *sides])


def _compared(folder: Path, arguments: Sequence[str]) -> AbResult:
    """Return the result in a folder. Let `telemetry ab` make it unless it is there. Raises CalledProcessError."""
    result = _result_in(folder)
    if result is None or result.ending in ("", "stopped"):
        shutil.rmtree(folder, ignore_errors=True)
        words = [sys.executable, "-m", "telemetry", "ab", "--format", "json", "--dir", str(folder), *arguments]
        ended = subprocess.run(words, capture_output=True, check=False)
        result = _result_in(folder)
        if result is None or result.ending in ("", "stopped", "void"):
            raise subprocess.CalledProcessError(ended.returncode, words, stderr=ended.stderr)
    return result


def _result_in(folder: Path) -> AbResult | None:
    file = next(folder.glob(f"{FOLDER}/*/{FILE}"), None)
    return read_json(file, AbResult) if file else None


@contextmanager
def neighbour(kind: Neighbour, seed: int) -> Iterator[None]:
    """Keep the machine busy inside the block."""
    done = threading.Event()
    busy: list[subprocess.Popen[bytes]] = []

    def drift() -> None:
        random = Random(seed)
        while not done.wait(random.uniform(0.5, 4.0)):
            if len(busy) < _MOST_BUSY and (not busy or random.random() < 0.5):
                busy.append(subprocess.Popen(_BUSY))
            else:
                _end(busy.pop())

    thread = threading.Thread(target=drift, name="neighbour")
    try:
        if kind == "loaded":
            busy += [subprocess.Popen(_BUSY) for _ in range(_MOST_BUSY)]
        elif kind == "drifting":
            thread.start()
        yield
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
        for process in busy:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
