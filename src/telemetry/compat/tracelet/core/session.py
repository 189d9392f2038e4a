"""The run that the experiments of this process record into."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from telemetry import limits
from telemetry.client import notice
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.run import Run, start
from telemetry.client.step_axes import StepAxes
from telemetry.compat.tracelet.core.recorder import AXIS, Recorder
from telemetry.compat.variables import variables
from telemetry.redaction import mask_secrets

_LOCK: Final = threading.RLock()


class _Shared:
    """The open run, the experiments that use it, and the recorders by experiment name."""

    run: Run | None = None
    ends_run = False
    users: set[str] = set()  # noqa: RUF012 – of the process
    run_id = ""
    recorders: dict[str, Recorder] = {}  # noqa: RUF012 – of the process


def join(experiment_id: str, name: str, to: Sequence[str], environment: Mapping[str, str]) -> tuple[Run, Recorder]:
    """Start a run for an experiment, or join the run that is open. Raise TelemetryError if there is none.

    `to` and `environment` are for the writers of backends. They are used only where this call starts the run.
    """
    with _LOCK:
        shared = _Shared
        if shared.run is None or shared.run.finished:
            was_open = PROCESS.state == "live"
            starts_run = not was_open and not os.environ.get(ENDPOINT_VARIABLE)
            with variables(environment if starts_run else {}):
                shared.run = start(None if was_open else _run_name(name), to=list(to) if starts_run else [])
            shared.ends_run, shared.users = starts_run and shared.run.owner, set()
            if to and not starts_run:
                _warn_of_backends(to, shared.run.name)
        elif to:
            _warn_of_backends(to, shared.run.name)
        shared.users = {*shared.users, experiment_id}
        return shared.run, _recorder(shared.run, name)


def leave(experiment_id: str) -> None:
    """End the part of an experiment. The last one ends the run, if these experiments started it."""
    with _LOCK:
        shared, run = _Shared, _Shared.run
        shared.users = shared.users - {experiment_id}
        if run is not None and not shared.users:
            shared.run = None
            if shared.ends_run:
                run.finish()


def _recorder(run: Run, name: str) -> Recorder:
    """Return the recorder of an experiment. Names of a second experiment in a run begin with its name."""
    if _Shared.run_id != run.run_id:
        _Shared.run_id, _Shared.recorders = run.run_id, {}
    known = _Shared.recorders
    if name not in known:
        prefix = f"{name}/" if known else ""
        if prefix:
            notice.warn(f"the run has several experiments: names of values of {name!r} begin with {prefix!r}")
        known[name] = Recorder(prefix, StepAxes(f"{prefix}{AXIS}"), run.directory)
    return known[name]


def _run_name(name: str) -> str:
    return name.encode(errors="replace").decode()[: limits.NAME_CHARS] or "experiment"


def _warn_of_backends(to: Sequence[str], run: str) -> None:
    words = " ".join(f"--to '{text}'" for text in mask_secrets(to))
    notice.warn(
        f"this experiment records into the run {run!r}, which is open already; its backends are chosen where it "
        f"is started, as in: telemetry run {words} -- COMMAND"
    )
