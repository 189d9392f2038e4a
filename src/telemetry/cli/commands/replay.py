"""`telemetry replay`: the journal of an ended run, sent through a live aggregator again."""

from __future__ import annotations

import argparse
import math
import os
import secrets
import sys
from pathlib import Path

from telemetry import limits
from telemetry.cli import console, find_run
from telemetry.cli.commands import serve
from telemetry.wire.exit_codes import Exit

_FASTEST = "max"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser, required=True)
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar=f"N|{_FASTEST}",
        help=f"speed relative to the original run, or `{_FASTEST}` for no delays (default: 1)",
    )
    parser.add_argument("--bind", default=None, help="control address: tcp://host:port or ipc://path")
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="allow a tcp address that is not loopback without keys",
    )


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from telemetry.config import load
    from telemetry.daemon import DaemonOptions
    from telemetry.daemon.replay import run_replay
    from telemetry.store.run_directory import resolve

    config = load({"run.dir": args.dir, "transport.bind": args.bind, "transport.insecure": args.insecure}).config
    root = Path(config.run.dir).absolute()
    original = resolve(args.target, root)
    options = DaemonOptions(
        name=f"replay of {original.name or original.run_id}"[: limits.NAME_CHARS],
        run_id=secrets.token_hex(4),
        epoch=secrets.token_hex(4),
        root=root,
        config=config,
        command_line=tuple(sys.argv),
    )
    written, snapshot = run_replay(options, original, args.speed, on_ready=_say_where)
    serve.say_outcome(snapshot)
    return Exit.OK if written else Exit.ERROR


def _say_where(facts: dict[str, object]) -> None:
    console.say(f"{facts['name']} ({facts['run_id']}) in {facts['dir']}")
    console.say(f"watch it with: telemetry top {facts['run_id']}")


def _speed(text: str) -> float:
    if text == _FASTEST:
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed: give a number above 0, or `{_FASTEST}`")
    return speed
