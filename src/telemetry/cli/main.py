"""The `telemetry` command: finds the subcommand, runs it, and turns errors into one line and an exit code.

A module in COMMANDS is imported only when its command is used. It has

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
from telemetry.cli.exits import Exit
from telemetry.errors import TelemetryError, UsageError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "run": ("telemetry.cli.run", "run a command with an aggregator beside it, and report"),
    "serve": ("telemetry.cli.serve", "run an aggregator alone, in the foreground"),
    "feed": ("telemetry.cli.feed", "take what another program publishes into a run"),
    "ls": ("telemetry.cli.ls", "list live and finished runs"),
    "status": ("telemetry.cli.status", "say how a run is doing"),
    "top": ("telemetry.cli.top", "watch a run on a screen: live, or once it is over"),
    "tail": ("telemetry.cli.tail", "print snapshots or records as JSON lines while they come"),
    "stop": ("telemetry.cli.stop", "end a run and wait for its result"),
    "report": ("telemetry.cli.report", "say what a run came to: text, HTML, JSON, Markdown, CSV, JUnit, HDR logs"),
    "export": ("telemetry.cli.export", "hand a run on to trackers and monitors, live or finished"),
    "gate": ("telemetry.cli.gate", "check conditions on a run: pass, fail or inconclusive"),
    "merge": ("telemetry.cli.merge", "make one run of several that have ended"),
    "compare": ("telemetry.cli.compare", "say how two sets of runs differ, and what is noise"),
    "calibrate": ("telemetry.cli.calibrate", "repeat a command to learn how much its runs differ by themselves"),
    "recover": ("telemetry.cli.recover", "make the result of a run whose aggregator died, from its journal"),
    "replay": ("telemetry.cli.replay", "run a journal through a live aggregator once more"),
    "bench": ("telemetry.cli.bench", "measure what telemetry costs on this machine"),
    "demo": ("telemetry.cli.demo", "run an example benchmark to its report"),
    "doctor": ("telemetry.cli.doctor", "check that telemetry can work here"),
    "keys": ("telemetry.cli.keys", "make a key pair and say whom to trust, for runs over the network"),
    "config": ("telemetry.cli.config_cmd", "show the settings and where they come from"),
    "completion": ("telemetry.cli.completion", "print a completion script for bash, zsh or fish"),
}
"""Name → (module, what it does). The order is that of the help."""

_ELSEWHERE: Final = {"watch": "top", "monitor": "top"}
"""What others call a command, too far from its name to be a slip."""
_EPILOG: Final = """RUN is a run directory, a run id, a name or `latest`. JSON goes to stdout, talk to stderr.
exit codes: 0 ok, 1 error, 2 usage, 3 inconclusive, 4 lossy or incomplete (--strict),
5 interrupted (--strict), 6 feed or backend failed (--strict), 99 gate failed or worse"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit code; never raises for what a user can cause."""
    console.complete_streams()
    console.tolerate_any_encoding()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except TelemetryError as error:
        console.say(str(error))
        return error.exit_code
    except SystemExit as stop:  # argparse, after it has written help or usage
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
    """The parser with all commands; with `only`, just that one's module is imported."""
    parser = argparse.ArgumentParser(
        prog="telemetry",
        description="Live percentiles, exact results and counted losses beside a benchmark or a training job.",
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command_name", metavar="COMMAND", title="commands", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        child = commands.add_parser(name, help=summary, description=_sentence(summary), allow_abbrev=False)
        if only in (None, name):
            module = import_module(module_name)
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
    """Reads the version only when asked for it: package metadata is slow to import."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from telemetry.distribution import version

        console.write(f"telemetry {version()}\n")
        parser.exit()
