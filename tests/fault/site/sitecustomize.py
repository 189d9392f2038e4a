"""Put on PYTHONPATH by tests of faults: what of the surroundings of a process a test can't change from outside.

FAULT_WALL_CLOCK=FILE       `time.time` and `time.time_ns` are off by the seconds written in FILE
FAULT_LIMITS=NAME=VALUE,…   other values for constants of `telemetry.limits`
FAULT_WRITERS_WAIT=FILE     a writer of a backend does nothing until FILE exists
"""

from __future__ import annotations

import os
import sys
import time


def _step_wall_clock(path: str) -> None:
    real_ns = time.time_ns

    def stepped_ns() -> int:
        with open(path, encoding="ascii") as file:
            return real_ns() + round(float(file.read() or "0") * 1_000_000_000)

    time.time_ns = stepped_ns
    time.time = lambda: stepped_ns() / 1e9


def _move_limits(settings: str) -> None:
    from telemetry import limits

    for setting in settings.split(","):
        name, _, value = setting.partition("=")
        setattr(limits, name, type(getattr(limits, name))(value))


def _wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.02)


if "FAULT_WALL_CLOCK" in os.environ:
    _step_wall_clock(os.environ["FAULT_WALL_CLOCK"])
if "FAULT_LIMITS" in os.environ:
    _move_limits(os.environ["FAULT_LIMITS"])
if "FAULT_WRITERS_WAIT" in os.environ and "--writer" in sys.orig_argv:
    _wait_for(os.environ["FAULT_WRITERS_WAIT"])
