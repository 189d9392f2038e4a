"""`<root>/calibrations/<name>-<digest>.json`: the noise between runs of one command.

Each command has one file: the digest is that of the command. A new calibration replaces the previous one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from telemetry.common.programs import command_key
from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic
from telemetry.store.run_directory import RunDirectory, slug
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Natural
from telemetry.wire.version import SCHEMA

FOLDER: Final = "calibrations"
_DIGEST_CHARS: Final = 8
_DIGEST: Final = re.compile(rf"-[0-9a-f]{{{_DIGEST_CHARS}}}$")

Command = tuple[str, ...]
"""The identity of a command, from `telemetry.common.programs.command_key`."""

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
    """Runs per side → smallest relative rise that is detected.

    Nine of ten comparisons with that many runs detect it, if only this metric is compared.
    """


class Calibration(Struct, frozen=True, kw_only=True):
    """The result of `telemetry calibrate`."""

    schema_version: int = SCHEMA
    name: str
    """Name of the runs: that of the command, or one that was given."""
    argv: list[str] = []
    """Command with secrets masked."""
    cwd: str = ""
    """Directory in which the command ran; empty in a file of an older version, which belongs to no command."""
    host: str = ""
    created_ns: Natural = 0
    """Wall clock."""
    runs: Natural = 0
    directories: list[str] = []
    """Directories of the runs, in their order."""
    metrics: list[MetricNoise] = []

    @property
    def command(self) -> Command:
        """The command that the calibration belongs to."""
        return command_key(self.argv, self.cwd)

    def noise(
        self, of: Of, statistic: str, name: str = "", labels: Mapping[str, str] | None = None
    ) -> MetricNoise | None:
        """Return the noise of this name and exactly these labels; None if the runs did not have it."""
        wanted = dict(labels or {})
        for metric in self.metrics:
            if (metric.of, metric.statistic, metric.name) == (of, statistic, name) and metric.labels == wanted:
                return metric
        return None


def calibration_path(root: Path, name: str, command: Command) -> Path:
    """Return the path of a command's calibration, which may not exist. `root` holds the run directories."""
    return root / FOLDER / f"{slug(name)}-{_digest(command)}.json"


def write_calibration(root: Path, calibration: Calibration) -> Path:
    """Write the calibration and replace the previous one of that command.

    Blocks until it is on the disk. Raises RunDirectoryError.
    """
    path = calibration_path(root, calibration.name, calibration.command)
    data = msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
        for other in _files(root):
            if other != path and other.stem.endswith(f"-{_digest(calibration.command)}"):
                other.unlink(missing_ok=True)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error
    return path


def read_calibration(root: Path, name: str) -> Calibration:
    """Read the newest calibration of that name.

    Raises RunNotFoundError if it does not exist, RunDirectoryError if it is damaged or newer than this version.
    """
    wanted = [path for path in _files(root) if slug(name) in (path.stem, _name(path))]
    if not wanted:
        raise RunNotFoundError(f"no calibration {name!r} in {root / FOLDER}", hint=_hint(root, name))
    return max(map(_decoded, wanted), key=lambda calibration: calibration.created_ns)


def find_calibration(root: Path, command: Command) -> Calibration | None:
    """Read the calibration of a command; return None if it does not exist. Raises RunDirectoryError."""
    for path in _files(root):
        if path.stem.endswith(f"-{_digest(command)}") and (calibration := _decoded(path)).command == command:
            return calibration
    return None


def command_of(directory: RunDirectory, argv: Sequence[str]) -> Command | None:
    """Return the command of a run with this command line; None if its working directory is unknown. Blocks."""
    with suppress(RunDirectoryError):
        return command_key(argv, directory.read_manifest().cwd)
    return None


def list_calibrations(root: Path) -> list[str]:
    """Return the names of all calibrations in the file system, sorted."""
    return sorted({_name(path) for path in _files(root)})


def _files(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / FOLDER).glob("*.json") if not path.name.startswith("."))
    except OSError:
        return []


def _name(path: Path) -> str:
    """Return the name of a calibration from that of its file. A file of an older version has no digest."""
    return _DIGEST.sub("", path.stem)


def _digest(command: Command) -> str:
    return hashlib.sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()[:_DIGEST_CHARS]


def _decoded(path: Path) -> Calibration:
    """Read the file. Raises RunDirectoryError."""
    try:
        calibration = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error
    if calibration.schema_version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {calibration.schema_version}; this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return calibration


def _hint(root: Path, name: str) -> str:
    names = list_calibrations(root)
    near = get_close_matches(slug(name), names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"available: {', '.join(names[:10])}" if names else "create one with `telemetry calibrate -- CMD`"
