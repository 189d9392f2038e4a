"""What one recording call costs its caller, and the whole process, with the flush running to a real aggregator."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from benchmarks import peers
from benchmarks.harness import (
    Figure,
    Outcome,
    Round,
    Size,
    Worker,
    best,
    calibrate,
    interleave,
    median,
    paired_ratio,
    summary,
)
from benchmarks.worker import Measure
from telemetry.client.native_module import SWITCH

if TYPE_CHECKING:
    from telemetry.client import Run

SERIES: Final = "telemetry series.record"
COUNTER: Final = "telemetry counter.add"
SERIES_PEERS: Final = (
    "prometheus_client Histogram.observe",
    "opentelemetry-sdk Histogram.record",
    "statsd pipeline",
    "statsd UDP",
    "datadog buffered",
    "HdrHistogram record_value",
)
COUNTER_PEERS: Final = ("prometheus_client Counter.inc", "opentelemetry-sdk Counter.add")
IN_PYTHON: Final = ", in Python"
"""End of the name of an alternative that runs without the compiled recorder."""
LIMIT_WALL_NS: Final = 45.0
LIMIT_CPU_NS: Final = 63.0
_LOOK_S: Final = 0.005
_THREADS: Final = (1, 4)
_MOST: Final = 900_000  # calls of a round: the buffer holds a million events, and a full one is another measurement
_ROUNDS: Final[dict[Size, int]] = {"full": 15, "quick": 5, "tiny": 1}
_ROUND_MS: Final[dict[Size, float]] = {"full": 60.0, "quick": 40.0, "tiny": 2.0}


def open_run() -> Run:
    """A run with an aggregator process of its own, in a temporary directory that goes with this process."""
    from telemetry.client import start

    os.environ.pop("TELEMETRY_ENDPOINT", None)
    folder = tempfile.mkdtemp(prefix="tm")
    run = start("bench", dir=folder)

    def end() -> None:
        run.finish(timeout=10.0)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return run


def flushed() -> None:
    """Waits until the flusher has taken everything."""
    from telemetry.client.process import PROCESS

    while PROCESS.recorders.buffer:
        time.sleep(_LOOK_S)


def series() -> Measure:
    return peers.measured(open_run().series("latency", unit="s").record, peers.SECONDS, flushed)


def counter() -> Measure:
    return peers.measured(open_run().counter("requests").add, peers.SECONDS, flushed)


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {SERIES: series, COUNTER: counter}


def run(size: Size) -> Outcome:
    homes = dict.fromkeys(ALTERNATIVES, __name__)
    homes |= dict.fromkeys(("list.append", *SERIES_PEERS, *COUNTER_PEERS), peers.__name__)
    workers = {name: Worker(module, name) for name, module in homes.items()}
    workers |= {name + IN_PYTHON: Worker(__name__, name, {SWITCH: "0"}) for name in ALTERNATIVES}
    sizes = {name: calibrate(worker, _ROUND_MS[size], most=_MOST) for name, worker in workers.items()}
    rounds: dict[int, dict[str, list[Round]]] = {}
    for threads in _THREADS:
        arguments = {name: {"n": n, "threads": threads} for name, n in sizes.items()}
        rounds[threads] = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    figures = [
        figure
        for threads, taken in rounds.items()
        for name, others in ((SERIES, SERIES_PEERS), (COUNTER, COUNTER_PEERS))
        for built in ("", IN_PYTHON)
        for figure in _figures(name, built, threads, taken, others)
    ]
    measurements = {
        f"{name}, {threads} threads": summary(taken[name]) for threads, taken in rounds.items() for name in taken
    }
    return Outcome(figures, measurements)


def _figures(
    name: str, built: str, threads: int, rounds: dict[str, list[Round]], others: tuple[str, ...]
) -> list[Figure]:
    what = f"{name.removeprefix('telemetry ')}(v), {threads} thread{'s' if threads > 1 else ''}{built}"
    ours = rounds[name + built]
    figures = []
    for key, unit, limit in (("wall_ns", "ns wall", LIMIT_WALL_NS), ("cpu_ns", "ns CPU", LIMIT_CPU_NS)):
        peer = best({other: rounds[other] for other in others}, key)
        figures.append(
            Figure(
                what,
                median(ours, key),
                unit,
                None if built else limit,
                peer=peer,
                peer_value=median(rounds[peer], key),
                ratio=paired_ratio(ours, rounds[peer], key),
            )
        )
    return figures
