"""The choice of a source for a run, with the settings of one backend."""

from __future__ import annotations

from typing import Final

from telemetry.backends.mapping import ItemMapping, values_of
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.live import LiveSource
from telemetry.backends.sources.mapped import MappedSource
from telemetry.backends.sources.source import Position, Source
from telemetry.config import Config
from telemetry.errors import EndpointError, UsageError
from telemetry.store.run_directory import RunDirectory

_LEAST_S: Final = 1.0  # a history has one interval a second


def open_source(
    backend: str,
    position: Position,
    config: Config,
    *,
    endpoint: str = "",
    directory: RunDirectory | None = None,
    live: bool = False,
    every_s: float | None = None,
) -> Source:
    """Open the run of an aggregator at `endpoint`, of a directory, or of both.

    With both, the directory alone is used if the aggregator does not answer. `backend`: name of its table in the
    settings. `live`: deliver snapshots. `every_s`: seconds between readings, at least 1, instead of the value in
    the settings. Blocks for a handshake. Raises ConfigError for impossible renames, UsageError without an endpoint
    and a directory, KeysError, ProtocolError, and EndpointError or RunDirectoryError if the run does not exist.
    """
    values = values_of(config.backends, backend)
    mapping = ItemMapping(values)
    cadence_s = max(every_s or values.every_s or config.backends.every_s, _LEAST_S)
    source: Source | None = None
    if endpoint:
        try:
            source = LiveSource(
                endpoint, position, every_s=cadence_s, live=live, fallback_dirs=config.run.fallback_dirs
            )
        except EndpointError:
            if directory is None:
                raise
    if source is None:
        if directory is None:
            raise UsageError("a run has an address or a directory")
        source = DiskSource(
            directory, position, every_s=cadence_s, live=live, fallback_dirs=config.run.fallback_dirs
        )
    return MappedSource(source, mapping, values.every_steps, position)
