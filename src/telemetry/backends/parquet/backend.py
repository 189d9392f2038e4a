"""The `parquet` backend: the whole run goes to a lake once it has ended.

Parquet files can't be extended, and the exact percentiles of a run exist only at its end. So the backend ignores
the items that come, and makes all tables from the run directory at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Item, Mark, Params, Reading, Span, Step
from telemetry.config import load
from telemetry.errors import TelemetryError
from telemetry.history.tables.row_files import arrow
from telemetry.limits import LAKE_CLOSE_S
from telemetry.store.append_file import describe

_FOLDER: Final = "lake"


class ParquetOptions(Struct, frozen=True, forbid_unknown_fields=True):
    path: str = _FOLDER
    """Folder of the lake, which many runs share."""
    every_s: Annotated[float, Meta(ge=1.0)] = 1.0
    """Length of intervals in seconds."""


class ParquetBackend:
    """A backend that writes files of tables. A second export of a run replaces its files."""

    Options: ClassVar[type[Struct]] = ParquetOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Step, Reading, Params, Mark, Span)
    idempotent: ClassVar[bool] = True
    close_s: ClassVar[float] = LAKE_CLOSE_S

    say: Callable[[str], object]
    """Function that prints a line."""

    def __init__(self, options: ParquetOptions, place: Path) -> None:
        self.say = print
        self._options = options
        self._lake = Path(os.path.abspath(options.path))
        self._directory: Path | None = None

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        if run.directory is None:
            raise NotConfigured(
                "parquet: the run directory is on another machine",
                hint="export the run there, with `telemetry export RUN --to parquet`",
            )
        try:
            arrow()  # a missing package is told now, and not at the end of the run
            self._lake.mkdir(parents=True, exist_ok=True)
        except TelemetryError as error:
            raise NotConfigured(error.message, hint=error.hint) from error
        except OSError as error:
            raise NotConfigured(f"parquet: {describe(error)}", hint="choose another folder with path=") from error
        if not os.access(self._lake, os.W_OK | os.X_OK):
            raise NotConfigured(f"parquet: can't write to {self._lake}", hint="choose another folder with path=")
        self._directory = run.directory

    def write(self, items: Sequence[Item]) -> None:
        """Do nothing: the run directory has all of it."""

    def flush(self) -> None:
        """Do nothing, as `write`."""

    def state(self) -> dict[str, Any]:
        return {}

    def close(self, *, final: bool) -> None:
        if not final or self._directory is None:
            return
        from telemetry.history.tables.lake.export import export_run

        fallback_dirs = load({}).config.run.fallback_dirs
        done = export_run(self._directory, self._lake, every_s=self._options.every_s, fallback_dirs=fallback_dirs)
        for note in done.notes:
            self.say(note)

    def where(self) -> str:
        return str(self._lake) if self._directory is not None else ""
