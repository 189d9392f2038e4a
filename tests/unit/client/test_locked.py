"""Locks of maps that all captures use: signal handlers and forked children never wait for them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from telemetry.client.signal_safe import LivingObjects, Locked
from telemetry.client.step_axes import StepAxes
from telemetry.integrations.tensorboard.values import WriterNames
from telemetry.integrations.wandb.rules import LoggedRows

pytestmark = pytest.mark.timeout(60)


def log_step(made: Locked, step: int) -> object:
    assert isinstance(made, StepAxes)
    return made.axis("loss", step)


def log_tag(made: Locked, step: int) -> object:
    assert isinstance(made, WriterNames)
    return made.name("/logs", f"tag {step}")


def log_row(made: Locked, step: int) -> object:
    assert isinstance(made, LoggedRows)
    return made.log({"loss": 1.0}, step=step)


@pytest.fixture(
    params=[(StepAxes, log_step), (WriterNames, log_tag), (LoggedRows, log_row)], ids=["axes", "names", "rows"]
)
def call(request: pytest.FixtureRequest) -> tuple[Locked, Callable[[int], object]]:
    """An object with a lock, and a call that takes the lock."""
    kind, log = request.param
    made = kind()
    return made, lambda step: log(made, step)


def test_a_signal_handler_may_log_while_its_thread_logs(call: tuple[Locked, Callable[[int], object]]) -> None:
    """A handler of SIGTERM that logs a last value must not hang the program."""
    made, log = call
    logged: list[object] = []

    def handle(number: int, frame: FrameType | None) -> None:
        logged.append(log(2))

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        log(1)
        with made._lock:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(logged) == 1


def test_a_child_forked_while_a_thread_holds_the_lock_goes_on(call: tuple[Locked, Callable[[int], object]]) -> None:
    """Loaders of data fork while other threads log."""
    made, log = call
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with made._lock:
            held.set()
            done.wait(50)

    log(1)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(50)
        child = os.fork()
        if not child:
            signal.alarm(20)
            log(2)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    finally:
        done.set()
        thread.join()


class Item:
    """An object that can be referenced weakly."""


def test_living_objects_are_read_while_another_thread_adds() -> None:
    """No reader fails, and objects that are gone are not returned."""
    objects: LivingObjects[Item] = LivingObjects()
    kept, done = [Item() for _ in range(2_000)], threading.Event()
    for item in kept:
        objects.add(item)

    def come_and_go() -> None:
        while not done.is_set():
            objects.add(Item())

    thread = threading.Thread(target=come_and_go)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(200):
            assert set(kept) <= set(objects.living())
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()
    assert set(objects.living()) == set(kept)
