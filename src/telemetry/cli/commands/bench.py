"""`telemetry bench`: the cost of telemetry on this machine, measured in a few seconds."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from telemetry.cli import console
from telemetry.common.formatting import number_of
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.client import Run
    from telemetry.wire.snapshot import MetricsSnapshot

Record = Callable[[float], object]

_SECONDS: Final = 3.0
_MOST_SECONDS: Final = 3_600.0
_RATE: Final = 100_000
_MOST_RATE: Final = 10_000_000
_VALUES: Final = [1.0 + number % 997 for number in range(1_000)]  # three decades: as many buckets as latencies
_ROUND_EVENTS: Final = 20_000
_ROUND_PAUSE_S: Final = 0.02
_BURST_S: Final = 0.001
_FLOOD_CHECK_EVENTS: Final = 10_000
_SETTLE_S: Final = 60.0
_LOOK_S: Final = 0.02


class Bench(Struct, kw_only=True, frozen=True):
    """The figures of one bench. Percentages are of one core."""

    machine: str
    seconds: float
    record_ns: float
    """Time that the caller spends in one `record`: the median over rounds."""
    record_cpu_ns: float
    """CPU time of the whole process for one event, including sending it."""
    rate: int
    """Requested events per second."""
    rate_reached: float
    longest_call_ns: int
    """The longest of all `record` calls at that rate."""
    longest_empty_call_ns: int
    """The longest call of an empty function at the same rate: the noise of the machine itself."""
    recorded: int
    """Events at that rate, and how many of them were lost."""
    lost: int
    aggregator_cpu_percent: float
    aggregator_rss_bytes: int
    flood_events_per_s: float
    """Ingested events per second, with policy `block`."""
    flood_recorded: int
    flood_lost: int


class LoopPace(Struct, kw_only=True, frozen=True):
    """The figures of one paced loop."""

    calls: int
    seconds: float
    longest_call_ns: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="length of each measurement (default: 3)")
    parser.add_argument(
        "--rate", type=int, default=_RATE, help="events per second in the paced measurement (default: 100000)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if not 0 < args.seconds <= _MOST_SECONDS:
        raise UsageError(
            f"--seconds {args.seconds:g} is out of range: must be above 0 and at most {_MOST_SECONDS:g}"
        )
    if not 0 < args.rate <= _MOST_RATE:
        raise UsageError(f"--rate {args.rate} is out of range: must be above 0 and at most {_MOST_RATE:,}")
    figures = measure(args.seconds, args.rate)
    if args.json:
        console.write_json(figures)
    else:
        console.write(render(figures))
    return Exit.OK


def measure(seconds: float, rate: int) -> Bench:
    """Measure all figures with three runs in a temporary directory, each with its own aggregator.

    Blocks for about four times `seconds`. Raises TelemetryError if an aggregator can't be started.
    """
    console.say(f"measuring an empty loop, {seconds:g} s …")
    empty = paced(lambda value: None, rate, seconds)
    console.say(f"measuring record() calls, {seconds:g} s …")
    with own_run("drop") as bench_run:
        record_ns, record_cpu_ns = cost_of(bench_run.series("bench", unit="ms").record, seconds)
    console.say(f"measuring {rate:,} events/s, {seconds:g} s …")
    with own_run("drop") as bench_run:
        record = bench_run.series("bench", unit="ms").record
        before = bench_run.live_report().snapshot
        pace = paced(record, rate, seconds)
        after = bench_run.live_report().snapshot
        account = bench_run.finish().snapshot.accounting
    console.say(f"measuring maximum throughput, {seconds:g} s …")
    with own_run("block") as bench_run:
        flooded, flood_per_s = flood(bench_run, seconds)
        flood_account = bench_run.finish().snapshot.accounting
    return Bench(
        machine=machine(),
        seconds=seconds,
        record_ns=record_ns,
        record_cpu_ns=record_cpu_ns,
        rate=rate,
        rate_reached=pace.calls / pace.seconds,
        longest_call_ns=pace.longest_call_ns,
        longest_empty_call_ns=empty.longest_call_ns,
        recorded=pace.calls,
        lost=pace.calls - account.applied,
        aggregator_cpu_percent=cpu_percent(before, after),
        aggregator_rss_bytes=after.cost.rss_bytes,
        flood_events_per_s=flood_per_s,
        flood_recorded=flooded,
        flood_lost=flooded - flood_account.applied,
    )


@contextmanager
def own_run(policy: Literal["drop", "block"]) -> Iterator[Run]:
    """Yield a run with its own aggregator in a temporary directory. Ignores an endpoint in the environment."""
    from telemetry.client import start
    from telemetry.client.process import ENDPOINT_VARIABLE

    around = os.environ.pop(ENDPOINT_VARIABLE, None)
    try:
        with tempfile.TemporaryDirectory(prefix="tm", ignore_cleanup_errors=True) as folder:
            bench_run = start("bench", dir=folder, policy=policy, quiet=True)
            try:
                yield bench_run
            finally:
                bench_run.finish()
    finally:
        if around is not None:
            os.environ[ENDPOINT_VARIABLE] = around


def cost_of(record: Record, seconds: float) -> tuple[float, float]:
    """Return (median ns of the caller, ns of the whole process's CPU) for one event.

    Calls `record` in rounds for this long. Pauses between rounds let the flusher catch up.
    """
    walls: list[float] = []
    cpu, end = time.process_time_ns(), time.perf_counter() + seconds
    while not walls or time.perf_counter() < end:
        begin = time.perf_counter_ns()
        for _ in range(_ROUND_EVENTS // len(_VALUES)):
            for value in _VALUES:
                record(value)
        walls.append((time.perf_counter_ns() - begin) / _ROUND_EVENTS)
        time.sleep(_ROUND_PAUSE_S)
    return statistics.median(walls), (time.process_time_ns() - cpu) / (len(walls) * _ROUND_EVENTS)


def paced(record: Record, rate: int, seconds: float) -> LoopPace:
    """Call `record` at the given rate, in bursts a millisecond apart, and time every call."""
    clock = time.perf_counter_ns
    burst = max(1, int(rate * _BURST_S))
    values = [_VALUES[number % len(_VALUES)] for number in range(burst)]
    longest = calls = 0
    begin = clock()
    end = begin + int(seconds * 1e9)
    while (now := clock()) < end:
        ahead_s = calls / rate - (now - begin) / 1e9
        if ahead_s > 0:
            time.sleep(ahead_s)
        for value in values:
            called = clock()
            record(value)
            longest = max(longest, clock() - called)
        calls += burst
    return LoopPace(calls=calls, seconds=(clock() - begin) / 1e9, longest_call_ns=longest)


def flood(bench_run: Run, seconds: float) -> tuple[int, float]:
    """Return (events recorded, events per second until all of them were ingested)."""
    record = bench_run.series("bench", unit="ms").record
    begin = time.perf_counter()
    done = 0
    while time.perf_counter() - begin < seconds:
        for _ in range(_FLOOD_CHECK_EVENTS // len(_VALUES)):
            for value in _VALUES:
                record(value)
        done += _FLOOD_CHECK_EVENTS
    while (account := bench_run.live_report().snapshot.accounting).applied + account.lost < done:
        if time.perf_counter() - begin > seconds + _SETTLE_S:
            raise TelemetryError(
                f"only {account.applied:,} of {done:,} events were ingested within {_SETTLE_S:g} s"
            )
        time.sleep(_LOOK_S)
    return done, done / (time.perf_counter() - begin)


def cpu_percent(before: MetricsSnapshot, after: MetricsSnapshot) -> float:
    """Return the aggregator's CPU use between two snapshots, by its own clocks."""
    span_s = after.elapsed_s - before.elapsed_s
    return 100.0 * (after.cost.cpu_s - before.cost.cpu_s) / span_s if span_s > 0 else 0.0


def machine() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processors = number_of(usable, "processor")
    return f"{platform.system()} {platform.machine()}, {processors}, Python {platform.python_version()}"


def render(figures: Bench) -> str:
    """Return the machine and one line for each figure."""
    from telemetry.common.formatting import count, duration_ns, scaled, size

    lines = [
        ("machine", figures.machine),
        (
            "one record()",
            (f"{figures.record_ns:.0f} ns in the caller; {figures.record_cpu_ns:.0f} ns of CPU including sending"),
        ),
        (
            "longest call",
            f"{duration_ns(figures.longest_call_ns)}; {duration_ns(figures.longest_empty_call_ns)} "
            "for an empty function",
        ),
        (
            f"at {count(figures.rate)} events/s",
            f"lost {count(figures.lost)} of {count(figures.recorded)}; aggregator "
            f"{figures.aggregator_cpu_percent:.1f} % of a core, {size(figures.aggregator_rss_bytes)}",
        ),
        (
            "maximum throughput",
            f"{scaled(figures.flood_events_per_s)} events/s ingested, "
            f"lost {count(figures.flood_lost)} of {count(figures.flood_recorded)}",
        ),
    ]
    if figures.rate_reached < 0.95 * figures.rate:
        lines.append(
            ("", f"this process produced only {scaled(figures.rate_reached)} events/s of the requested rate")
        )
    width = max(len(title) for title, _ in lines)
    return "".join(f"{title:<{width}}  {text}\n" for title, text in lines)
