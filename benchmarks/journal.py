"""The journal: CRC and write for each event, into the page cache."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.frames import FrameMaker
from benchmarks.harness import Figure, Outcome, Size, Worker, interleave, median, paired_ratio, summary
from benchmarks.worker import Measure

LIMIT_NS: Final = 20.0
_BATCH_EVENTS: Final = 10_000
_PEER: Final = "plain write()"
_EVENTS: Final[dict[Size, int]] = {"full": 2_000_000, "quick": 500_000, "tiny": 20_000}
_ROUNDS: Final[dict[Size, int]] = {"full": 11, "quick": 3, "tiny": 1}


def ours() -> Measure:
    from telemetry.store.journal import JournalWriter

    return _measured(lambda folder: _JournalSink(JournalWriter(folder, b"", 1)))


def plain() -> Measure:
    return _measured(lambda folder: _FileSink(folder / "plain"))


class _JournalSink:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def append(self, frame: bytes) -> None:
        self._writer.append([frame], 1)

    def close(self) -> None:
        assert not self._writer.failed, self._writer.failed
        self._writer.close()


class _FileSink:
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)

    def append(self, frame: bytes) -> None:
        self._file.write(frame)

    def close(self) -> None:
        self._file.close()


def _measured(open_sink: Callable[[Path], _JournalSink | _FileSink]) -> Measure:
    """A new file in each round; nothing is synced, as between two seconds of a run."""
    frames = FrameMaker(_BATCH_EVENTS).frames(8)

    def measure(n: int) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="tm"))
        sink = open_sink(folder)
        batches = max(1, n // _BATCH_EVENTS)
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for turn in range(batches):
            sink.append(frames[turn % len(frames)])
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        sink.close()
        shutil.rmtree(folder)
        events = batches * _BATCH_EVENTS
        return {"n": events, "wall_ns": wall / events, "cpu_ns": cpu / events}

    return measure


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {"telemetry": ours, _PEER: plain}


def run(size: Size) -> Outcome:
    workers = {name: Worker(__name__, name) for name in ALTERNATIVES}
    arguments = {name: {"n": _EVENTS[size]} for name in workers}
    rounds = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    figure = Figure(
        "journal: CRC and write, per event",
        median(rounds["telemetry"], "cpu_ns"),
        "ns CPU",
        LIMIT_NS,
        peer=_PEER,
        peer_value=median(rounds[_PEER], "cpu_ns"),
        ratio=paired_ratio(rounds["telemetry"], rounds[_PEER], "cpu_ns"),
    )
    return Outcome([figure], {name: summary(taken) for name, taken in rounds.items()})
