"""The way of values into the run of this process, through the client of telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from telemetry.client import module_level as telemetry
from telemetry.client.bins import count
from telemetry.client.process import PROCESS
from telemetry.client.signal_safe import Locked
from telemetry.compat.relax.timeline import record_timeline
from telemetry.compat.relax.values import Distribution, Entry, Events, Place, ToDistribution, counted, tagged
from telemetry.errors import TelemetryError
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetStatus, Status

WANDB: Final = "wandb"
NO_RUN: Final = "no run: start one with `telemetry run -- CMD`"
_OVER: Final = "the run of this process has ended"
_ASK_S: Final = 1.0


def missing_run() -> str:
    """Return why this process can't record, or an empty string. Attach it if the environment names a run."""
    if PROCESS.state == "idle":
        PROCESS.attach_by_itself()
    return {"idle": NO_RUN, "finished": _OVER}.get(PROCESS.state, "")


class _ReportedAxes(Locked):
    """The axes that this process has declared. Their steps close when one process reports them."""

    def __init__(self) -> None:
        super().__init__()
        self._attached = 0
        self._names: set[str] = set()

    def __contains__(self, axis: str) -> bool:
        return axis in self._names and self._attached == PROCESS.attached

    def renew_lock(self) -> None:
        """Replace the lock. A forked child declares the axes again, because it is a producer of its own."""
        super().renew_lock()
        self._names = set()

    def declare(self, axis: str) -> None:
        """Declare an axis, once for each run. Raise InstrumentError if it can't be one."""
        with self._lock:
            if self._attached != PROCESS.attached:
                self._attached, self._names = PROCESS.attached, set()
            telemetry.axis(axis, reduce="last", closing="reported")
            self._names.add(axis)


REPORTED: Final = _ReportedAxes()


class NativeTransport:
    """The run of this process. Only `health` waits for another process; the others take microseconds."""

    url: Final = ""
    to_distribution: Final[ToDistribution] = staticmethod(counted)

    def put(self, axis_step: Place, entries: Sequence[Entry]) -> bool:
        """Record values of a step. Return False if there is no run."""
        if missing_run():
            return False
        if axis_step[0] not in REPORTED:
            REPORTED.declare(axis_step[0])
        record_values(axis_step, entries)
        return True

    def report(
        self, axis_step: Place, entries: Sequence[Entry], number: int, *, waits: bool = True
    ) -> dict[str, Any]:
        """Record the last values of a step, and close it. `number` counts all its values, for the message."""
        axis, step = axis_step
        if not self.put(axis_step, entries):
            return {"status": "error", "message": missing_run() or _OVER}
        telemetry.end_step(step, axis=axis)
        return {"status": "success", "message": f"Reported {number} metrics for step {step}", "results": {}}

    def clear(self, axis_step: tuple[str, int | None]) -> bool:
        """Forget values that are recorded but not reported. Return False if there is no run."""
        if missing_run():
            return False
        telemetry.clear_step(axis_step[1], axis=axis_step[0])
        return True

    def health(self) -> dict[str, Any]:
        """Ask the aggregator for the backends of the run. Wait at most a second."""
        problem = missing_run()
        if problem:
            return {"status": "error", "message": problem}
        try:
            with ControlClient(PROCESS.endpoint) as client:
                answer = client.request(GetStatus(), _ASK_S)
        except TelemetryError as error:
            return {"status": "error", "message": str(error)}
        stats = answer.snapshot.backends if isinstance(answer, Status) else []
        return {
            "status": "healthy",
            "service": "metrics",
            "adapters": [stat.kind or stat.name for stat in stats if stat.kind != WANDB],
            "wandb_enabled": any(stat.kind == WANDB for stat in stats),
        }


def record_values(axis_step: Place, entries: Sequence[Entry]) -> None:
    """Record values of a step. The newest value of a name counts; timeline events are all kept."""
    axis, step = axis_step
    numbers: dict[str, float] = {}
    others: dict[str, str | Distribution] = {}
    events: list[Any] = []
    for name, value, tags in entries:
        if type(value) is float:
            numbers[tagged(name, tags) if tags else name] = value
        elif isinstance(value, Events):
            events.extend(value.events)
        elif not isinstance(value, float):
            others[tagged(name, tags)] = value
    if numbers:
        telemetry.log(numbers, step=step, axis=axis)
    for name, other in others.items():
        if isinstance(other, str):
            telemetry.text(name, other, step=step, axis=axis)
        else:
            # a list was held for a service, before this process had a run
            edges, counts, *_ = other.values if isinstance(other.values, tuple) else count(other.values)
            telemetry.histogram(name, (edges, counts), step=step, axis=axis)
    if events:
        record_timeline(step, events)
