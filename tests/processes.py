"""Ends what tests have started: whole process groups, and never without a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from telemetry.client.native_module import RECORDER

KILLED: Final = "incomplete" if RECORDER is None else "complete"
"""Completeness of a producer of this host that was killed: the ring of the compiled recorder is read."""
END_S: Final = 10.0
"""For the end of processes that were killed, and of what they had still to say."""


def end_group(child: subprocess.Popen[Any], timeout_s: float = END_S) -> None:
    """Kill a child, and its process group if it leads one, then close its pipes.

    What holds the pipes from another group is not waited for. Raises TimeoutError if the child itself does not end.
    """
    with suppress(ProcessLookupError, PermissionError):
        if _leads_group(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
    if child.poll() is None:
        child.kill()
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"process {child.pid} of {child.args} did not end within {timeout_s:g} s") from None
    finally:
        for pipe in (child.stdin, child.stdout, child.stderr):
            close(pipe)


def close(pipe: IO[Any] | None) -> None:
    """Close one end of a pipe, whatever is still in its buffer."""
    if pipe is not None:
        with suppress(OSError, ValueError):
            pipe.close()


def processes_with(variable: str) -> Iterator[int]:
    """Find the processes of this machine that were started with `NAME=value` in their environment, by anybody."""
    mark = variable.encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to processes, some of which may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _leads_group(pid: int) -> bool:
    """A group outlives its leader: then its number is that of a group while one of it is there."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return pid != os.getpgrp()
