"""What an hour of history of a thousand series costs: on disk, to append, and to read.

    python -m benchmarks.history [--series N] [--seconds N] [--floats] [--tiny]

Ten values a second of each series, lognormal with sigma 1, in ns with three digits: whole nanoseconds, or with
`--floats` numbers of which no bit repeats.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.statistics.hdr.layout import Layout
from telemetry.store.history import HistoryReader, HistoryWriter, Picked
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_RATE: Final = 10  # values of each series in a second
_SECOND_NS: Final = 1_000_000_000
_START_NS: Final = 1_700_000_000 * _SECOND_NS
_WINDOWS: Final = 20
_PERCENTILES: Final = ("50", "90", "99", "99.9")
_SEED: Final = 7
_FOREVER_NS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Load:
    series: int
    seconds: int
    floats: bool

    def keys(self) -> list[SeriesKey]:
        return [
            SeriesKey(index=at, name=f"latency.{at}", kind="series", unit="ns", digits=3)
            for at in range(self.series)
        ]

    def intervals(self) -> Iterator[Interval]:
        """One a second, as an aggregator makes them; medians from 0.1 to 100 ms."""
        random = np.random.default_rng(_SEED)
        medians = np.repeat(10.0 ** random.uniform(5, 8, self.series), _RATE)
        layout = Layout.of(3)
        first = np.arange(0, medians.size, _RATE)
        for at in range(self.seconds):
            values = medians * np.exp(random.standard_normal(medians.size))
            if not self.floats:
                values = np.rint(values)
            late_ns = int(random.integers(0, 2_000_000))
            yield Interval(
                _START_NS + at * _SECOND_NS,
                _START_NS + (at + 1) * _SECOND_NS,
                _columns(values, layout.slot_of(np.rint(values).astype(np.int64)), first, self.series),
                ValueColumns(np.zeros(1, "<u4").tobytes(), np.array([values.size], "<f8").tobytes()),
                ValueColumns(np.zeros(1, "<u4").tobytes(), np.array([float(late_ns)], "<f8").tobytes()),
            )


def _columns(values: NDArray[Any], slots: NDArray[Any], first: NDArray[Any], series: int) -> SeriesColumns:
    rows = np.arange(values.size) // _RATE
    cells, counts = np.unique(rows << 32 | slots, return_counts=True)
    occupied = np.bincount(cells >> 32, minlength=series)
    return SeriesColumns(
        np.arange(series).astype("<u4").tobytes(),
        np.full(series, _RATE, "<u8").tobytes(),
        np.add.reduceat(values, first).astype("<f8").tobytes(),
        np.minimum.reduceat(values, first).astype("<f8").tobytes(),
        np.maximum.reduceat(values, first).astype("<f8").tobytes(),
        occupied.astype("<u4").tobytes(),
        (cells & 0xFFFFFFFF).astype("<u4").tobytes(),
        counts.astype("<u4").tobytes(),
    )


def append_all(load: Load, directory: Path) -> list[float]:
    """CPU ms of each append, roll-ups among them."""
    keys = load.keys()
    writer = HistoryWriter(directory)
    taken = []
    for interval in load.intervals():
        began = time.process_time_ns()
        writer.append(interval, keys)
        taken.append((time.process_time_ns() - began) / 1e6)
    writer.close()
    if writer.failed:
        raise SystemExit(f"the history failed: {writer.failed}")
    return taken


def percentiles(parts: Sequence[Picked], key: SeriesKey) -> int:
    """Of all parts together; returns the count."""
    own = [part for part in parts if part.count]
    if not own:
        return 0
    slots, counts = added_up(
        np.concatenate([part.slots for part in own]), np.concatenate([part.counts for part in own])
    )
    Histograms(
        digits=np.array([key.digits]),
        ticks_per_unit=np.array([key.ticks_per_unit]),
        seconds=np.array([1.0]),
        count=np.array([sum(part.count for part in own)]),
        total=np.array([sum(part.total for part in own)]),
        min=np.array([min(part.min for part in own)]),
        max=np.array([max(part.max for part in own)]),
        ends=np.array([slots.size]),
        slots=slots,
        counts=counts,
    ).figures(_PERCENTILES)
    return sum(part.count for part in own)


def timed(run: Callable[[], int]) -> tuple[float, float, int]:
    """(wall ms, CPU ms, what it returned)."""
    began, began_cpu = time.perf_counter_ns(), time.process_time_ns()
    got = run()
    return (time.perf_counter_ns() - began) / 1e6, (time.process_time_ns() - began_cpu) / 1e6, got


def picks(load: Load, directory: Path) -> list[tuple[str, list[tuple[float, float]]]]:
    """(what, (wall, CPU) ms of each), each from a reader of its own."""
    random = np.random.default_rng(_SEED + 1)
    keys = load.keys()

    def one(start_ns: int, end_ns: int, coarse: bool = True) -> tuple[float, float]:
        key = keys[int(random.integers(load.series))]
        wall, cpu, got = timed(
            lambda: percentiles(
                list(HistoryReader(directory).pick(key.index, start_ns, end_ns, coarse=coarse)), key
            )
        )
        assert got == 0 or got % _RATE == 0
        return wall, cpu

    edges = np.sort(random.integers(_START_NS, _START_NS + load.seconds * _SECOND_NS, (_WINDOWS, 2)), axis=1)
    return [
        ("any window", [one(*window) for window in edges.tolist()]),
        ("the whole of it", [one(0, _FOREVER_NS) for _ in range(5)]),
        ("the whole of it, second by second", [one(0, _FOREVER_NS, coarse=False) for _ in range(3)]),
    ]


def read_all(directory: Path) -> int:
    """Returns the intervals."""
    return sum(1 for _ in HistoryReader(directory).coarse())


def add_up_all(load: Load, directory: Path) -> int:
    """Returns the values."""
    time_range = RangeSums(load.keys(), _PERCENTILES)
    for interval in HistoryReader(directory).coarse():
        time_range.add(interval)
    return sum(figures.count for figures in time_range.figures().values())


def measure(load: Load, directory: Path) -> None:
    print(f"{load.series:,} series, {_RATE} values a second each, {load.seconds:,} s\n")
    print("| what | figure |")
    print("|---|---|")
    taken = append_all(load, directory)
    for name, of in (("mean", statistics.fmean), ("median", statistics.median), ("most", max)):
        print(f"| append of an interval, {name} | {of(taken):.2f} ms CPU |")
    sizes: Counter[str] = Counter()
    for path in sorted(directory.iterdir()):
        sizes[path.name.partition("-")[0]] += path.stat().st_size
    for name, size in [*sizes.items(), ("all", sizes.total())]:
        print(f"| on disk, {name} | {size / 1e6:.1f} MB |")
    for what, times in picks(load, directory):
        walls, cpus = zip(*times, strict=True)
        print(
            f"| one series, {what} | {statistics.median(walls):.1f} ms wall (most {max(walls):.1f}), "
            f"{statistics.median(cpus):.1f} ms CPU (most {max(cpus):.1f}) |"
        )
    wall_ms, cpu_ms, _ = timed(lambda: read_all(directory))
    print(f"| all series, the whole of it, read | {wall_ms / 1e3:.2f} s wall, {cpu_ms / 1e3:.2f} s CPU |")
    wall_ms, cpu_ms, count = timed(lambda: add_up_all(load, directory))
    assert count == load.series * load.seconds * _RATE
    print(f"| the same, added up, percentiles | {wall_ms / 1e3:.2f} s wall, {cpu_ms / 1e3:.2f} s CPU |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--series", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--floats", action="store_true", help="values that are no whole numbers")
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    asked = parser.parse_args()
    load = Load(20, 75, asked.floats) if asked.tiny else Load(asked.series, asked.seconds, asked.floats)
    with TemporaryDirectory(prefix="tm-history-") as folder:
        measure(load, Path(folder) / "history")


if __name__ == "__main__":
    main()
