"""The creation of a merged run directory, which appears only when it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.merge.history import OnProgress, add_histories
from telemetry.merge.odd_sources import sources_of
from telemetry.merge.request_logs import join_request_logs
from telemetry.merge.result import merged_snapshot
from telemetry.merge.series import merged_series, percentiles_of
from telemetry.merge.sources import Input, name_of
from telemetry.store.append_file import describe
from telemetry.store.atomic import sync_directory
from telemetry.store.final_snapshot import write_final
from telemetry.store.merge_sources import write_sources
from telemetry.store.run_directory import MergedRun, RunDirectory, directory_name, manifest_for, slug
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat
from telemetry.wire.sources import SourceStat

Refine = Callable[[Sequence[Input], list[SeriesStat], Sequence[str]], tuple[list[SeriesStat], list[str]]]
"""Function (runs, merged series, percentiles) → the series with exact percentiles, and why some have none."""


@dataclass(frozen=True, kw_only=True)
class MergeTarget:
    """The place and name of the merged run. An empty name is derived from the names of the runs."""

    root: Path
    """Parent directory for a new directory with a standard name."""
    directory: Path | None = None
    """Exact directory instead, which must not exist yet."""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Merged:
    directory: RunDirectory
    snapshot: MetricsSnapshot
    sources: tuple[SourceStat, ...]


def merge(
    inputs: Sequence[Input],
    place: MergeTarget,
    *,
    coarse: bool = False,
    refine: Refine | None = None,
    argv: Sequence[str] = (),
    on_progress: OnProgress = lambda *_: None,
) -> Merged:
    """Create the run directory of all `inputs` from `gather`. Reads their histories and blocks on the disk.

    A series of several runs gets its percentiles from a histogram of all values, with the bound of that histogram,
    unless `refine` finds exact ones. A series of a single run keeps its percentiles. `coarse`: see `merged_series`.
    The link `latest` does not change.

    Raises UsageError for runs that can't be added, RunDirectoryError for files that can't be read or written.
    """
    run_id, name = secrets.token_hex(4), place.name or name_of(inputs)
    began_ns = min(one.begin_ns for one in inputs)
    path = (place.directory or place.root / directory_name(name, run_id, began_ns)).absolute()
    run = RunDirectory(path, run_id, slug(name), began_ns)
    percentiles = percentiles_of(inputs)
    sources = sources_of(inputs)
    with _appearing(path) as building:
        built = RunDirectory(building, run_id, slug(name), began_ns)
        added = add_histories(inputs, built.history, percentiles, on_progress)
        series, warnings = merged_series(inputs, added, percentiles, coarse=coarse)
        if refine is not None:
            series, reasons = refine(inputs, series, percentiles)
            warnings += reasons
        if not added.written:
            lacking = ", ".join(one.label for one in inputs if not one.directory.history.is_dir())
            warnings.append(f"no history was written: {lacking} has none")
        warnings += join_request_logs(inputs, built)
        snapshot = merged_snapshot(
            inputs, series, run_id=run_id, name=name, directory=carriable(str(path)), warnings=warnings
        )
        built.write_manifest(
            replace(
                manifest_for(built, name, run_id, argv, ""),
                pid=0,
                merged_from=[
                    MergedRun(run_id=one.run_id, name=one.name, host=one.host, directory=one.directory)
                    for one in sources
                ],
            )
        )
        write_sources(built, sources)
        write_final(snapshot, [built.final])
    return Merged(directory=run, snapshot=snapshot, sources=tuple(sources))


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Yield a new directory. It is renamed to `path` after success and removed after an error.

    Raises RunDirectoryError if `path` exists or can't be written.
    """
    building = path.with_name(f".{path.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    if os.path.lexists(path):
        raise RunDirectoryError(f"{path} exists already", hint="choose another -o, or move it away")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        building.mkdir(mode=0o700)
        yield building
        os.rename(building, path)
        sync_directory(path.parent)
    except OSError as error:
        raise RunDirectoryError(
            f"can't write the merged run: {describe(error)}", hint="choose a writable location with -o"
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
