"""What the aggregator process is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from telemetry.config.schema import Config


@dataclass(frozen=True)
class DaemonOptions:
    """One run. Built once by the command line; nothing below reads flags or the environment."""

    name: str
    run_id: str
    epoch: str
    root: Path
    config: Config
    owner_pid: int | None = None
    """The process that started the run: `finish()` of it, or its death, ends the run."""
    ready_fd: int | None = None
    """Where one JSON line goes once the sockets are bound."""
    command_line: tuple[str, ...] = ()
    resume: Path | None = None
    """The directory of a run that goes on, which says its name, id and addresses."""
