"""The state file of a stack: which processes run it, so that another shell can show and end them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from telemetry.common.file_lock import is_locked, lock_path
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.processes import process_lives
from telemetry.store.scrape_targets import state_directory
from telemetry.wire.codec import BAD_INPUT

_STATE: Final = "state.json"
_LOCK: Final = "lock"


class PartState(Struct, kw_only=True, frozen=True):
    """One of Prometheus, Tempo and Grafana."""

    name: str
    title: str
    how: str
    """`native`, `compose`, or empty if it is skipped."""
    why: str = ""
    """Reason why it is skipped, or how it ended."""
    address: str = ""
    ready_url: str = ""
    pid: int = 0
    process_started: int = 0
    """Start of the process in clock ticks since boot: a later process with the same pid is another one."""
    restarts: int = 0


class StackState(Struct, kw_only=True, frozen=True):
    """A stack that runs, or whose keeper died."""

    keeper_pid: int
    """Process that started the parts and restarts them."""
    keeper_started: int
    host: str = ""
    """Machine of these processes. The folder may be on a network."""
    targets: str
    log: str
    """Folder of the logs."""
    otlp: str = ""
    """Address that takes spans. Empty without Tempo."""
    compose: list[str] = []
    """Command for the containers, up to its verb. Empty without containers."""
    parts: list[PartState] = []

    @property
    def keeper_lives(self) -> bool:
        return process_lives(self.keeper_pid, self.keeper_started)


def read_state(directory: Path) -> StackState | None:
    """Return the state of the stack in a folder; None if none was started.

    Raises RunDirectoryError, and UsageError for the stack of another machine.
    """
    path = directory / _STATE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=StackState)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"can't read the state of the stack: {describe(error)}") from error
    except BAD_INPUT as error:
        raise RunDirectoryError(
            f"{path} is damaged: {error}", hint="end its processes yourself and remove it"
        ) from error
    if state.host not in ("", socket.gethostname()):
        raise UsageError(
            f"the stack in {directory} was started on {state.host}",
            hint=f"run the command there, or add --dir DIR; if that machine is gone, remove {path}",
        )
    return state


def default_directory() -> Path | None:
    """Return the folder of this user's stack, which may not exist; None without a home."""
    state = state_directory()
    return state / "stack" if state else None


def live_stack() -> StackState | None:
    """Return the state of this user's stack if its keeper lives. Never raises."""
    directory = default_directory()
    with suppress(TelemetryError):
        state = read_state(directory) if directory is not None else None
        return state if state is not None and state.keeper_lives else None
    return None


def write_state(directory: Path, state: StackState) -> None:
    """Replace the state, for this user alone. Raises OSError."""
    data = msgspec.json.format(msgspec.json.encode(state), indent=2)
    write_atomic(directory / _STATE, data + b"\n", durable=False, mode=OWNER_ONLY)


def remove_state(directory: Path) -> None:
    with suppress(FileNotFoundError):
        (directory / _STATE).unlink()


def is_claimed(directory: Path) -> bool:
    """Return whether a process holds the lock of a folder. Raises OSError."""
    try:
        return is_locked(directory / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Hold the lock of a folder in the block. Raises UsageError while another process holds it, and OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = lock_path(directory / _LOCK, os.O_RDWR | os.O_CREAT)
    if lock is None:
        raise UsageError(
            f"the stack in {directory} is up already",
            hint="`telemetry stack status` shows it, `telemetry stack down` ends it",
        )
    try:
        yield
    finally:
        lock.release()
