"""`<root>/calibrations/<name>.json`: the noise between runs of one command.

Each name has one file; a new calibration replaces the previous one.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic
from telemetry.store.run_directory import slug
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Natural
from telemetry.wire.version import SCHEMA

FOLDER: Final = "calibrations"

Of = Literal["series", "counter", "command", "requests", "steps"]
"""Kind of thing that a figure of a run describes."""


class MetricNoise(Struct, frozen=True, kw_only=True):
    """A figure of a run, such as the p99 of a series, and its variation from run to run."""

    of: Of
    statistic: str
    """Name of the figure.

    `p50`, `p99.9`, …, `mean`, `rate` of a series; `value`, `rate` of a counter; `wall`, `cpu` of the command;
    `goodput`, `attainment` of requests; `last`, `best` of values of steps, `steps` of an axis.
    """
    name: str = ""
    """Name of the series, counter, kind of request, value or axis; empty for the command."""
    labels: dict[str, str] = {}
    unit: str = ""
    values: list[float] = []
    """Values of the runs in `unit`, in the order of the runs."""
    mean: float | None = None
    cv: float | None = None
    """Standard deviation between runs, as a fraction of the mean; null if the mean is 0."""
    detectable: dict[str, float] = {}
    """Runs per side → smallest relative difference that is detected.

    Nine of ten comparisons with that many runs detect it, if only this metric is compared.
    """


class Calibration(Struct, frozen=True, kw_only=True):
    """The result of `telemetry calibrate`."""

    schema_version: int = SCHEMA
    name: str
    argv: list[str] = []
    """Command with secrets masked."""
    host: str = ""
    created_ns: Natural = 0
    """Wall clock."""
    runs: Natural = 0
    directories: list[str] = []
    """Directories of the runs, in their order."""
    metrics: list[MetricNoise] = []

    def noise(
        self, of: Of, statistic: str, name: str = "", labels: Mapping[str, str] | None = None
    ) -> MetricNoise | None:
        """Return the noise of this name and exactly these labels; None if the runs did not have it."""
        wanted = dict(labels or {})
        for metric in self.metrics:
            if (metric.of, metric.statistic, metric.name) == (of, statistic, name) and metric.labels == wanted:
                return metric
        return None


def calibration_path(root: Path, name: str) -> Path:
    """Return the path of the calibration of that name, which may not exist. `root` holds the run directories."""
    return root / FOLDER / f"{slug(name)}.json"


def write_calibration(root: Path, calibration: Calibration) -> Path:
    """Write the calibration and replace the previous one of that name.

    Blocks until it is on the disk. Raises RunDirectoryError.
    """
    path = calibration_path(root, calibration.name)
    data = msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error
    return path


def read_calibration(root: Path, name: str) -> Calibration:
    """Read the calibration of that name.

    Raises RunNotFoundError if it does not exist, RunDirectoryError if it is damaged or newer than this version.
    """
    path = calibration_path(root, name)
    try:
        return _decoded(path)
    except FileNotFoundError:
        raise RunNotFoundError(f"no calibration {name!r} in {path.parent}", hint=_hint(root, name)) from None
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error


def find_calibration(root: Path, name: str) -> Calibration | None:
    """Read the calibration of that name; return None if it does not exist. Raises RunDirectoryError."""
    return read_calibration(root, name) if calibration_path(root, name).is_file() else None


def list_calibrations(root: Path) -> list[str]:
    """Return the names of all calibrations in the file system, sorted."""
    try:
        return sorted(path.stem for path in (root / FOLDER).glob("*.json") if not path.name.startswith("."))
    except OSError:
        return []


def _decoded(path: Path) -> Calibration:
    """Read the file. Raises OSError, RunDirectoryError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    if found.schema_version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {found.schema_version}; this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return found


def _hint(root: Path, name: str) -> str:
    known = list_calibrations(root)
    near = get_close_matches(slug(name), known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"available: {', '.join(known[:10])}" if known else "create one with `telemetry calibrate -- CMD`"
