"""The thread that waits for disks."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator

import pytest

from telemetry.daemon.worker_thread import Worker

DEADLINE_S = 20.0


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("w")
    yield made
    made.close(DEADLINE_S)


def readable(fd: int, timeout_s: float = 0.0) -> bool:
    poller = select.poll()  # select() knows no descriptor above 1,023
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1_000))


def test_jobs_run_in_order_and_answers_are_delivered_on_the_asking_thread(worker: Worker) -> None:
    """The descriptor wakes the owner; callbacks run where `deliver` is called, results in order."""
    here = threading.get_ident()
    heard: list[tuple[object, int]] = []
    there: list[int] = []

    def job(number: int) -> Callable[[], int]:
        def run() -> int:
            there.append(threading.get_ident())
            return number

        return run

    for number in range(5):
        assert worker.submit(job(number), lambda result, error: heard.append((result, threading.get_ident())))
    while len(heard) < 5:
        assert readable(worker.fd, DEADLINE_S)
        worker.deliver()
    assert heard == [(number, here) for number in range(5)]
    assert set(there) != {here}
    assert not readable(worker.fd)


def test_a_failed_job_is_told_and_ends_nothing(worker: Worker) -> None:
    """The error goes to its callback, and the next job runs."""
    heard: list[tuple[object, object]] = []

    def fail() -> None:
        raise ValueError("no")

    worker.submit(fail)
    worker.submit(fail, lambda result, error: heard.append((result, str(error))))
    worker.submit(lambda: 7, lambda result, error: heard.append((result, error)))
    while len(heard) < 2:
        assert readable(worker.fd, DEADLINE_S)
        worker.deliver()
    assert heard == [(None, "no"), (7, None)]


def test_a_stuck_disk_refuses_jobs_instead_of_blocking(worker: Worker) -> None:
    """The queue has a bound; what is beyond it is refused and counted, and `close` says that it took too long."""
    stuck = threading.Event()
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        stuck.wait(DEADLINE_S)

    worker.submit(wait)
    assert entered.wait(DEADLINE_S)
    taken = 0
    while worker.submit(lambda: None):
        taken += 1
    assert 100 < taken < 1_000
    assert not worker.close(0.01)
    stuck.set()


def test_close_finishes_what_is_queued_and_its_answers_can_be_delivered() -> None:
    """All jobs submitted before the end are finished, and the thread is gone."""
    worker = Worker("w")
    heard: list[object] = []
    for number in range(50):
        worker.submit(lambda number=number: number, lambda result, error: heard.append(result))
    assert worker.close(DEADLINE_S)
    worker.deliver()
    assert heard == list(range(50))
    assert "w" not in {thread.name for thread in threading.enumerate()}


def test_delivering_nothing_is_nothing(worker: Worker) -> None:
    """The owner may ask at any time."""
    worker.deliver()
    assert not readable(worker.fd)
