"""The way of values into the run of this process, through the client of telemetry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from telemetry.client import bins
from telemetry.client import module_level as telemetry
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat.relax.timeline import record_timeline
from telemetry.compat.relax.values import Distribution, Entry, Events, Place, ToDistribution, counted, tagged
from telemetry.errors import TelemetryError
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetStatus, Status
from telemetry.wire.snapshot import BackendStat

NO_RUN: Final = "no run: start one with `telemetry run -- CMD`"
_OVER: Final = "the run of this process has ended"
_WANDB: Final = "wandb"
_ASK_S: Final = 1.0
_DECLARED: Final[set[tuple[int, int, str]]] = set()


def is_in_run() -> bool:
    """Return whether this process has a run, or its environment names one."""
    return bool(os.environ.get(ENDPOINT_VARIABLE)) or PROCESS.state in ("live", "inherited")


def missing_run() -> str:
    """Return why this process can't record, or an empty string. Attach it if the environment names a run."""
    if PROCESS.state == "idle":
        PROCESS.attach_by_itself()
    return {"idle": NO_RUN, "finished": _OVER}.get(PROCESS.state, "")


def is_declared(axis: str) -> bool:
    """Return whether this process has declared that a step of an axis closes when one process reports it."""
    return (PROCESS.attached, os.getpid(), axis) in _DECLARED


def declare(axis: str) -> None:
    """Declare, once a run, that a step of an axis closes when one process reports it. Raise InstrumentError."""
    if not is_declared(axis):
        telemetry.axis(axis, reduce="last", closing="reported")
        _DECLARED.add((PROCESS.attached, os.getpid(), axis))


def names_of(backends: Iterable[BackendStat]) -> tuple[list[str], bool]:
    """Return the names of backends as Relax's service has them: all but W&B, and whether W&B is there."""
    kinds = [stat.kind or stat.name for stat in backends]
    return [kind for kind in kinds if kind != _WANDB], _WANDB in kinds


class NativeTransport:
    """The run of this process. Only `health` waits for another process; the others take microseconds."""

    url: Final = ""
    to_distribution: Final[ToDistribution] = staticmethod(counted)

    def put(self, axis_step: Place, entries: Sequence[Entry]) -> bool:
        """Record values of a step. Return False if there is no run."""
        if missing_run():
            return False
        declare(axis_step[0])
        record_values(axis_step, entries)
        return True

    def report(
        self, axis_step: Place, entries: Sequence[Entry], count: int, *, waits: bool = True
    ) -> dict[str, Any]:
        """Record the last values of a step, and close it. `count` is the number of all its values."""
        axis, step = axis_step
        if not self.put(axis_step, entries):
            return {"status": "error", "message": missing_run() or _OVER}
        telemetry.end_step(step, axis=axis)
        return {"status": "success", "message": f"Reported {count} metrics for step {step}", "results": {}}

    def clear(self, axis_step: tuple[str, int | None]) -> bool:
        """Forget values that are recorded but not reported. Return False if there is no run."""
        if missing_run():
            return False
        telemetry.clear_step(axis_step[1], axis=axis_step[0])
        return True

    def health(self) -> dict[str, Any]:
        """Ask the aggregator for the backends of the run. Wait at most a second."""
        if problem := missing_run():
            return {"status": "error", "message": problem}
        try:
            with ControlClient(PROCESS.endpoint) as client:
                answer = client.request(GetStatus(), _ASK_S)
        except TelemetryError as error:
            return {"status": "error", "message": str(error)}
        adapters, has_wandb = names_of(answer.snapshot.backends if isinstance(answer, Status) else ())
        return {"status": "healthy", "service": "metrics", "adapters": adapters, "wandb_enabled": has_wandb}


def record_values(axis_step: Place, entries: Sequence[Entry]) -> None:
    """Record values of a step. The newest value of a name counts; timeline events are all kept."""
    axis, step = axis_step
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    distributions: dict[str, Distribution] = {}
    events: list[Any] = []
    for name, value, tags in entries:
        full_name = tagged(name, tags) if tags else name
        if isinstance(value, float):
            numbers[full_name] = value
        elif isinstance(value, str):
            texts[full_name] = value
        elif isinstance(value, Events):
            events += value
        else:
            distributions[full_name] = value
    if numbers:
        telemetry.log(numbers, step=step, axis=axis)
    for name, text in texts.items():
        telemetry.text(name, text, step=step, axis=axis)
    for name, values in distributions.items():
        # a list was held for a service, before this process had a run
        edges, counts, _ = values if isinstance(values, tuple) else bins.count(values)
        telemetry.histogram(name, (edges, counts), step=step, axis=axis)
    if events:
        record_timeline(step, events)
