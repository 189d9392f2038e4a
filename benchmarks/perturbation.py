"""What recording does to the program that records: a 100 µs loop with 20 events in each iteration."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks import emit, message_peer, peers
from benchmarks.harness import (
    Figure,
    Outcome,
    Round,
    Size,
    Worker,
    best,
    interleave,
    median,
    paired_ratio,
    summary,
)
from benchmarks.worker import Measure
from telemetry.client.native_module import SWITCH

LIMIT_P50: Final = 1.02
LIMIT_P99: Final = 1.05
LIMIT_P999: Final = 1.2
NONE: Final = "nothing recorded"
OURS: Final = "telemetry series.record"
_PEERS: Final = (
    "prometheus_client Counter.inc",
    "prometheus_client Histogram.observe",
    "one ZeroMQ message per event",
)
_SPIN_NS: Final = 100_000
_EVENTS: Final = 20
_ROUNDS: Final[dict[Size, int]] = {"full": 21, "quick": 7, "tiny": 1}
_ITERATIONS: Final[dict[Size, int]] = {"full": 3_000, "quick": 1_500, "tiny": 50}


def spin(count: int) -> int:
    """Pure Python work that allocates nothing lasting."""
    x = 1
    for _ in range(count):
        x = (x * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return x


def spins(duration_ns: int) -> int:
    """How many take so long when nothing interrupts."""
    probe = 1_000
    fastest = duration_ns
    for _ in range(200):
        begin = time.perf_counter_ns()
        spin(probe)
        fastest = min(fastest, time.perf_counter_ns() - begin)
    return probe * duration_ns // fastest


def _loop(record: peers.Recorder, values: list[Any]) -> Measure:
    """The loop with nothing recorded, then with, in the same process: two processes of one program differ by some
    percent by where their memory lies alone."""

    def measure(count: int, iterations: int, events: int) -> dict[str, Any]:
        base = _durations(_nothing, values[:events], count, iterations)
        cpu = time.process_time_ns()
        slowed = _durations(record, values[:events], count, iterations)
        cpu = time.process_time_ns() - cpu
        quantiles = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
        figures: dict[str, Any] = {"cpu_us": cpu / iterations / 1e3, "max_us": slowed[-1] / 1e3}
        for name, at in quantiles.items():
            figures[f"{name}_us"] = slowed[int(iterations * at)] / 1e3
            figures[name] = slowed[int(iterations * at)] / base[int(iterations * at)]
        return figures | {"mean_us": sum(slowed) / iterations / 1e3, "mean": sum(slowed) / sum(base)}

    return measure


def _durations(record: peers.Recorder, values: list[Any], count: int, iterations: int) -> list[int]:
    """Nanoseconds of each iteration, ascending."""
    durations = [0] * iterations
    clock = time.perf_counter_ns
    for turn in range(iterations):
        begin = clock()
        spin(count)
        for value in values:
            record(value)
        durations[turn] = clock() - begin
    return sorted(durations)


def _nothing(value: float) -> None:
    """A call, as every alternative makes one."""


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    NONE: lambda: _loop(_nothing, peers.SECONDS),
    OURS: lambda: _loop(emit.open_run().series("latency", unit="s").record, peers.SECONDS),
    _PEERS[0]: lambda: _loop(peers.prometheus_counter(), peers.SECONDS),
    _PEERS[1]: lambda: _loop(peers.prometheus_histogram(), peers.SECONDS),
    _PEERS[2]: lambda: _loop(message_peer.recorder(), peers.NANOSECONDS),
}


def run(size: Size) -> Outcome:
    count = spins(_SPIN_NS)
    workers = {name: Worker(__name__, name) for name in ALTERNATIVES}
    workers[OURS + emit.IN_PYTHON] = Worker(__name__, OURS, {SWITCH: "0"})
    load = {"count": count, "iterations": _ITERATIONS[size], "events": _EVENTS}
    for worker in workers.values():
        worker.measure(**load)
    rounds = interleave(workers, dict.fromkeys(workers, load), _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    figures = [
        _figure(rounds, key, word, limit, built)
        for built in ("", emit.IN_PYTHON)
        for key, word, limit in (
            ("p50", "median", LIMIT_P50),
            ("p99", "p99", LIMIT_P99),
            ("p999", "p99.9", LIMIT_P999),
            ("mean", "mean", None),
        )
    ]
    return Outcome(figures, {name: summary(taken, list(taken[0])) for name, taken in rounds.items()})


def _figure(rounds: dict[str, list[Round]], key: str, word: str, limit: float | None, built: str) -> Figure:
    """Everything as a multiple of the loop that records nothing."""
    peer = best({name: rounds[name] for name in _PEERS}, key)
    ours = rounds[OURS + built]
    return Figure(
        f"100 µs loop with {_EVENTS} events, {word}{built}",
        median(ours, key),
        "× the loop without",
        None if built else limit,
        peer=peer,
        peer_value=median(rounds[peer], key),
        ratio=paired_ratio(ours, rounds[peer], key),
    )
