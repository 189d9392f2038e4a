"""The help of all commands as one text. `python -m tests.golden.cli.help` renews it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from telemetry.cli.main import COMMANDS, build_parser

FILE: Final = Path(__file__).with_name("help.txt")


def lines() -> Iterator[str]:
    """Yield each command with its summary, then its arguments: names and help, as argparse has them."""
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, summary in COMMANDS.items():
        yield f"{name}: {summary}"
        yield from _arguments(name, commands.choices[name])
        yield ""


def _arguments(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action._choices_actions:
                yield f"{name} {child.dest}: {child.help}"
                yield from _arguments(f"{name} {child.dest}", action.choices[child.dest])
        elif not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS:
            words = ", ".join(action.option_strings) or action.metavar or action.dest
            yield f"  {words}: {action.help}"


def text() -> str:
    return "\n".join(lines())


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
