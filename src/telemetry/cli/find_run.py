"""Lookup of runs and requests to their aggregators: live runs first, then runs on disk."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry import limits
from telemetry.errors import (
    EndpointError,
    ProtocolError,
    RunDirectoryError,
    RunNotFoundError,
    TelemetryError,
)
from telemetry.wire.report import EarlyRule, Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.store.dead_run import LeftOver
    from telemetry.store.live_runs import LiveRun
    from telemetry.store.run_directory import RunDirectory

LATEST = "latest"


@dataclass(frozen=True)
class RunTarget:
    """A run named by the user. `endpoint` is empty if the run is not live."""

    spec: str
    root: Path
    endpoint: str = ""
    live: LiveRun | None = None

    @property
    def directory_spec(self) -> str:
        """Name under which this run is found on disk."""
        return self.live.dir if self.live else self.spec


def add_run_argument(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument(
        "target",
        metavar="RUN",
        nargs=None if required else "?",
        default=LATEST,
        help="directory, run id, name, control address, or `latest`: the newest run below --dir, or if "
        "there is none, the newest live run" + ("" if required else " (default: latest)"),
    )
    add_dir_argument(parser)


def add_dir_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", default=None, help="parent folder of the run directories (default: the setting run.dir)"
    )


def root_directory(flag: str | None) -> Path:
    from telemetry.config import load

    return Path(load({"run.dir": flag}).config.run.dir).absolute()


def find(args: argparse.Namespace) -> RunTarget:
    """Return the live run that `RUN` names, else a target for the disk. Does not read the disk yet."""
    return target_of(args.target, root_directory(args.dir))


def target_of(spec: str, root: Path) -> RunTarget:
    """Return the target of `find` for a name of a run and the parent folder of the run directories."""
    if "://" in spec:
        return RunTarget(spec, root, endpoint=spec)
    live = _find_live(spec, root)
    return RunTarget(spec, root, live.endpoint if live else "", live)


def directories(spec: str, root: Path, last: int | None = None) -> list[Path]:
    """Return the directory of one run, or those of the newest `last` runs of a name, oldest first.

    Raises RunNotFoundError.
    """
    from telemetry.store.run_directory import called, list_runs, resolve

    directory = resolve(spec, root)
    where = Path(spec).resolve()
    if spec in (LATEST, directory.run_id, directory.path.name) or directory.path in (where, where.parent):
        return [directory.path]
    named = [run.path for run in islice(called(spec, list_runs(root)), last)]
    return named[::-1]


def require_live(target: RunTarget) -> str:
    """Return the control address. Raises RunNotFoundError if the run is not live."""
    from telemetry.store.live_runs import find_live
    from telemetry.transport import runtime_directory

    if target.endpoint:
        return target.endpoint
    if target.spec == LATEST:
        raise RunNotFoundError(
            f"the newest run in {target.root} has ended", hint="`telemetry ls --live` shows the live runs"
        )
    return find_live(runtime_directory(), target.spec).endpoint


def check_listened(endpoint: str) -> None:
    """Raise EndpointError if the machine can tell that no process listens at the address.

    Avoids waiting for a timeout.
    """
    from telemetry.transport.endpoints import refuses

    if refuses(endpoint):
        raise EndpointError(f"no aggregator listens at {endpoint}", hint="`telemetry ls` shows the live runs")


def ask(endpoint: str, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> MetricsSnapshot:
    """Ask the aggregator for its newest snapshot. Raises EndpointError or ProtocolError."""
    from telemetry.transport import ControlClient
    from telemetry.wire.control import GetStatus, Status

    check_listened(endpoint)
    with ControlClient(endpoint) as client:
        answer = client.request(GetStatus(), timeout_s)
    if not isinstance(answer, Status):
        raise ProtocolError(f"{endpoint} answered status with {type(answer).__name__}")
    return answer.snapshot


def report_of(target: RunTarget) -> Report:
    """Return the report from the aggregator while the run is live, else from disk.

    Raises RunNotFoundError or RunDirectoryError. Raises the aggregator's error if there is no result on disk
    either.
    """
    if not target.endpoint:
        return _load(target.spec, target.root)
    live = target.live
    if live is not None and (written := _written(live.dir, live.run_id, target.root)):
        return written
    try:
        snapshot = ask(target.endpoint)
    except (EndpointError, ProtocolError) as silence:
        return from_disk(target, silence)
    from telemetry.history.requests import with_requests

    if snapshot.state in TERMINAL and (written := _written(snapshot.directory, snapshot.run_id, target.root)):
        return written
    return with_requests(Report(snapshot=snapshot, source="status", early_rule=early_rule()))


def _written(directory: str, run_id: str, root: Path) -> Report | None:
    """Return the result on disk of a run that has ended. None if it is missing or on another machine.

    The aggregator may stay for a moment after the run. It does not know the results of gates, and may stop
    answering.
    """
    with suppress(TelemetryError):
        report = _load(directory, root) if directory else None
        if report is not None and report.snapshot.run_id == run_id:
            return report
    return None


def from_disk(target: RunTarget, silence: TelemetryError) -> Report:
    """Return the report on disk of a run that did not answer because it ended.

    Raises `silence` if there is no result. For a dead run, raises the error that describes its remaining files.
    """
    try:
        return _load(target.directory_spec, target.root)
    except TelemetryError as nothing:
        raise nothing if dead(target) is not None else silence from None


def dead(target: RunTarget) -> LeftOver | None:
    """Return the remaining files of a run whose aggregator ended without a result; None for any other run."""
    from telemetry.store.dead_run import is_dead, remains
    from telemetry.store.run_directory import resolve

    try:
        directory = resolve(target.directory_spec, target.root)
    except TelemetryError:
        return None
    return remains(directory) if is_dead(directory, fallback_dirs()) else None


def keeper(run: RunDirectory) -> int:
    """Return the process id of the process that is restarting the aggregator of a run, or 0."""
    from telemetry.transport.keeper_lock import keeper_of

    return keeper_of(run.run_id)


def refuse_if_kept(run: RunDirectory) -> None:
    """Raise RunDirectoryError if the aggregator of a dead run is being restarted.

    Writing a result now would end the run.
    """
    from telemetry.store.dead_run import is_dead

    if is_dead(run, fallback_dirs()) and (pid := keeper(run)):
        raise RunDirectoryError(
            f"the aggregator of {run.path} died, and process {pid} is restarting it",
            hint="wait for the run to end, or end that process first",
        )


def fallback_dirs() -> tuple[str, ...]:
    """Return the folders for results of runs whose directory can't be written."""
    from telemetry.config import load

    return load({}).config.run.fallback_dirs


def early_rule() -> EarlyRule:
    """Return the confidence and tolerance of early stopping from the settings."""
    from telemetry.config import load

    return load({}).config.early_stopping.rule


def _load(spec: str, root: Path) -> Report:
    from telemetry.history.result import load_report

    return load_report(spec, root, fallback_dirs(), early_rule())


def _find_live(spec: str, root: Path) -> LiveRun | None:
    """Find a live run. `latest` is the newest run below `root`, or the newest live run if there is none."""
    from telemetry.store import run_directory
    from telemetry.store.live_runs import find_live
    from telemetry.transport import runtime_directory

    wanted: str | Path = spec
    if spec == LATEST:
        with suppress(RunNotFoundError):
            wanted = run_directory.resolve(LATEST, root).path
    try:
        return find_live(runtime_directory(), wanted)
    except RunNotFoundError:
        return None
