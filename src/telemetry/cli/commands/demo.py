"""`telemetry demo`: an HTTP benchmark on loopback under `telemetry run`, up to its report and what to try next."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from telemetry.cli import console, find_run
from telemetry.cli.commands import run as run_command
from telemetry.errors import UsageError
from telemetry.wire.exit_codes import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=20_000, help="number of requests to send (default: 20000)")
    parser.add_argument(
        "--connections", type=int, default=16, help="number of concurrent connections (default: 16)"
    )
    parser.add_argument("--dir", default=None, help="parent folder of the run directory (default: runs)")


def run(args: argparse.Namespace) -> int:
    if args.requests < 1 or args.connections < 1:
        raise UsageError("--requests and --connections must be at least 1")
    benchmark = [sys.executable, "-P", "-m", "telemetry.cli.demo.http_benchmark"]
    sizes = ["--requests", str(args.requests), "--connections", str(args.connections)]
    parser = argparse.ArgumentParser()
    run_command.add_arguments(parser)
    where = ["--dir", args.dir] if args.dir else []
    code = run_command.run(parser.parse_args(["--name", "demo", *where, "--", *benchmark, *sizes]))
    if code == Exit.OK:
        _say_next(find_run.root_directory(args.dir))
    return code


def _say_next(root: Path) -> None:
    """Print what to try next: commands that work as they are from this folder."""
    from telemetry.store.run_directory import list_runs

    newest = next((directory for directory in list_runs(root) if directory.slug == "demo"), None)
    if newest is None:
        return
    path = newest.path.absolute()
    run = shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
    program = _program()
    tries = (
        (f"{program} report {run} -o demo.html", "the report with its pictures, for a browser"),
        (f"{program} top {run}", "the run in the cockpit; q leaves it"),
        (f"{program} gate {run} 'p99(latency{{route=/fast}}) < 250ms'", "a check for CI: exit code 0 or 99"),
    )
    console.talk("\nTry next:\n" + "".join(f"\n  # {what}\n  {command}\n" for command, what in tries))


def _program() -> str:
    """Return `telemetry` if that starts this program, else the path that does."""
    mine = Path(sys.executable).with_name("telemetry")
    on_path = shutil.which("telemetry")
    if on_path is not None and Path(on_path).absolute() == mine:
        return "telemetry"
    if mine.exists():
        return shlex.quote(str(mine.relative_to(Path.cwd()) if mine.is_relative_to(Path.cwd()) else mine))
    return f"{shlex.quote(sys.executable)} -m telemetry"
