"""A run's report from what lies on disk. A run that is still going is asked over control, not here."""

from __future__ import annotations

from pathlib import Path

from telemetry.store import final, rundir
from telemetry.wire.report import Report


def load_report(spec: str | Path = "latest", root: str | Path = "runs") -> Report:
    """The report of a run given by directory, run id, name, `latest`, or its final file. Reads files, blocks.

    Its `source` and `source_reason` say what was read, and why nothing better. Raises RunNotFoundError, or
    RunDirectoryError if the run left nothing that can be read.
    """
    return final.load(rundir.resolve(str(spec), Path(root)))
