"""Ingest: from encoded frames to numbers, in the aggregator's process: decode, admit, journal, apply."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks import peers
from benchmarks.frames import FrameMaker
from benchmarks.harness import (
    Figure,
    Outcome,
    Size,
    Worker,
    interleave,
    median,
    paired_ratio,
    summary,
)
from benchmarks.worker import Measure
from telemetry.limits import CHUNK_EVENTS, GATHER_S

LIMITS_NS: Final = {10_000: 40.0, 1_000: 70.0}
_PEER: Final = "HdrHistogram record_value"
RATES: Final = (500_000, 200_000, 40_000, 10_000)
"""Events a second. At the last, each batch of 1k has a tick to itself."""
_TICK_S: Final = 0.1
_EVENTS: Final[dict[Size, int]] = {"full": 2_000_000, "quick": 500_000, "tiny": 20_000}
_PEER_EVENTS: Final[dict[Size, int]] = {"full": 100_000, "quick": 50_000, "tiny": 1_000}
_ROUNDS: Final[dict[Size, int]] = {"full": 15, "quick": 5, "tiny": 1}


def gathered(batch_events: int, rate: int) -> int:
    """Frames of so many events that the aggregator takes together when so many events come a second: those that it
    finds each time it looks, until they are many, or until the tick."""
    found = max(1, int(rate * GATHER_S / batch_events))
    many = found * math.ceil(CHUNK_EVENTS / (found * batch_events))
    return min(many, max(1, int(rate * _TICK_S / batch_events)))


class Frames(Protocol):
    """Of one producer, as its flusher sends them, each admitted once."""

    batch_events: int

    def definitions(self) -> bytes: ...

    def frames(self, count: int) -> list[bytes]: ...


def ours(maker: Frames, frames_a_turn: int, *, journaled: bool) -> Measure:
    """Each turn takes so many frames, decodes and admits them one by one and applies them together."""
    from telemetry.aggregator import Aggregator, AggregatorConfig, compiled
    from telemetry.store.journal import JournalWriter
    from telemetry.wire.codec import decode_batch
    from telemetry.wire.events import EventBatch

    batch_events = maker.batch_events
    aggregator = Aggregator(AggregatorConfig())
    find_rows = compiled.find_rows

    def take(frames: list[bytes], journal: JournalWriter | None) -> None:
        batches: list[EventBatch] = []
        now_ns = time.monotonic_ns()
        for frame in frames:
            batch = decode_batch(frame, find_rows)
            assert aggregator.admit(batch, now_ns)
            batches.append(batch)
        if journal is not None:
            journal.append(frames, now_ns)
        aggregator.apply(batches, now_ns, time.time_ns())

    def measure(n: int) -> dict[str, Any]:
        frames = maker.frames(max(1, n // batch_events))
        turns = [frames[at : at + frames_a_turn] for at in range(0, len(frames), frames_a_turn)]
        folder = Path(tempfile.mkdtemp(prefix="tm"))
        journal = JournalWriter(folder, b"", 1) if journaled else None
        before = aggregator.book.counted_events
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for turn in turns:
            take(turn, journal)
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        events = len(frames) * batch_events
        assert aggregator.book.counted_events - before == events
        if journal is not None:
            journal.close()
        shutil.rmtree(folder)
        return {"n": events, "wall_ns": wall / events, "cpu_ns": cpu / events}

    take([maker.definitions()], None)
    return measure


def by_columns(make: Callable[[], Measure]) -> Measure:
    """In this process from now on: numpy reads the rows of batches, and C adds up only columns of series."""
    from telemetry.aggregator import compiled, fast_rows
    from telemetry.wire import rows

    fast_rows.Columns = None  # type: ignore[misc]
    compiled.find_rows = rows.find  # type: ignore[misc]
    return make()


def uncompiled(make: Callable[[], Measure]) -> Measure:
    """In this process from now on: as where there was no compiler at installation."""
    from telemetry.aggregator.series import group

    group.Columns = None  # type: ignore[misc]
    return by_columns(make)


def small(rate: int) -> str:
    """What batches of 1k are called that come as fast."""
    return f"batches of 1k, {gathered(1_000, rate)} a turn ({rate:,} events/s)"


def _small(rate: int, *, journaled: bool) -> Measure:
    return ours(FrameMaker(1_000), gathered(1_000, rate), journaled=journaled)


def _by_columns(events: int) -> str:
    return f"{events}, columns compiled"


def _large() -> Measure:
    return ours(FrameMaker(10_000), 1, journaled=False)


def _alone() -> Measure:
    return _small(RATES[-1], journaled=False)


def hdr() -> Measure:
    """A Python loop over values that are decoded already; no series, no accounting."""
    return peers.ALTERNATIVES[_PEER]()


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    "10k": _large,
    **{small(rate): lambda rate=rate: _small(rate, journaled=False) for rate in RATES},  # type: ignore[misc]
    _by_columns(10_000): lambda: by_columns(_large),
    _by_columns(1_000): lambda: by_columns(_alone),
    "10k, nothing compiled": lambda: uncompiled(_large),
    "1k, nothing compiled": lambda: uncompiled(_alone),
    "10k with journal": lambda: ours(FrameMaker(10_000), 1, journaled=True),
    "1k with journal": lambda: _small(RATES[0], journaled=True),
    _PEER: hdr,
}


def run(size: Size) -> Outcome:
    workers = {name: Worker(__name__, name) for name in ALTERNATIVES}
    arguments = {name: {"n": _EVENTS[size]} for name in workers} | {_PEER: {"n": _PEER_EVENTS[size]}}
    for name, worker in workers.items():
        worker.measure(**arguments[name])
    rounds = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()

    def figure(name: str, what: str, limit: float | None) -> Figure:
        return Figure(
            f"ingest, 100 series, {what}, per event",
            median(rounds[name], "cpu_ns"),
            "ns CPU",
            limit,
            peer=_PEER,
            peer_value=median(rounds[_PEER], "cpu_ns"),
            ratio=paired_ratio(rounds[name], rounds[_PEER], "cpu_ns"),
        )

    def gain(name: str, what: str, events: int) -> Figure:
        ratio = paired_ratio(rounds[name], rounds[_by_columns(events)], "cpu_ns")
        return Figure(f"ingest, {what}: whole batches in C to columns in C", ratio, "×")

    figures = [
        figure("10k", "batches of 10k", LIMITS_NS[10_000]),
        *(figure(small(rate), small(rate), LIMITS_NS[1_000]) for rate in RATES),
        gain("10k", "batches of 10k", 10_000),
        gain(small(RATES[-1]), "batches of 1k, 1 a turn", 1_000),
        figure("10k, nothing compiled", "batches of 10k, nothing compiled", None),
        figure("1k, nothing compiled", f"{small(RATES[-1])}, nothing compiled", None),
        figure("10k with journal", "batches of 10k, journal on", None),
        figure("1k with journal", f"{small(RATES[0])}, journal on", None),
    ]
    return Outcome(figures, {name: summary(taken) for name, taken in rounds.items()})
