"""Steps: what a call of `run.log` costs its caller and its process, beside the trackers' own calls.

The same scalars go to each, in a process of its own, with the aggregator of ours running and taking them.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks import emit, trackers
from benchmarks.harness import Figure, Outcome, Round, Size, Worker, best, interleave, median, paired_ratio, summary
from benchmarks.worker import Measure

COUNTS: Final = (1, 5, trackers.SCALARS)
LIMITS_NS: Final = {1: 3_000.0, 5: 3_000.0, trackers.SCALARS: 6_000.0}
"""CPU time of the thread that calls; the flush, which another thread does, is in the figures of whole steps."""
_NUMPY: Final = "telemetry run.log, 5 numpy scalars"
_END: Final = "telemetry run.end_step"
_AT_ONCE: Final = 20_000  # calls of a round: below what may wait for the flusher
_OWN: Final = "ns CPU of its caller"
_LOOK_S: Final = 0.005
_ROUNDS: Final[dict[Size, int]] = {"full": 9, "quick": 5, "tiny": 1}
_ROUND_MS: Final[dict[Size, float]] = {"full": 150.0, "quick": 60.0, "tiny": 2.0}


def _name(count: int) -> str:
    return f"telemetry run.log, {count} scalar{'s' if count > 1 else ''}"


def _flushed() -> None:
    """Waits until the flusher has taken everything."""
    from telemetry.client.process import PROCESS

    flusher = PROCESS.flusher
    assert flusher is not None
    while flusher.outbox.records:
        time.sleep(_LOOK_S)


def _measured(call: Callable[[int], object]) -> Measure:
    """Nanoseconds a call, which is given a step that no call had before. `own_ns` is the CPU time of the caller's
    thread alone, `cpu_ns` that of the whole process with its flusher."""
    steps = itertools.count()

    def measure(n: int) -> dict[str, Any]:
        begin, cpu, own = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
        for step in itertools.islice(steps, n):
            call(step)
        wall, own = time.perf_counter_ns() - begin, time.thread_time_ns() - own
        _flushed()
        cpu = time.process_time_ns() - cpu
        return {"n": n, "wall_ns": wall / n, "cpu_ns": cpu / n, "own_ns": own / n}

    return measure


def scalars(count: int) -> Measure:
    log, given = emit.open_run().log, trackers.values(count)
    return _measured(lambda step: log(given, step=step))


def numpy_scalars() -> Measure:
    import numpy

    log, given = emit.open_run().log, {name: numpy.float32(value) for name, value in trackers.values(5).items()}
    return _measured(lambda step: log(given, step=step))


def end_step() -> Measure:
    run = emit.open_run()
    run.log({"loss": 0.5}, step=0)
    return _measured(run.end_step)


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    **{_name(count): lambda count=count: scalars(count) for count in COUNTS},  # type: ignore[misc]
    _NUMPY: numpy_scalars,
    _END: end_step,
}


def run(size: Size) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    workers: dict[str, Worker] = {}
    try:
        for name in ALTERNATIVES:
            workers[name] = Worker(__name__, name)
        for number, name in enumerate(trackers.ALTERNATIVES):
            own = folder / str(number)
            own.mkdir()
            workers[name] = Worker(trackers.__name__, name, trackers.environment(own))
        arguments = {name: {"n": _fitting(worker, _ROUND_MS[size])} for name, worker in workers.items()}
        return _outcome(interleave(workers, arguments, _ROUNDS[size]))
    finally:
        for worker in workers.values():
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)


def _fitting(worker: Worker, round_ms: float) -> int:
    """Calls that take about so long. Some of them take ten thousand times as long as others."""
    n = 3
    for _ in range(3):
        n = int(max(1, min(_AT_ONCE, round_ms * 1e6 / worker.measure(n=n)["wall_ns"])))
    return n


def _outcome(rounds: dict[str, list[Round]]) -> Outcome:
    whole = _name(trackers.SCALARS)
    figures = [
        Figure(_name(count).removeprefix("telemetry "), median(rounds[_name(count)], "own_ns"), _OWN, limit)
        for count, limit in LIMITS_NS.items()
    ]
    figures += [
        Figure(name.removeprefix("telemetry "), median(rounds[name], "own_ns"), _OWN, LIMITS_NS[1])
        for name in (_NUMPY, _END)
    ]
    for key, unit in (("wall_ns", "ns wall"), ("cpu_ns", "ns CPU with the flush")):
        figures += [
            Figure(
                f"{_name(count).removeprefix('telemetry ')}, one after the other",
                median(rounds[_name(count)], key),
                unit,
            )
            for count in COUNTS[:-1]
        ]
        nearest = best({name: rounds[name] for name in trackers.ALTERNATIVES}, key)
        what = f"a step of {trackers.SCALARS} scalars, one after the other"
        ours, ratio = median(rounds[whole], key), paired_ratio(rounds[whole], rounds[nearest], key)
        figures.append(Figure(what, ours, unit, peer=nearest, peer_value=median(rounds[nearest], key), ratio=ratio))
        figures += [
            Figure(f"{what} with {name}", median(rounds[name], key), unit.removesuffix(" with the flush"))
            for name in trackers.ALTERNATIVES
        ]
    measurements = {
        name: summary(taken, ("wall_ns", "cpu_ns", *(("own_ns",) if name in ALTERNATIVES else ())))
        for name, taken in rounds.items()
    }
    return Outcome(figures, measurements)
