"""`telemetry calibrate -- CMD…`: repeat a command and measure its run-to-run noise."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.cli.commands import serve
from telemetry.cli.commands.run import name_of
from telemetry.cli.outputs import say_wrote
from telemetry.common import formatting
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.store.calibrations import Calibration
    from telemetry.wire.report import Report

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="how often to run CMD (default: 10)")
    parser.add_argument(
        "--name", default=None, help="name of the runs and of the calibration (default: as in `telemetry run`)"
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the calibration as JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command to run")


def run(args: argparse.Namespace) -> int:
    from telemetry.history import load_report

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command to run", hint="telemetry calibrate --name NAME -- CMD …")
    if not 2 <= args.runs <= limits.CALIBRATION_RUNS:
        raise UsageError(
            f"--runs {args.runs} is out of range", hint=f"give a number from 2 to {limits.CALIBRATION_RUNS:,}"
        )
    serve.check_name(args.name or name_of(command))
    root = find_run.root_directory(args.dir)
    reports: list[Report] = []
    for number in range(1, args.runs + 1):
        begun_s = time.monotonic()
        run_id = secrets.token_hex(4)
        if code := _run_once(args.name, run_id, root, command):
            console.say(f"run {number} of {args.runs} exited with code {code}; no calibration was written")
            return code
        report = load_report(run_id, root, find_run.fallback_dirs())
        reports.append(report)
        console.say(f"run {number} of {args.runs}: {_took(report, time.monotonic() - begun_s)}")
    calibration = _calibration(reports)
    _say(calibration, root, as_json=args.json)
    return Exit.OK


def _run_once(name: str | None, run_id: str, root: Path, command: Sequence[str]) -> int:
    """Run `telemetry run` once and return its exit code.

    The output of CMD goes to stderr: stdout is for the result.

    A signal that ends this process ends the child too: Ctrl-C reaches it through the terminal, SIGTERM and SIGHUP
    are forwarded.
    """
    from telemetry.supervise.spawn import telemetry_command

    sys.stderr.flush()
    arguments = [*telemetry_command(), "run", "--quiet", "--run-id", run_id, "--dir", str(root)]
    arguments += ["--name", name] if name else []
    arguments += ["--", *command]
    with subprocess.Popen(arguments, stdout=sys.stderr.fileno()) as child, _passed_on(child):
        while True:
            try:
                return _shell_code(child.wait())
            except KeyboardInterrupt:
                continue  # the child received the signal too, and writes a result before it ends


@contextmanager
def _passed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    def forward(number: int, _frame: FrameType | None) -> None:
        if child.poll() is None:
            child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code


def _took(report: Report, seconds: float) -> str:
    command = report.snapshot.command
    wall_s = command.wall_s if command else seconds
    return f"{formatting.duration_s(wall_s)}, {report.completeness}"


def _calibration(reports: Sequence[Report]) -> Calibration:
    from telemetry.judge.compare import noise_of
    from telemetry.store.calibrations import Calibration
    from telemetry.store.run_directory import RunDirectory

    newest = reports[-1].snapshot
    return Calibration(
        name=newest.name,
        argv=newest.command.argv if newest.command is not None else [],
        cwd=RunDirectory.open(Path(newest.directory)).read_manifest().cwd,
        host=socket.gethostname(),
        created_ns=time.time_ns(),
        runs=len(reports),
        directories=[os.path.basename(report.directory) for report in reports],
        metrics=noise_of(reports),
    )


def _say(calibration: Calibration, root: Path, *, as_json: bool) -> None:
    from telemetry.report.calibration import calibration_text
    from telemetry.store.calibrations import write_calibration

    path = write_calibration(root, calibration)
    if as_json:
        console.write_json(calibration)
    else:
        console.write(calibration_text(calibration, console.width(sys.stdout), console.color(sys.stdout)))
    say_wrote(path)
