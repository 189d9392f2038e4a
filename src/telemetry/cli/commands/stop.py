"""`telemetry stop`: ends a live run, and waits until its result is written."""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.errors import EndpointError, TelemetryError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

if TYPE_CHECKING:
    from telemetry.transport import Subscription

_TURN_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser, required=True)
    parser.add_argument(
        "--reason", default="stopped on request", help="reason to store in the result (default: %(default)s)"
    )
    parser.add_argument("--interrupt", action="store_true", help="skip the drain; the result is marked interrupted")
    parser.add_argument(
        "--no-wait", action="store_true", help="return as soon as the aggregator has received the request"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=2 * limits.EXACT_BUDGET_S,
        metavar="SECONDS",
        help="longest wait for the result (default: %(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.transport import ControlClient, subscribe
    from telemetry.wire.control import Stop

    target = find_run.find(args)
    endpoint = find_run.require_live(target)
    with subscribe(endpoint) as snapshots, ControlClient(endpoint) as control:
        control.request(Stop(reason=args.reason, interrupted=args.interrupt), limits.CONTROL_TIMEOUT_S)
        if args.no_wait:
            return Exit.OK
        report = _await_result(target, snapshots, args.timeout)
    console.say(report.headline())
    console.say(report.directory)
    return Exit.OK


def _await_result(target: find_run.RunTarget, snapshots: Subscription, timeout_s: float) -> Report:
    """Return the result from the terminal snapshot, or from disk if that snapshot was missed.

    Raises EndpointError.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        snapshot = snapshots.recv(_TURN_S)
        if snapshot is not None and snapshot.state in TERMINAL:
            return Report(snapshot=snapshot, source="pubsub")
        if snapshot is None:
            with suppress(TelemetryError):
                report = find_run.report_of(target)
                if report.final:
                    return report
    raise EndpointError(
        f"the run did not end within {timeout_s:g} s", hint="`telemetry status` shows what it is waiting for"
    )
