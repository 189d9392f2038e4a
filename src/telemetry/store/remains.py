"""Whether a run is dead – its aggregator ended without a result – and what is left of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import RunDirectoryError
from telemetry.store.final import find_final, read_head
from telemetry.store.journal import segment_files
from telemetry.store.rundir import RunDirectory
from telemetry.wire.snapshot import TERMINAL


@dataclass(frozen=True)
class Remains:
    directory: RunDirectory
    since_ns: int
    """Wall clock of the last sign of life."""
    segments: int
    """Of the journal."""
    journal_bytes: int

    @property
    def recoverable(self) -> bool:
        """There is something to make a result from."""
        return self.journal_bytes > 0

    @property
    def remedy(self) -> str:
        """The command that does it, to be copied."""
        return f"telemetry recover {shlex.quote(os.fspath(self.directory.path))}"


def is_dead(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> bool:
    """Nobody has it, and it has no result that can be read, in its directory or where else one may be."""
    path = find_final(run, fallback_dirs)
    if path is not None:
        with suppress(RunDirectoryError):
            if read_head(path).state in TERMINAL:
                return False
    return not run.locked()


def remains(run: RunDirectory) -> Remains:
    """What a run left. Never raises: what can't be looked at is not there."""
    segments: list[Path] = []
    with suppress(OSError):
        segments = segment_files(run.journal)
    facts = [found for path in segments if (found := _facts(path))]
    others = facts or [found for path in (run.manifest, run.log, run.path) if (found := _facts(path))]
    return Remains(
        directory=run,
        since_ns=max((found.st_mtime_ns for found in others), default=run.started_ns),
        segments=len(facts),
        journal_bytes=sum(found.st_size for found in facts),
    )


def _facts(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
