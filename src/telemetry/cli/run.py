"""`telemetry run -- CMD…`: an aggregator beside a command, and the report when it ends."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry import limits
from telemetry.cli import console, serve
from telemetry.cli.exits import Exit, strictly
from telemetry.cli.job import Job
from telemetry.cli.live_line import describe
from telemetry.cli.stage import Stage, open_stage
from telemetry.errors import TelemetryError, UsageError
from telemetry.transport.subscription import Subscription
from telemetry.wire.control import Request, Stop, Watch
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, CommandFacts

if TYPE_CHECKING:
    from telemetry.emit.keeper import AggregatorKeeper


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default=None, help="name of the run (default: the command's)")
    serve.add_run_flags(parser)
    parser.add_argument("--quiet", action="store_true", help="no live line, no report on stderr")
    parser.add_argument(
        "--tui",
        action="store_true",
        help="show the run as `telemetry top` does; `q` leaves the viewer, never the command",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit 4 if the command succeeded but the result is not complete"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command to run")


def run(args: argparse.Namespace) -> int:
    from telemetry.config.load import load
    from telemetry.emit.keeper import AggregatorKeeper
    from telemetry.emit.outcome import await_report
    from telemetry.emit.run_files import RunFiles
    from telemetry.emit.spawn import environment, spawn

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command given", hint="telemetry run --name NAME -- CMD …")
    name = args.name or _name_of(command[0])
    serve.check_name(name)
    flags = {key: getattr(args, flag, None) for flag, key in serve.FLAGS.items()}
    config = load(flags).config
    with open_stage(tui=args.tui) as stage:
        aggregator = spawn(name, flags, owner_pid=os.getpid(), timeout_s=config.emit.start_timeout_s)
        keeper = AggregatorKeeper(aggregator, RunFiles.of(aggregator, config.run.fallback_dirs), stage.say)
        with Subscription(aggregator.snapshots) as snapshots:
            job = Job(command, {"TELEMETRY_ENDPOINT": aggregator.endpoint}, stage.launch)
            if job.started:
                stage.begin(aggregator.directory, environment(flags))
                _ask(keeper, Watch(pid=job.pid), stage)
                job.wait(_Watch(snapshots, keeper, stage, quiet=args.quiet))
                stage.over()
            _ask(keeper, Stop(reason=job.ending(), command=job.facts()), stage)
            patience_s = config.run.drain_timeout_s + config.emit.finish_timeout_s
            report = await_report(
                snapshots,
                keeper,
                patience_s,
                recovery_s=limits.RECOVERY_S,
                patience_after_restart_s=patience_s,
            )
            keeper.release()
        stage.await_leave(patient=not job.told_to_end)
    report = _with_bill(report, job.facts())
    if not args.quiet:
        _say(report)
    if job.exit_code:
        return job.exit_code
    return strictly(report.completeness) if args.strict else Exit.OK


def _name_of(program: str) -> str:
    """A name for a run whose command may be called anything."""
    name = "".join(char if char.isprintable() else "?" for char in Path(program).name)
    return name[: limits.NAME_CHARS].strip() or "run"


class _Watch:
    """What happens each second while the command runs."""

    def __init__(self, snapshots: Subscription, keeper: AggregatorKeeper, stage: Stage, *, quiet: bool) -> None:
        self._snapshots = snapshots
        self._keeper = keeper
        self._stage = stage
        self._quiet = quiet
        self._over = False

    def __call__(self) -> None:
        snapshot = self._snapshots.recv(0.0)
        if snapshot is None or self._over:
            return
        if not self._quiet:
            self._stage.pass_by(describe(snapshot) + "\n")
        if snapshot.state in TERMINAL:
            self._over = True
            self._keeper.release()
            self._stage.say("the run was stopped; the command goes on, what it records now is in no result")


def _ask(keeper: AggregatorKeeper, request: Request, stage: Stage) -> None:
    """The run's result does not hang on an answer: without one it is read from disk."""
    try:
        keeper.ask(request, limits.CONTROL_TIMEOUT_S)
    except TelemetryError as error:
        stage.say(str(error))


def _with_bill(report: Report, command: CommandFacts) -> Report:
    """A source that is older than the command's end can't know what it took."""
    snapshot = report.snapshot
    return replace(report, snapshot=replace(snapshot, command=snapshot.command or command))


def _say(report: Report) -> None:
    from telemetry.report import render

    text = render(report, width=console.width(sys.stderr), color=console.color(sys.stderr))
    console.talk(f"{text}run directory: {report.directory}\n")
