"""`telemetry doctor`: checks whether telemetry can work on this machine, with advice for each problem."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.cli.doctor_checks import CHECKS, Check, Finding
from telemetry.errors import TelemetryError, error_text
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.config import Config

_COLORS = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_dir_argument(parser)
    parser.add_argument("--quick", action="store_true", help="skip the trial run, which takes a few seconds")
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")


def run(args: argparse.Namespace) -> int:
    checks = []
    for check in _checks(args):
        checks.append(check)
        if not args.json:
            console.write(_line(check))
    if args.json:
        console.write_json(checks)
    return Exit.ERROR if any(check.status == "fail" for check in checks) else Exit.OK


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    from telemetry.config import load

    try:
        config = load({"run.dir": args.dir}).config
    except TelemetryError as error:
        yield Check(name="configuration", status="fail", found=error.message, advice=error.hint)
        return
    for name, check, slow in CHECKS:
        if not (slow and args.quick):
            yield examine(name, check, config)


def examine(name: str, check: Callable[[Config], Finding], config: Config) -> Check:
    """Run one check. A check that raises counts as failed, so that the others still run."""
    try:
        status, summary, *advice = check(config)
    except Exception as error:  # noqa: BLE001 – a broken machine fails in unforeseen ways
        status, summary, advice = "fail", error_text(error), []
    return Check(name=name, status=status, found=summary, advice="".join(advice))


def _line(check: Check) -> str:
    status = f"{check.status:<4}"
    if console.color(sys.stdout):
        status = f"{_COLORS[check.status]}{status}\x1b[0m"
    advice = f"\n      → {check.advice}" if check.advice else ""
    return f"{status}  {check.name}: {check.found}{advice}\n"
