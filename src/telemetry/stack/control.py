"""A stack from another shell: which of its parts run, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from telemetry.errors import EndpointError
from telemetry.stack.keeper import answers
from telemetry.store.append_file import describe
from telemetry.store.processes import process_lives
from telemetry.store.stack_state import PartState, StackState, is_claimed, read_state, remove_state

_KEEPER_END_S: Final = 90.0
"""Time for the end of a keeper: that of its processes, and of containers."""
_START_S: Final = 60.0
"""Time for the search for programs and for Docker."""
_END_S: Final = 20.0
_KILLED_S: Final = 10.0
_LOOK_S: Final = 0.05


class PartView(Struct, kw_only=True, frozen=True):
    """A part of a stack as `telemetry stack status` shows it."""

    name: str
    title: str
    state: str
    """`ready`, `not ready`, `dead`, or `skipped`."""
    how: str = ""
    why: str = ""
    address: str = ""
    pid: int | None = None
    restarts: int = 0


def look(state: StackState) -> list[PartView]:
    """Return all parts. Blocks for two seconds for each that does not answer."""
    return [_view(state, part) for part in state.parts]


def _view(state: StackState, part: PartState) -> PartView:
    view = partial(PartView, name=part.name, title=part.title, how=part.how, address=part.address)
    if not part.how:
        return view(state="skipped", why=part.why)
    if part.how == "native" and not process_lives(part.pid, part.process_started):
        why = part.why or f"its process {part.pid} has ended"
        return view(state="dead", why=why, restarts=part.restarts)
    word = "ready" if answers(part.ready_url) else "not ready"
    why = "" if state.keeper_lives or part.how == "compose" else "nothing restarts it: its keeper has ended"
    return view(state=word, why=why, pid=part.pid or None, restarts=part.restarts)


def has_left(state: StackState) -> bool:
    """Return whether a stack whose keeper died may have left servers. Docker starts its containers again."""
    return bool(state.compose) or any(process_lives(part.pid, part.process_started) for part in state.parts)


def end(directory: Path, say: Callable[[str], object]) -> bool:
    """End the stack in a folder. Returns False if there is none.

    The keeper ends its parts. If it has died, or does not end in time, they are ended one by one.
    Raises RunDirectoryError, UsageError, and EndpointError if containers can't be ended, which can be repeated.
    """
    state = _state_after_start(directory, say)
    if state is None:
        return False
    if state.keeper_lives:
        _signal(state.keeper_pid, state.keeper_started, signal.SIGTERM)
        if not _gone([(state.keeper_pid, state.keeper_started)], _KEEPER_END_S):
            say(f"its keeper (pid {state.keeper_pid}) did not end in time and is killed")
            _signal(state.keeper_pid, state.keeper_started, signal.SIGKILL)
            _gone([(state.keeper_pid, state.keeper_started)], _KILLED_S)
        state = read_state(directory)  # a keeper that ends in order removes it
    else:
        say(f"its keeper (pid {state.keeper_pid}) had ended already")
    if state is not None:
        _end_parts(state)
    remove_state(directory)
    return True


def _state_after_start(directory: Path, say: Callable[[str], object]) -> StackState | None:
    """Return the state. Blocks while a stack begins to start: it has none before its first server."""
    state = read_state(directory)
    if state is None and is_claimed(directory):
        say(f"waits for a start in {directory}")
        until_s = time.monotonic() + _START_S
        while state is None and is_claimed(directory) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
            state = read_state(directory)
    return state


def _end_parts(state: StackState) -> None:
    """End the native parts that still live, and the containers. Raises EndpointError."""
    left = [
        (part.pid, part.process_started) for part in state.parts if process_lives(part.pid, part.process_started)
    ]
    for pid, started in left:
        _signal(pid, started, signal.SIGTERM)
    if not _gone(left, _END_S):
        for pid, started in left:
            _signal(pid, started, signal.SIGKILL)
        _gone(left, _KILLED_S)
    if state.compose:
        command = [*state.compose, "down"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise _not_ended(command, describe(error)) from error
        if done.returncode:
            raise _not_ended(command, done.stderr.strip() or f"exit code {done.returncode}")


def _not_ended(command: Sequence[str], why: str) -> EndpointError:
    return EndpointError(
        f"`{' '.join(command)}` failed: {why}", hint="correct that and repeat `telemetry stack down`"
    )


def _signal(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to a process, not to a later one with the same pid."""
    if process_lives(pid, started):
        with suppress(ProcessLookupError, PermissionError):  # a process of another user is none of ours
            os.kill(pid, number)


def _gone(processes: Sequence[tuple[int, int]], timeout_s: float) -> bool:
    """Block until processes have ended, or until the timeout. Returns whether all have ended."""
    until_s = time.monotonic() + timeout_s
    while any(process_lives(*each) for each in processes):
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True
