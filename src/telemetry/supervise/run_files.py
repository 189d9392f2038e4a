"""The result files of a run, as seen by the process that waits for the result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.common.files import read_file, read_owned
from telemetry.supervise.spawn import SpawnedAggregator
from telemetry.wire.codec import Malformed, snapshot_from_json
from telemetry.wire.consistency import contradiction
from telemetry.wire.seal import check_seal
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

FINAL_FILE: Final = "final_snapshot.json"


@dataclass(frozen=True)
class RunFiles:
    """Locations of the result of a run."""

    directory: str
    run_id: str
    name: str
    fallback_dirs: tuple[str, ...] = ()
    """Directories for the final file if the run directory can't be written.

    They precede the directory for temporary files.
    """

    @staticmethod
    def of(aggregator: SpawnedAggregator, fallback_dirs: Sequence[str]) -> RunFiles:
        """Return the files of an aggregator's run.

        Relative directories are resolved against the working directory, in which the aggregator was started.
        """
        folders = tuple(map(os.path.abspath, fallback_dirs))
        return RunFiles(aggregator.directory, aggregator.run_id, aggregator.name, folders)

    def has_result(self) -> bool:
        """Check that a readable final file of an ended run exists. Blocks on the disk."""
        snapshot, _ = self.final()
        return snapshot is not None and snapshot.state in TERMINAL

    def final(self) -> tuple[MetricsSnapshot | None, str]:
        """Return the first readable final file, or the reason why there is none."""
        why = f"there is no {FINAL_FILE}" + (f" in {self.directory}" if self.directory else "")
        for path, read in self._places():
            try:
                return _decoded(read(path), "" if path.name == FINAL_FILE else self.run_id), ""
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError, Malformed) as error:
                why = f"can't read {path.name}: {error}"
        return None, why

    @property
    def has_journal(self) -> bool:
        return journal_of(self.directory)

    def _places(self) -> Iterator[tuple[Path, Callable[[Path], bytes]]]:
        """Yield candidates for the final file and their readers.

        Outside the run directory, other users may write files too, so ownership is checked there.
        """
        if self.directory:
            yield Path(self.directory) / FINAL_FILE, lambda path: read_file(path, limits.RESULT_BYTES)
        if self.run_id:
            folders = list(self.fallback_dirs)
            with suppress(OSError):  # some machines have no directory for temporary files
                folders.append(tempfile.gettempdir())
            for folder in folders:
                path = Path(folder) / f"telemetry-{self.run_id}-{FINAL_FILE}"
                yield path, lambda path: read_owned(path, {os.geteuid()}, limits.RESULT_BYTES)


def _decoded(data: bytes, run_id: str) -> MetricsSnapshot:
    """Decode and check a final file.

    A `run_id` that is not empty must match. Raises ValueError or Malformed for a damaged file or one of another
    run.
    """
    check_seal(data)
    snapshot = snapshot_from_json(data)
    if run_id and snapshot.run_id != run_id:
        raise ValueError(f"it is the result of run {snapshot.run_id}")
    if problem := contradiction(snapshot):
        raise ValueError(f"it is inconsistent: {problem}")
    return snapshot


def journal_of(directory: str) -> bool:
    """Check that a run directory is visible to this process and has a journal."""
    try:
        return bool(directory) and any((Path(directory) / "journal").iterdir())
    except OSError:
        return False
