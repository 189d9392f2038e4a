"""Requests: what a phase of one costs its caller and the aggregator, and what a million in flight take.

A phase is one call: issue, first, chunk, or complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from benchmarks import emit, ingest, peers
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
from telemetry.limits import MIB

if TYPE_CHECKING:
    from telemetry.client.requests.kind import Requests
    from telemetry.client.requests.request import Request

CHUNKS: Final = 30
FEW_CHUNKS: Final = 8
INGEST_LIMITS_NS: Final = {10_000: 60.0, 1_000: 90.0}
CALL_LIMITS_NS: Final = {"issue": 600.0, "first": 60.0, "chunk": 60.0, "complete": 2_000.0}
"""CPU time of the thread that calls; the flush, which another thread does, is in the figures of whole requests."""
LIMIT_MIB: Final = 200.0
_UNCOMPILED: Final = f"{ingest.small(ingest.RATES[-1])}, nothing compiled"
_WHOLE: Final = "whole request"
_JUDGED: Final = "complete with two limits"
_HDR: Final = "HdrHistogram record_value"
_ISSUED: Final = "in flight"
_STREAMING: Final = "in flight, planned, with key and chunks"
_SAID_EACH_S: Final = 1.2
_MOST: Final = 10_000  # outcomes in a row whose rows all fit into the buffer
_PEERS_MOST: Final = 2_000_000
_PIECE: Final = 50_000  # requests issued before the flusher has to have taken them
_IN_FLIGHT: Final[dict[Size, int]] = {"full": 10_000, "quick": 10_000, "tiny": 100}
_ROWS: Final[dict[Size, int]] = {"full": 200_000, "quick": 100_000, "tiny": 10_000}
_EVENTS: Final[dict[Size, int]] = {"full": 2_000_000, "quick": 500_000, "tiny": 20_000}
_PEER_EVENTS: Final[dict[Size, int]] = {"full": 100_000, "quick": 50_000, "tiny": 1_000}
_HELD: Final[dict[Size, int]] = {"full": 1_000_000, "quick": 1_000_000, "tiny": 5_000}
_ROUNDS: Final[dict[Size, int]] = {"full": 15, "quick": 5, "tiny": 1}
_ROUND_MS: Final[dict[Size, float]] = {"full": 60.0, "quick": 40.0, "tiny": 2.0}


# --- the caller ----------------------------------------------------------------------------------


def _kind() -> Requests:
    return emit.open_run().requests("llm")


def _measured(prepare: Callable[[int], list[Request]], work: Callable[[list[Request], int], int]) -> Measure:
    """Nanoseconds a phase: `work`, on what `prepare` made for so many phases, tells how many it did. `own_ns` is
    the CPU time of the caller's thread alone."""

    def measure(n: int) -> dict[str, Any]:
        requests = prepare(n)
        emit.flushed()
        begin, cpu, own = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
        done = work(requests, n)
        wall, own = time.perf_counter_ns() - begin, time.thread_time_ns() - own
        emit.flushed()
        cpu = time.process_time_ns() - cpu
        for request in requests:
            request.fail()  # those that `work` left in flight
        return {"n": done, "wall_ns": wall / done, "cpu_ns": cpu / done, "own_ns": own / done}

    return measure


def issue() -> Measure:
    call = _kind().issue

    def work(requests: list[Request], n: int) -> int:
        requests += [call() for _ in range(n)]
        return n

    return _measured(lambda n: [], work)


def first() -> Measure:
    call = _kind().issue

    def work(requests: list[Request], n: int) -> int:
        for request in requests:
            request.first()
        return n

    return _measured(lambda n: [call() for _ in range(n)], work)


def chunk() -> Measure:
    """So many requests stream at once that each chunk is of another one."""
    call = _kind().issue

    def work(requests: list[Request], n: int) -> int:
        for _ in range(CHUNKS):
            for request in requests:
                request.chunk()
        return CHUNKS * len(requests)

    return _measured(lambda n: _streaming(call, max(1, n // CHUNKS), 0), work)


def complete() -> Measure:
    return _completed(_kind())


def judged() -> Measure:
    """With two limits that each request is judged by."""
    return _completed(emit.open_run().requests("llm", slo="ttft:200 tpot:50"))


def _completed(kind: Requests) -> Measure:
    call = kind.issue

    def work(requests: list[Request], n: int) -> int:
        for request in requests:
            request.complete(finish_reason="stop")
        requests.clear()
        return n

    return _measured(lambda n: _streaming(call, n, CHUNKS), work)


def whole() -> Measure:
    """All phases, one request after the other."""
    call = _kind().issue

    def work(requests: list[Request], n: int) -> int:
        wanted = max(1, n // (CHUNKS + 3))
        for _ in range(wanted):
            request = call()
            request.first()
            for _ in range(CHUNKS):
                request.chunk()
            request.complete(finish_reason="stop")
        return wanted * (CHUNKS + 3)

    return _measured(lambda n: [], work)


def _streaming(call: Callable[[], Request], count: int, chunks: int) -> list[Request]:
    requests = [call() for _ in range(count)]
    for request in requests:
        request.first()
        for _ in range(chunks):
            request.chunk()
    return requests


# --- the aggregator ------------------------------------------------------------------------------


def ingested(batch_events: int, chunks: int, frames_a_turn: int) -> Measure:
    """`benchmarks.ingest` with such requests, a phase."""
    made: dict[tuple[int, int], tuple[float, Measure]] = {}

    def measure(n: int, in_flight: int, rows: int) -> dict[str, Any]:
        from benchmarks.request_frames import RequestFrames

        if (in_flight, rows) not in made:
            maker = RequestFrames(batch_events, chunks, in_flight, rows // batch_events)
            made[in_flight, rows] = maker.events_a_phase, ingest.ours(maker, frames_a_turn, journaled=False)
        events_a_phase, of_events = made[in_flight, rows]
        found = of_events(n=n)
        return {key: found[key] * events_a_phase for key in ("wall_ns", "cpu_ns")} | {"n": found["n"]}

    return measure


# --- memory --------------------------------------------------------------------------------------


def held(streaming: bool) -> Measure:
    """How many bytes the process and its aggregator grow by with so many requests in flight."""
    run = emit.open_run()
    kind = run.requests("llm")

    def hold(number: int) -> Request:
        if not streaming:
            return kind.issue()
        request = kind.issue(key=f"request-{number}", planned=time.monotonic_ns())
        request.first()
        for _ in range(CHUNKS):
            request.chunk()
        return request

    def measure(n: int) -> dict[str, Any]:
        _settle(run.endpoint, [hold(number) for number in range(min(n, _PIECE))])
        own, aggregator = _own_bytes(), _aggregator_bytes(run.endpoint)
        requests: list[Request] = []
        for begin in range(0, n, _PIECE):
            requests += [hold(number) for number in range(begin, min(n, begin + _PIECE))]
            emit.flushed()
        grown = {"own": _own_bytes() - own, "aggregator": _aggregator_bytes(run.endpoint) - aggregator}
        assert kind.in_flight == n, "all of them are in flight"
        _settle(run.endpoint, requests)
        return grown

    return measure


def _settle(endpoint: str, requests: list[Request]) -> None:
    """Ends them: what was made for the first time, buffers and instruments, is there by then."""
    for request in requests:
        request.fail()
    emit.flushed()
    _aggregator_bytes(endpoint)


def _own_bytes() -> int:
    from telemetry.daemon.cost import rss_bytes

    return rss_bytes()


def _aggregator_bytes(endpoint: str) -> int:
    """As it says itself, once a second."""
    from telemetry.cli.find_run import ask

    time.sleep(_SAID_EACH_S)
    return ask(endpoint).cost.rss_bytes


# --- all of it -----------------------------------------------------------------------------------

CALLS: Final[dict[str, Callable[[], Measure]]] = {
    "issue": issue,
    "first": first,
    "chunk": chunk,
    "complete": complete,
    _JUDGED: judged,
    _WHOLE: whole,
}
_ALONE: Final = (1_000, CHUNKS, ingest.gathered(1_000, ingest.RATES[-1]))
INGESTS: Final[dict[str, tuple[int, int, int, float | None]]] = {
    "batches of 10k": (10_000, CHUNKS, 1, INGEST_LIMITS_NS[10_000]),
    **{
        ingest.small(rate): (
            1_000,
            CHUNKS,
            ingest.gathered(1_000, rate),
            INGEST_LIMITS_NS[1_000],
        )
        for rate in ingest.RATES
    },
    _UNCOMPILED: (*_ALONE, None),
    "batches of 10k, few chunks": (10_000, FEW_CHUNKS, 1, None),
    "batches of 1k, few chunks": (1_000, FEW_CHUNKS, ingest.gathered(1_000, ingest.RATES[0]), None),
}
ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    **CALLS,
    **{name: lambda asked=asked: ingested(*asked[:3]) for name, asked in INGESTS.items()},  # type: ignore[misc]
    _UNCOMPILED: lambda: ingest.uncompiled(lambda: ingested(*_ALONE)),
    _ISSUED: lambda: held(False),
    _STREAMING: lambda: held(True),
}


def run(size: Size) -> Outcome:
    figures: list[Figure] = []
    measurements: dict[str, dict[str, Any]] = {}
    for part in (_calls, _ingest, _memory):
        found = part(size)
        figures += found.figures
        measurements |= found.measurements
    return Outcome(figures, measurements)


def _calls(size: Size) -> Outcome:
    homes = dict.fromkeys(CALLS, __name__) | dict.fromkeys(emit.SERIES_PEERS, peers.__name__)
    workers = {name: Worker(module, name) for name, module in homes.items()}
    for name in CALL_LIMITS_NS:
        workers[_in_python(name)] = Worker(__name__, name, {SWITCH: "0"})
    arguments = {
        name: {"n": calibrate(worker, _ROUND_MS[size], most=_MOST if "complete" in name else _PEERS_MOST)}
        for name, worker in workers.items()
    }
    rounds = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    figures = [
        Figure(
            _call(name),
            median(rounds[name], key),
            unit,
            limit if key == "own_ns" else None,
            peer=emit.IN_PYTHON.removeprefix(", "),
            peer_value=median(rounds[_in_python(name)], key),
            ratio=paired_ratio(rounds[name], rounds[_in_python(name)], key),
        )
        for name, limit in CALL_LIMITS_NS.items()
        for key, unit in (("own_ns", "ns CPU of its caller"), ("cpu_ns", "ns CPU, the flush included"))
    ]
    figures.append(
        Figure(f"{_call('complete')}, two limits", median(rounds[_JUDGED], "own_ns"), "ns CPU of its caller")
    )
    figures += [_beside(rounds, key, unit) for key, unit in (("wall_ns", "ns wall"), ("cpu_ns", "ns CPU"))]
    keys = ("wall_ns", "cpu_ns")
    measurements = {
        f"{name}, calls": summary(taken, (*keys, "own_ns") if "own_ns" in taken[0] else keys)
        for name, taken in rounds.items()
    }
    return Outcome(figures, measurements)


def _in_python(name: str) -> str:
    return name + emit.IN_PYTHON


def _call(name: str) -> str:
    return f"request.{name}(), {CHUNKS} chunks before it" if name == "complete" else f"request.{name}()"


def _beside(rounds: dict[str, list[Round]], key: str, unit: str) -> Figure:
    """A phase beside one value recorded with another library."""
    peer = best({other: rounds[other] for other in emit.SERIES_PEERS}, key)
    return Figure(
        f"a request of {CHUNKS + 3} phases from issue to complete, per phase",
        median(rounds[_WHOLE], key),
        unit,
        peer=peer,
        peer_value=median(rounds[peer], key),
        ratio=paired_ratio(rounds[_WHOLE], rounds[peer], key),
    )


def _ingest(size: Size) -> Outcome:
    in_flight, rows = _IN_FLIGHT[size], _ROWS[size]
    workers = {name: Worker(__name__, name) for name in INGESTS} | {_HDR: Worker(peers.__name__, _HDR)}
    arguments = {name: {"n": _EVENTS[size], "in_flight": in_flight, "rows": rows} for name in INGESTS}
    arguments[_HDR] = {"n": _PEER_EVENTS[size]}
    for name, worker in workers.items():
        worker.measure(**arguments[name])
    rounds = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    figures = [
        Figure(
            f"ingest, {in_flight:,} requests in flight, {chunks + 3} phases each, "
            f"{name.removesuffix(', few chunks')}, per phase",
            median(rounds[name], "cpu_ns"),
            "ns CPU",
            limit,
            peer=_HDR,
            peer_value=median(rounds[_HDR], "cpu_ns"),
            ratio=paired_ratio(rounds[name], rounds[_HDR], "cpu_ns"),
        )
        for name, (_, chunks, _, limit) in INGESTS.items()
    ]
    return Outcome(figures, {f"{name}, ingest": summary(taken) for name, taken in rounds.items()})


def _memory(size: Size) -> Outcome:
    figures: list[Figure] = []
    measurements: dict[str, dict[str, Any]] = {}
    n = _HELD[size]
    for name, limit in ((_ISSUED, LIMIT_MIB), (_STREAMING, None)):
        with Worker(__name__, name) as worker:
            found = worker.measure(n=n)
        figures.append(Figure(f"{n:,} requests {name}: growth of their process", found["own"] / MIB, "MiB", limit))
        figures.append(Figure("the same, growth of the aggregator", found["aggregator"] / MIB, "MiB"))
        measurements[f"{n:,} requests {name}"] = found
    return Outcome(figures, measurements)
