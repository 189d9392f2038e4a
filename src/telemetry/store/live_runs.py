"""Live runs of this host: one `run.json` for each, beside its sockets in the runtime directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry.common.file_lock import FileLock, lock_path
from telemetry.common.formatting import did_you_mean
from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic
from telemetry.store.processes import process_lives, start_of
from telemetry.store.run_directory import LATEST
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Natural, RunId
from telemetry.wire.snapshot import State
from telemetry.wire.version import SCHEMA

FILE_NAME: Final = "run.json"


class LiveRun(Struct, kw_only=True, frozen=True):
    """The announcement of an aggregator."""

    schema_version: int = SCHEMA
    run_id: RunId
    name: str
    pid: int
    endpoint: str
    """Control endpoint."""
    dir: str
    state: State
    started_ns: Natural
    """Wall clock."""
    process_started: int = 0
    """Start of the process in clock ticks since boot; 0: unknown.

    It distinguishes the process from a later one with the same pid.
    """
    alive: bool = True
    """True if the process was alive when the list was made."""


def announce(runtime_dir: Path, run: LiveRun) -> None:
    """Write the announcement of the run, or update its state, atomically. Raises RunDirectoryError."""
    path = _path(runtime_dir, run)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = replace(run, process_started=start_of(run.pid))
        write_atomic(path, msgspec.json.encode(run) + b"\n")
    except OSError as error:
        raise RunDirectoryError(f"can't register the run: {describe(error)}") from error


def announce_name(runtime_dir: Path, run_id: str, name: str) -> None:
    """Give an announced run another name. Raises RunDirectoryError. Without an announcement, nothing happens."""
    for run in list_live(runtime_dir):
        if run.run_id == run_id:
            announce(runtime_dir, replace(run, name=name))


def withdraw(runtime_dir: Path, run: LiveRun) -> None:
    """Remove the announcement, and its directory if it is empty. Never raises."""
    path = _path(runtime_dir, run)
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def forget(runtime_dir: Path, run_id: str) -> bool:
    """Remove the sockets of a killed aggregator and its files beside them.

    Return False and change nothing if it is alive or another one is starting in its place. Never raises.
    """
    folder = runtime_dir / run_id
    locks: list[FileLock] = []
    try:
        for path in folder.glob("*.lock"):
            if (lock := lock_path(path, os.O_RDWR)) is None:
                return False
            locks.append(lock)
        if any(run.alive for run in list_live(runtime_dir) if run.run_id == run_id):
            return False
        for path in folder.iterdir():
            if path.is_socket() or path.suffix in (".lock", ".tmp") or path.name == FILE_NAME:
                path.unlink()
        folder.rmdir()
    except OSError:
        return not folder.exists()
    finally:
        for lock in locks:
            lock.release()
    return True


def list_live(runtime_dir: Path) -> list[LiveRun]:
    """Return announced runs, newest first; `alive` is false if the process died. Unreadable files are skipped."""
    runs = []
    for path in runtime_dir.glob(f"*/{FILE_NAME}"):
        with suppress(OSError, *BAD_INPUT):
            run = msgspec.json.decode(path.read_bytes(), type=LiveRun)
            if run.run_id != path.parent.name or "\0" in run.dir:
                continue
            runs.append(replace(run, alive=process_lives(run.pid, run.process_started)))
    return sorted(runs, key=lambda run: run.started_ns, reverse=True)


def find_live(runtime_dir: Path, spec: str | Path) -> LiveRun:
    """Return the live run that matches `spec`: a run id, a name (the newest), a run directory, or `latest`.

    Raises RunNotFoundError, which names similar runs.
    """
    text = str(spec)
    runs = list_live(runtime_dir)
    alive = [run for run in runs if run.alive]
    for run in alive:
        if text in (run.run_id, run.name, LATEST) or os.path.realpath(text) == os.path.realpath(run.dir):
            return run
    raise _not_found(text, runs, alive)


def _not_found(text: str, runs: Sequence[LiveRun], alive: Sequence[LiveRun]) -> RunNotFoundError:
    for run in runs:
        if text in (run.run_id, run.name):
            return RunNotFoundError(
                f"the aggregator of run {text!r} died (pid {run.pid})", hint=f"its files are in {run.dir}"
            )
    names = [word for run in alive for word in (run.name, run.run_id)]
    hint = did_you_mean(text, [LATEST, *names], most=3) if alive else "no run is live on this host"
    hint = hint or "`telemetry ls` shows them"
    return RunNotFoundError(f"no live run {text!r}", hint=hint)


def _path(runtime_dir: Path, run: LiveRun) -> Path:
    return runtime_dir / run.run_id / FILE_NAME
