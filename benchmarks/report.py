"""What a report of an hour of a thousand series costs, and any window of one of them.

    python -m benchmarks.report [--series N] [--seconds N] [--run DIR] [--tiny]

The history is that of `benchmarks.history`. A report is the whole command, from the start of its process on.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.harness import ROOT
from benchmarks.history import Load, append_all
from telemetry.history.instrument_ids import series_id
from telemetry.history.interval_sums import Sum, SumRows
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.histograms import Digest
from telemetry.history.over_time import step_for
from telemetry.history.run import RecordedRun, open_run
from telemetry.report import FORMATS
from telemetry.statistics.hdr.layout import Layout
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import HistoryReader
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.snapshot import Accounting, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

LIMIT_CPU_S: Final = 2.0
LIMIT_WINDOW_MS: Final = 50.0
_PERCENTILES: Final = ("50", "75", "90", "95", "99", "99.9", "99.99")
_WINDOWS: Final = 20
_SEED: Final = 11
_SECOND_NS: Final = 1_000_000_000


def build(load: Load, root: Path) -> Path:
    """A finished run with this history; returns its directory."""
    started_ns = next(load.intervals()).start_ns
    directory = RunDirectory.create(root, "bench", "bench1", started_ns)
    directory.write_manifest(manifest_for(directory, "bench", "bench1", [], ""))
    append_all(load, directory.history)
    write_final(_result(load, directory, started_ns), [directory.final])
    return directory.path


def _result(load: Load, directory: RunDirectory, started_ns: int) -> MetricsSnapshot:
    rows = SumRows(load.keys())
    total = Sum(rows)
    for interval in HistoryReader(directory.history).coarse():
        total.add(Columns.of(interval), (interval.end_ns - interval.start_ns) / 1e9)
    added = total.added()
    stats = []
    for row, key in enumerate(rows.keys):
        digest = Digest(key, 0, 0, added.only(row, rows))
        figures = digest.figures(_PERCENTILES)
        stats.append(
            SeriesStat(
                name=key.name,
                unit=key.unit,
                count=figures.count,
                total=figures.total,
                min=figures.min,
                max=figures.max,
                mean=figures.total / figures.count,
                percentiles=dict(figures.percentiles),
                error_bound=Layout.of(key.digits).error_bound,
                histogram=digest.cells(),
                cell_unit=digest.cell_unit,
            )
        )
    values = int(added.count.sum())
    return MetricsSnapshot(
        run_id="bench1",
        name="bench",
        state="COMPLETE",
        completeness="complete",
        started_ns=started_ns,
        time_ns=started_ns + load.seconds * _SECOND_NS,
        elapsed_s=float(load.seconds),
        window_s=10.0,
        accounting=Accounting(emitted=values, received=values, applied=values),
        counters=[CounterStat(name="events", value=values)],
        gauges=[GaugeStat(name="late", unit="ns")],
        series=stats,
        directory=str(directory.path),
    )


def render_all(run: Path, folder: Path) -> Iterator[tuple[str, float, int]]:
    """(what, CPU seconds of the whole command, bytes) of `telemetry report`, each in a process of its own."""
    _cpu_s(["report", str(run), "-o", str(folder / "first.html")])  # compiles what is not compiled yet
    for form in FORMATS:
        path = folder / f"report.{form}"
        words = ["--format", form, "-o", str(path)]
        if form == "hgrm":
            words += ["--series", open_run(run).result.snapshot.series[0].name]
        yield form, _cpu_s(["report", str(run), *words]), path.stat().st_size
    cpu_s = _cpu_s(["report", str(run), "--format", "hgrm", "-o", f"{folder / 'all'}/"])
    yield "hgrm, a file for each series", cpu_s, sum(path.stat().st_size for path in folder.glob("all/**/*.hgrm"))


def _cpu_s(words: list[str]) -> float:
    """User and system time of a command."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "telemetry", *words], cwd=ROOT, env=compiled, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def digest_windows(run: Path) -> tuple[list[float], list[float]]:
    """(wall ms, CPU ms) of the percentiles of one series in random windows, each from a history just opened."""
    random = np.random.default_rng(_SEED)
    first = open_run(run)
    ids = [series_id(stat) for stat in first.result.snapshot.series]
    walls, cpus = [], []
    for edges in np.sort(random.uniform(0.0, first.end_s, (_WINDOWS, 2)), axis=1).tolist():
        opened = RecordedRun(first.result, first.directory)
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        digest = opened.digest(ids[int(random.integers(len(ids)))], *edges)
        assert digest.figures(_PERCENTILES).count
        digest.bounds(_PERCENTILES)
        walls.append((time.perf_counter_ns() - began_ns) / 1e6)
        cpus.append((time.process_time_ns() - began_cpu_ns) / 1e6)
    return walls, cpus


def all_windows(run: Path) -> tuple[int, float]:
    """(number, CPU seconds) of sixty windows of all series."""
    opened = open_run(run)
    step_s = step_for(opened.end_s)
    began_s = time.process_time()
    number = sum(bool(window.series) for window in opened.windows(step_s))
    return number, time.process_time() - began_s


def measure(run: Path) -> bool:
    """Prints the figures. Whether all of them hold."""
    fine = True
    print("| `telemetry report --format` | CPU | size |")
    print("|---|---|---|")
    with TemporaryDirectory(prefix="tm-report-") as folder:
        for form, cpu_s, size in render_all(run, Path(folder)):
            fine &= cpu_s <= LIMIT_CPU_S
            print(f"| {form} | {cpu_s:.2f} s | {size / 1e6:.2f} MB |", flush=True)
    walls, cpus = digest_windows(run)
    median_ms = statistics.median(walls)
    print(f"\none series in any window: {median_ms:.1f} ms, at most {max(walls):.1f} ms", end="")
    print(f" ({statistics.median(cpus):.1f} and {max(cpus):.1f} ms CPU)")
    number, cpu_s = all_windows(run)
    print(f"{number} windows of all series: {cpu_s:.2f} s CPU")
    return fine and median_ms <= LIMIT_WINDOW_MS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--series", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--run", type=Path, help="a run directory instead of a new one")
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    asked = parser.parse_args()
    load = Load(20, 75, False) if asked.tiny else Load(asked.series, asked.seconds, False)
    print(f"{load.series:,} series, {load.seconds:,} s\n", flush=True)
    with TemporaryDirectory(prefix="tm-report-") as folder:
        run = asked.run if asked.run is not None else build(load, Path(folder))
        fine = measure(run)
    return 0 if fine or asked.tiny else 1


if __name__ == "__main__":
    sys.exit(main())
