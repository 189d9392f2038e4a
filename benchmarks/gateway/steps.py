"""Steps as trainers report them: a batch of 50 metrics and a report, over one kept-alive connection a client."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from multiprocessing.pool import ThreadPool
from typing import Any, Final, NamedTuple

from benchmarks.gateway import services

_METRICS: Final = 50
_CLIENTS: Final = 8
_WARM_UP: Final = 3
_SEED_MS: Final = 4.9
"""A step of the original service with TensorBoard, as one client saw it, measured on a machine like this one."""
_BACKENDS: Final[tuple[tuple[str, tuple[str, ...], float | None], ...]] = (
    ("none", (), None),
    ("TensorBoard", ("--to", "tensorboard"), None),
    ("TensorBoard, not waited for", ("--to", "tensorboard"), 0.0),
)
_HEADERS: Final = {"Content-Type": "application/json"}


class Client(NamedTuple):
    """One of several clients. Each reports steps of its own axis: a slow one must not fall behind the others."""

    url: str
    number: int
    steps: int
    """Number of its steps."""
    wait_s: float | None
    """Longest wait of a report for backends; None: as the gateway does by itself."""


class Steps(NamedTuple):
    """Times of steps, and how many answers had each status."""

    ms: list[float]
    statuses: dict[int, int]


def show(count: int, *, tiny: bool = False) -> None:
    """Measure, and print a Markdown table. `tiny` is for a trial: each backend and each form of clients once."""
    print(f"steps of {_METRICS} metrics: log_metrics_batch and report_step; the original service: {_SEED_MS} ms")
    print("| clients | backend | step p50 ms | step p99 ms | steps/s | answers by status |")
    print("|---|---|---|---|---|---|")
    forms = (
        ("1", 1, _in_threads),
        (f"{_CLIENTS} threads", _CLIENTS, _in_threads),
        (f"{_CLIENTS} processes", _CLIENTS, _in_processes),
    )
    for number, (backend, words, wait_s) in enumerate(_BACKENDS):
        for name, clients, run in (forms[number % len(forms)],) if tiny else forms:
            with services.gateway(*words) as service:
                each = max(5, count // 10) if words and wait_s is None else count
                _row(f"{name}", backend, run, [Client(service.url, n, each, wait_s) for n in range(clients)])


def _row(name: str, backend: str, run: Callable[[list[Client]], list[Steps]], clients: list[Client]) -> None:
    began = time.perf_counter()
    found = run(clients)
    took_s = time.perf_counter() - began
    times = sorted(ms for steps in found for ms in steps.ms)
    statuses = sum((Counter(steps.statuses) for steps in found), Counter())
    answers = ", ".join(f"{status}: {number}" for status, number in sorted(statuses.items()))
    p50, p99 = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99))
    print(f"| {name} | {backend} | {p50:.2f} | {p99:.2f} | {len(times) / took_s:,.0f} | {answers} |", flush=True)


def _in_threads(clients: list[Client]) -> list[Steps]:
    with ThreadPool(len(clients)) as pool:
        return pool.map(report_steps, clients, chunksize=1)


def _in_processes(clients: list[Client]) -> list[Steps]:
    with multiprocessing.get_context("spawn").Pool(len(clients)) as pool:
        return pool.map(report_steps, clients, chunksize=1)


def report_steps(client: Client) -> Steps:
    """Report steps one after the other. The first ones are not measured."""
    host, _, port = client.url.removeprefix("http://").rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    statuses: Counter[int] = Counter()
    times: list[float] = []
    axis = f"client{client.number}"
    for step in range(client.steps + _WARM_UP):
        place = {"step": step, "axis": axis}
        metrics = {f"train/metric_{metric}": 0.37 * metric + step for metric in range(_METRICS)}
        began = time.perf_counter()
        first = _post(connection, "/metrics/log_metrics_batch", place | {"metrics": metrics})
        second = _post(connection, "/metrics/report_step", place | {"wait_s": client.wait_s})
        if step >= _WARM_UP:
            times.append(1e3 * (time.perf_counter() - began))
            statuses.update((first, second))
    connection.close()
    return Steps(times, dict(statuses))


def _post(connection: HTTPConnection, path: str, body: dict[str, Any]) -> int:
    connection.request("POST", path, json.dumps(body), _HEADERS)
    answer = connection.getresponse()
    answer.read()
    return answer.status
