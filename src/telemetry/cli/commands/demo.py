"""`telemetry demo`: an HTTP benchmark on loopback under `telemetry run`, up to its report."""

from __future__ import annotations

import argparse
import sys

from telemetry.cli.commands import run as run_command
from telemetry.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=20_000, help="number of requests to send (default: 20000)")
    parser.add_argument(
        "--connections", type=int, default=16, help="number of concurrent connections (default: 16)"
    )
    parser.add_argument("--dir", default=None, help="parent folder of the run directory (default: runs)")


def run(args: argparse.Namespace) -> int:
    if args.requests < 1 or args.connections < 1:
        raise UsageError("--requests and --connections must be at least 1")
    benchmark = [sys.executable, "-P", "-m", "telemetry.demo.http_benchmark"]
    sizes = ["--requests", str(args.requests), "--connections", str(args.connections)]
    parser = argparse.ArgumentParser()
    run_command.add_arguments(parser)
    where = ["--dir", args.dir] if args.dir else []
    return run_command.run(parser.parse_args(["--name", "demo", *where, "--", *benchmark, *sizes]))
