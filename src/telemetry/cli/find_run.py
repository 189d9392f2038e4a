"""Which run is meant, and asking it: live runs first, then what lies on disk."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import dataclass
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
class Target:
    """A run. `endpoint` is empty once nobody answers for it."""

    spec: str
    root: Path
    endpoint: str = ""
    live: LiveRun | None = None

    @property
    def directory_spec(self) -> str:
        """What finds this run on disk."""
        return self.live.dir if self.live else self.spec


def add_run_argument(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument(
        "target",
        metavar="RUN",
        nargs=None if required else "?",
        default=LATEST,
        help="directory, run id, name, control address, or `latest`: the newest run under --dir, and where there "
        "was never one, the newest live run" + ("" if required else " (default: latest)"),
    )
    add_dir_argument(parser)


def add_dir_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", default=None, help="folder of the run directories (default: the setting run.dir)")


def root_directory(flag: str | None) -> Path:
    from telemetry.config import load

    return Path(load({"run.dir": flag}).config.run.dir).absolute()


def find(args: argparse.Namespace) -> Target:
    """The live run that `RUN` means, else whatever of that name the disk has: nothing is read from it yet."""
    root = root_directory(args.dir)
    spec: str = args.target
    if "://" in spec:
        return Target(spec, root, endpoint=spec)
    live = _find_live(spec, root)
    return Target(spec, root, live.endpoint if live else "", live)


def require_live(target: Target) -> str:
    """The control address. Raises RunNotFoundError if the run is not live."""
    from telemetry.store.live_runs import find_live
    from telemetry.transport import runtime_directory

    if target.endpoint:
        return target.endpoint
    if target.spec == LATEST:
        raise RunNotFoundError(
            f"the newest run in {target.root} has ended", hint="`telemetry ls --live` lists others"
        )
    return find_live(runtime_directory(), target.spec).endpoint


def check_listened(endpoint: str) -> None:
    """Raises EndpointError where the machine knows that nobody is there, so that nobody waits."""
    from telemetry.transport.endpoints import refuses

    if refuses(endpoint):
        raise EndpointError(f"nobody listens at {endpoint}", hint="`telemetry ls` shows the live runs")


def ask(endpoint: str, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> MetricsSnapshot:
    """The newest snapshot, from the aggregator itself. Raises EndpointError or ProtocolError."""
    from telemetry.transport import ControlClient
    from telemetry.wire.control import GetStatus, Status

    check_listened(endpoint)
    with ControlClient(endpoint) as client:
        answer = client.request(GetStatus(), timeout_s)
    if not isinstance(answer, Status):
        raise ProtocolError(f"{endpoint} answered status with {type(answer).__name__}")
    return answer.snapshot


def report_of(target: Target) -> Report:
    """From the aggregator while the run goes on, else from disk.

    Raises RunNotFoundError or RunDirectoryError, or the aggregator's failure if the disk has nothing either.
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
    """What a run that has ended left on disk: its aggregator, which may stay for a moment, does not know what the
    gates came to, and may not answer any more. None if it is not there, or on another machine."""
    with suppress(TelemetryError):
        report = _load(directory, root) if directory else None
        if report is not None and report.snapshot.run_id == run_id:
            return report
    return None


def from_disk(target: Target, silence: TelemetryError) -> Report:
    """The report of a run that did not answer, for it has ended. Raises `silence` if it has left no result, or what
    is left of it if it is dead."""
    try:
        return _load(target.directory_spec, target.root)
    except TelemetryError as nothing:
        raise nothing if dead(target) is not None else silence from None


def dead(target: Target) -> LeftOver | None:
    """What is left of a run whose aggregator ended without a result; None for all others."""
    from telemetry.store.dead_run import is_dead, remains
    from telemetry.store.run_directory import resolve

    try:
        directory = resolve(target.directory_spec, target.root)
    except TelemetryError:
        return None
    return remains(directory) if is_dead(directory, fallback_dirs()) else None


def keeper(run: RunDirectory) -> int:
    """The process that is about to start another aggregator for a run whose aggregator died; 0 if there is none."""
    from telemetry.transport.keeper_lock import keeper_of

    return keeper_of(run.run_id)


def refuse_if_kept(run: RunDirectory) -> None:
    """Raises RunDirectoryError for a dead run that is about to go on: a result would end it."""
    from telemetry.store.dead_run import is_dead

    if is_dead(run, fallback_dirs()) and (pid := keeper(run)):
        raise RunDirectoryError(
            f"the aggregator of {run.path} died, and process {pid} is starting another",
            hint="the run goes on; wait for its end, or end that process first",
        )


def fallback_dirs() -> tuple[str, ...]:
    """Where results go whose run directory can't be written."""
    from telemetry.config import load

    return load({}).config.run.fallback_dirs


def early_rule() -> EarlyRule:
    """The confidence and tolerance of early stopping, by the settings."""
    from telemetry.config import load

    return load({}).config.early_stopping.rule


def _load(spec: str, root: Path) -> Report:
    from telemetry.report import load_report

    return load_report(spec, root, fallback_dirs(), early_rule())


def _find_live(spec: str, root: Path) -> LiveRun | None:
    """`latest` is the newest run below `root`, or the newest live one if there is none."""
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
