"""Detection of dead runs, whose aggregator ended without a result, and a description of their files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.journal import JournalReader, segment_files
from telemetry.store.live_runs import LiveRun, forget, list_live
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import TERMINAL


@dataclass(frozen=True)
class LeftOver:
    directory: RunDirectory
    since_ns: int
    """Wall clock of the last sign of life."""
    segments: int
    """Number of journal segments."""
    journal_bytes: int
    obstacle: str = ""
    """Reason why no result can be made from the files; empty if one can."""

    @property
    def recoverable(self) -> bool:
        """True if a result can be made: there is a checkpoint, with the frames after it."""
        return not self.obstacle

    @property
    def remedy(self) -> str:
        """Command that makes the result, ready to copy."""
        return f"telemetry recover {shlex.quote(os.fspath(self.directory.path))}"

    @property
    def way_on(self) -> str:
        """Command that continues the run instead, for producers that still record."""
        return f"telemetry serve --resume {shlex.quote(os.fspath(self.directory.path))}"


def is_dead(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> bool:
    """Return True if no process owns the run and it has no readable result.

    Looks for the result in the run directory and in the fallback directories.
    """
    final = find_final(run, fallback_dirs)
    if final is not None:
        with suppress(RunDirectoryError):
            if final.head().state in TERMINAL:
                return False
    return not run.locked()


def forget_finished(runtime_dir: Path, fallback_dirs: Sequence[str] = ()) -> None:
    """Remove files that killed aggregators left beside their sockets.

    Applies to runs that have a result, or that left nothing to make a result from. Never raises. Blocks on the
    disk.
    """
    for live_run in list_live(runtime_dir):
        if not live_run.alive and not _may_go_on(live_run, fallback_dirs):
            forget(runtime_dir, live_run.run_id)


def _may_go_on(live_run: LiveRun, fallback_dirs: Sequence[str]) -> bool:
    try:
        run = RunDirectory.open(Path(live_run.dir))
    except RunDirectoryError:
        return False
    if run.locked():
        return True
    facts: list[os.stat_result | None] = []
    with suppress(OSError):
        facts = [_facts(path) for path in segment_files(run.journal)]
    return is_dead(run, fallback_dirs) and any(fact.st_size for fact in facts if fact)


def remains(run: RunDirectory) -> LeftOver:
    """Describe the files that a run left. Never raises: files that can't be read count as missing."""
    segments: list[Path] = []
    with suppress(OSError):
        segments = segment_files(run.journal)
    facts = [fact for path in segments if (fact := _facts(path))]
    signs = [*facts, *_other_signs(run)] or [fact for path in (run.manifest, run.path) if (fact := _facts(path))]
    return LeftOver(
        directory=run,
        since_ns=max((fact.st_mtime_ns for fact in signs), default=run.started_ns),
        segments=len(facts),
        journal_bytes=sum(fact.st_size for fact in facts),
        obstacle=_obstacle(run, facts),
    )


def _obstacle(run: RunDirectory, segments: Sequence[os.stat_result]) -> str:
    if not any(segment.st_size for segment in segments):
        return "it left no journal to make a result from"
    try:
        JournalReader(run.journal).last_checkpoint()
    except RunDirectoryError as error:
        return f"can't make a result from its journal: {error.message}"
    return ""


def _other_signs(run: RunDirectory) -> Iterator[os.stat_result]:
    """Yield files that a live aggregator writes to all the time.

    The manifest is excluded: resuming rewrites it.
    """
    paths = [run.log]
    for folder in (run.history, run.records):
        with suppress(OSError):
            paths += folder.iterdir()
    for path in paths:
        if fact := _facts(path):
            yield fact


def _facts(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
