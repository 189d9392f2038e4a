"""The order for a writer, built from its command line."""

from __future__ import annotations

from pathlib import Path

from telemetry.backends import choice as choices
from telemetry.backends.backend import Backend
from telemetry.backends.items import Live
from telemetry.backends.sources.open import open_source
from telemetry.backends.sources.source import Position, Source
from telemetry.backends.writer.process import WriterTask
from telemetry.config import load
from telemetry.errors import RunDirectoryError
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient
from telemetry.transport.endpoints import refuses


def order(to: str, run: Path, endpoint: str, every_s: float | None) -> WriterTask:
    """Return the order for a writer. Raises UsageError, ConfigError.

    `run`: the run directory, or the directory of the writers' folders if the run is on another machine. `endpoint`
    is empty for a run without an aggregator.
    """
    config = load({}).config
    name = choices.parse(to).name

    def source(backend: Backend, position: Position) -> Source:
        directory = _directory(run)
        gone = not endpoint or (directory is not None and refuses(endpoint))
        return open_source(
            name,
            position,
            config,
            endpoint="" if gone else endpoint,
            directory=directory,
            live=Live in backend.takes,
            every_s=every_s,
        )

    connect = (lambda: ControlClient(endpoint)) if endpoint else None
    return WriterTask(to, run, source, connect, every_s)


def _directory(run: Path) -> RunDirectory | None:
    try:
        return RunDirectory.open(run)
    except RunDirectoryError:
        return None
