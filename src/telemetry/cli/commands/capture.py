"""`telemetry capture`: the libraries that `telemetry run --capture` knows, and a hook for stubborn environments."""

from __future__ import annotations

import argparse
from typing import Final

from telemetry.cli import console
from telemetry.cli.outputs import say_wrote
from telemetry.common.formatting import printable
from telemetry.wire.exit_codes import Exit

SUMMARIES: Final = {
    "distributed": "work, waits and traffic of each rank in torch.distributed, by step of the optimizer",
    "lightning": "metrics that Lightning modules log, hyperparameters, checkpoints",
    "locust": "requests, users and marks of a load test with Locust",
    "logging": "warnings and errors of Python's logging, as marks",
    "rl_insight": "counters, gauges, histograms and traces of rl-insight",
    "tensorboard": "all that SummaryWriter of torch and tensorboardX gets",
    "torchrun": "metrics and events of torchrun and its workers",
    "transformers": "what Trainer of transformers and the trainers of TRL log",
    "verl": "metrics that verl's Tracking gets, with their steps",
    "wandb": "rows, config and summary that W&B gets",
}
"""Map of capture → what it records."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("list", "enable", "disable", "status"),
        nargs="?",
        default="list",
        help="list: libraries that can be captured; enable: let every Python process of this environment start "
        "the captures of `telemetry run --capture`, even with -I, -E or another PYTHONPATH; disable: undo that; "
        "status: show whether it is enabled",
    )


def run(args: argparse.Namespace) -> int:
    {"list": _list, "enable": _enable, "disable": _disable, "status": _status}[args.what]()
    return Exit.OK


def _list() -> None:
    from telemetry.integrations.capture.captures import known_captures

    captures = known_captures()
    width = max(map(len, captures))
    for name, plugin in captures.items():
        console.write(f"{printable(name):{width}}  {SUMMARIES.get(name) or f'from {plugin.origin}'}\n")


def _enable() -> None:
    from telemetry.integrations.capture.pth_file import enable

    say_wrote(enable(), "it has no effect outside `telemetry run --capture`")


def _disable() -> None:
    from telemetry.integrations.capture.pth_file import disable, pth_file

    console.say(f"removed {pth_file()}" if disable() else "was not enabled")


def _status() -> None:
    from telemetry.integrations.capture.pth_file import pth_file

    path = pth_file()
    console.write(f"enabled: {path}\n" if path.exists() else f"not enabled: no {path}\n")
