"""The `telemetry` command: finds the subcommand, runs it, and turns errors into one line and an exit code.

The module of a command, `telemetry.cli.commands.<name>`, is imported only when the command is used. It has

    add_arguments(parser: argparse.ArgumentParser) -> None
    run(args: argparse.Namespace) -> int        # the exit code
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from telemetry.cli import console
from telemetry.cli.exit_codes import Exit
from telemetry.cli.parser import CommandParser
from telemetry.errors import TelemetryError, UsageError

COMMANDS: Final[dict[str, str]] = {
    "run": "run a command and record it, then print a report",
    "sweep": "run a command with several values of a parameter, and compare the runs",
    "serve": "run only an aggregator, in the foreground",
    "capture": "show which libraries `run --capture` records, and reach stubborn environments",
    "feed": "receive what another program publishes, as part of a run",
    "ls": "list live and finished runs",
    "status": "show the state of a run",
    "nodes": "show the nodes of a run on several machines",
    "top": "watch a run in the terminal or a browser, live or finished",
    "tail": "print snapshots or records as JSON lines, live",
    "stop": "end a run and wait for its result",
    "report": "print the report of a run: text, HTML, JSON, Markdown, CSV, JUnit, HDR logs",
    "gateway": "serve a run over HTTP",
    "stack": "show runs in Prometheus and Grafana, which it starts and ends",
    "timeline": "write the spans of a run as a trace file",
    "export": "export a live or finished run to trackers and monitors",
    "notify": "try the receivers of notifications",
    "gate": "check conditions on a run: pass, fail or inconclusive",
    "merge": "merge several finished runs into one",
    "compare": "compare two sets of runs and separate differences from noise",
    "curve": "show runs that differ in a parameter: throughput, latency, goodput",
    "calibrate": "measure run-to-run noise of a command",
    "recover": "make the result of a run from its journal, after its aggregator died",
    "replay": "play the journal of a finished run through a live aggregator",
    "bench": "measure what telemetry costs on this machine",
    "demo": "run an example benchmark and print its report",
    "plugins": "show and check backends, collectors, feeds and captures of all packages",
    "doctor": "check that telemetry works on this machine",
    "keys": "create and trust keys for runs over the network",
    "config": "show the settings and where each comes from",
    "completion": "print a completion script for bash, zsh or fish",
}
"""Map of command name → summary, in the order of the help. Each command is a module in `telemetry.cli.commands`."""

_ELSEWHERE: Final = {"watch": "top", "monitor": "top"}
"""Names of commands in other tools, too different from ours to be typing errors."""
_EPILOG: Final = """RUN is a run directory, a run id, a name or `latest`. Data goes to stdout, messages to stderr.
exit codes: 0 ok, 1 error, 2 usage, 3 inconclusive, 4 lossy or incomplete (--strict),
5 interrupted (--strict), 6 feed or backend failed (--strict), 99 gate failed or worse"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Never raises for errors that a user can cause."""
    console.complete_streams()
    console.tolerate_any_encoding()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except TelemetryError as error:
        console.say(str(error))
        return error.exit_code
    except SystemExit as stop:  # argparse raises it after it has printed help or usage
        return stop.code if isinstance(stop.code, int) else Exit.OK
    except KeyboardInterrupt:
        return Exit.SIGINT
    except BrokenPipeError:
        console.discard(sys.stdout)
        return Exit.SIGPIPE
    except OSError as error:
        console.say(str(error))
        return Exit.ERROR


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser with all commands. With `only`, just the module of that command is imported."""
    parser = CommandParser(
        prog="telemetry",
        description="Live percentiles, exact results and loss accounting for a benchmark or a training job.",
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command_name", metavar="COMMAND", title="commands", required=True)
    for name, summary in COMMANDS.items():
        child = commands.add_parser(name, help=summary, description=_sentence(summary), allow_abbrev=False)
        if only in (None, name):
            module = import_module(f"telemetry.cli.commands.{name}")
            module.add_arguments(child)
            child.set_defaults(run_command=module.run)
    return parser


def _run(argv: list[str]) -> int:
    name = next((word for word in argv if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}", hint=_meant(name) or "`telemetry --help` lists all commands")
    args = build_parser(only=name or "").parse_args(argv or ["--help"])
    code: int = args.run_command(args)
    return code


def _meant(name: str) -> str:
    from difflib import get_close_matches

    close = [_ELSEWHERE[name]] if name in _ELSEWHERE else get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `telemetry {close[0]}`?" if close else ""


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


class _Version(argparse.Action):
    """An action that reads the version only on request: package metadata is slow to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from telemetry.distribution import version

        console.write(f"telemetry {version()}\n")
        parser.exit()
