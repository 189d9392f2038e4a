"""Options of `telemetry run` that other commands pass on to it, besides those of every aggregator."""

from __future__ import annotations

import argparse
from collections.abc import Collection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_conditions(parser)
    _add_records(parser)
    _add_companions(parser)


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    """Add what a run, or a request of it, has to meet."""
    parser.add_argument(
        "--gate",
        dest="gates",
        action="append",
        metavar="EXPR",
        help="condition on the run, such as 'p99(latency) < 250ms'; repeatable; exit 99 if one fails, 3 "
        "if one is inconclusive (default: the setting gates.expressions)",
    )
    parser.add_argument("--no-gates", action="store_true", help="ignore the setting gates.expressions")
    parser.add_argument("--baseline", default=None, metavar="RUN", help="run that `baseline` stands for in a gate")
    parser.add_argument(
        "--abort-on-fail", action="store_true", help="stop the command as soon as a gate fails for good"
    )
    parser.add_argument(
        "--goodput",
        nargs="+",
        default=None,
        metavar="[KIND=]KEY:LIMIT",
        help="limits for each request, such as `ttft:200 tpot:50`, in ms, ended by `--`; requests within all of "
        "them are good; keys: ttft, tpot, e2el, gap, corrected, tps",
    )


def _add_records(parser: argparse.ArgumentParser) -> None:
    """Add what is recorded besides the calls of the command."""
    parser.add_argument(
        "--no-collect",
        action="store_true",
        help="don't record the machine, its GPUs, the commit and the packages, which are recorded by default (the "
        "setting collect.names)",
    )
    parser.add_argument(
        "--capture",
        dest="captures",
        action="append",
        default=[],
        metavar="NAME[,NAME…]",
        help="record what the command's Python processes log through these libraries, without changing the "
        "command; `telemetry capture list` shows the names; repeatable",
    )
    parser.add_argument(
        "--stand-in",
        dest="stand_ins",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="give the command our interface in place of this library, which need not be installed: wandb",
    )
    parser.add_argument(
        "--stragglers",
        default=None,
        metavar="SPAN[,SPAN…]",
        help="find ranks that slow the others: names or patterns of the spans in which the command's processes "
        "wait for each other, such as 'all_reduce,nccl.*' (default: the setting emit.stragglers)",
    )
    parser.add_argument(
        "--flight-recorder",
        default=None,
        metavar="TIME",
        help="write the last TIME of the run, such as 30s, with every value if the command fails, is killed or "
        "stalls, a gate fails, or a mark has the label flight=dump",
    )


def _add_companions(parser: argparse.ArgumentParser) -> None:
    """Add what runs beside the command, and how long after it."""
    parser.add_argument(
        "--gateway",
        default=None,
        metavar="[HOST:]PORT",
        help="serve the run over HTTP, as `telemetry gateway` does; the command finds the address in "
        "TELEMETRY_GATEWAY_URL",
    )
    parser.add_argument(
        "--gateway-grpc",
        default=None,
        metavar="[HOST:]PORT",
        help="the gateway also takes OTLP over gRPC at this address, such as 4317; the command finds it in "
        "TELEMETRY_GATEWAY_GRPC_URL",
    )
    parser.add_argument(
        "--ray",
        action="store_true",
        help="put a leaf on each node of the Ray cluster that the command, a driver, connects to, and record in "
        "its workers",
    )
    parser.add_argument(
        "--worker-grace",
        type=float,
        default=None,
        metavar="SECONDS",
        help="after the command ended: longest wait for its workers that still record (default: 10)",
    )


def given_words(
    parser: argparse.ArgumentParser, args: argparse.Namespace, without: Collection[str] = ()
) -> list[str]:
    """Return the options of a parser that were given, as words of a command line. `without` names destinations.

    Only for options with one value, with several at once, with one each time, or with none.
    """
    arguments: list[str] = []
    for action in parser._actions:  # argparse has no public list
        value = getattr(args, action.dest, action.default)
        option = action.option_strings[-1] if action.option_strings else ""
        if not option or action.dest in without or value == action.default:
            continue
        if action.nargs == 0:
            arguments += [option] if value == action.const else []
        elif action.nargs == "+":
            arguments += [option, *value]
        else:
            arguments += [f"{option}={item}" for item in (value if isinstance(value, list) else [value])]
    return arguments
