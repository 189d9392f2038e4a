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
from keyword import iskeyword
from typing import Any, Final

from telemetry.cli import console
from telemetry.cli.parser import CommandParser, GroupedParser
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

GROUPS: Final[dict[str, dict[str, str]]] = {
    "record": {
        "run": "run a command and record it, then print a report",
        "sweep": "run a command with several values of a parameter, and compare",
        "serve": "run only an aggregator, in the foreground",
        "feed": "receive what another program publishes, as part of a run",
        "gateway": "serve a run over HTTP: record into it, read it, scrape it",
        "capture": "show which libraries `run --capture` records",
        "demo": "run an example benchmark and print its report",
    },
    "watch": {
        "ls": "list live and finished runs, with their first figures",
        "top": "watch a run in the terminal or a browser, live or finished",
        "status": "show the state of a run",
        "nodes": "show the nodes of a run on several machines",
        "tail": "print snapshots or records as JSON lines, live",
        "stop": "end a run and wait for its result",
    },
    "report": {
        "report": "print the report of a run: text, HTML, JSON, Markdown, CSV, …",
        "open": "show the report of a run in a browser",
        "timeline": "write the spans of a run as a trace file",
        "export": "send a live or finished run to trackers, monitors or files",
        "merge": "merge several finished runs into one",
        "import": "make runs from the result files of other tools",
        "seal": "write a card of a run that others can verify: SVG, Markdown",
        "verify": "check that a card is unchanged, and is true of its run",
    },
    "decide": {
        "gate": "check conditions on a run: pass, fail or inconclusive",
        "ab": "run two commands by turns until it is known which is faster",
        "compare": "compare two sets of runs and separate differences from noise",
        "curve": "show runs that differ in a parameter: throughput, latency, …",
        "calibrate": "measure run-to-run noise of a command",
    },
    "operate": {
        "recover": "make the result of a run whose aggregator died",
        "replay": "play the journal of a finished run through a live aggregator",
        "clean": "remove old runs and comparisons, after asking",
        "stack": "show runs in Prometheus and Grafana, which it starts and ends",
        "notify": "show the receivers of notifications, and test them",
        "keys": "show, create and trust keys for runs over the network",
        "plugins": "list and check backends, collectors, feeds and captures",
        "config": "show the settings and where each comes from",
        "doctor": "check that telemetry works on this machine",
        "bench": "measure what telemetry costs on this machine",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
"""Map of group → command → summary, in the order of the help. Each fits on a line of 80 columns."""

COMMANDS: Final[dict[str, str]] = {name: text for group in GROUPS.values() for name, text in group.items()}
"""Map of command name → summary. Each command is a module in `telemetry.cli.commands`."""

_ELSEWHERE: Final = {"watch": "top", "monitor": "top"}
"""Names of commands in other tools, too different from ours to be typing errors."""
_HELP: Final = "help"
"""`telemetry help COMMAND` is `telemetry COMMAND --help`."""
_EPILOG: Final = """`telemetry help COMMAND` lists the options of a command.
RUN is a run directory, a run id, a name or `latest`.
Data goes to stdout, messages to stderr.
exit codes: 0 ok, 1 error, 2 usage, 3 inconclusive, 4 lossy or incomplete
(--strict), 5 interrupted (--strict), 6 feed or backend failed (--strict),
99 gate failed or worse"""


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
    parser = GroupedParser(
        prog="telemetry",
        description="Measure a benchmark or a training job, and count every value that is lost.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.groups = GROUPS
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command_name", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for name, summary in COMMANDS.items():
        child = commands.add_parser(name, help=summary, description=_sentence(summary), allow_abbrev=False)
        if only in (None, name):
            module = import_module(f"telemetry.cli.commands.{module_of(name)}")
            module.add_arguments(child)
            child.set_defaults(run_command=module.run)
    return parser


def module_of(command: str) -> str:
    """Return the name of the module of a command. A keyword of Python gets an underscore."""
    return f"{command}_" if iskeyword(command) else command


def _run(argv: list[str]) -> int:
    if argv[:1] == [_HELP]:
        argv = [*argv[1:], "--help"]
    name = next((word for word in argv if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}", hint=_meant(name) or "`telemetry --help` lists all commands")
    args = build_parser(only=name or "").parse_args(argv or ["--help"])
    code: int = args.run_command(args)
    return code


def _meant(name: str) -> str:
    from telemetry.common.formatting import did_you_mean

    return did_you_mean(_ELSEWHERE.get(name, name), [*COMMANDS, _HELP], form="`telemetry {}`")


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


class _Version(argparse.Action):
    """An action that reads the version only on request: package metadata is slow to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from telemetry.common.distribution import version

        console.write(f"telemetry {version()}\n")
        parser.exit()
