"""`telemetry completion SHELL`: a script to source in bash, zsh or fish."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from telemetry.cli import console
from telemetry.cli.exit_codes import Exit

_SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="shell to print the script for")


def run(args: argparse.Namespace) -> int:
    from telemetry.cli.main import build_parser

    parser = build_parser()
    if args.shell == "fish":
        console.write("\n".join(fish(parser)) + "\n")
    else:
        import shtab

        console.write(shtab.complete(parser, shell=args.shell) + "\n")
    return Exit.OK


def fish(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield `complete` lines for commands, their options, and the choices of both. shtab does not support fish."""
    yield f"complete -c {parser.prog} -n __fish_use_subcommand -f"
    yield from _options(parser, parser.prog, "__fish_use_subcommand")
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for pseudo in commands._choices_actions:
        line = f"complete -c {parser.prog} -n __fish_use_subcommand -f -a {pseudo.dest}"
        yield f"{line} -d {_quoted(pseudo.help or '')}"
    for name, child in commands.choices.items():
        yield from _command(child, parser.prog, f"__fish_seen_subcommand_from {name}")


def _command(parser: argparse.ArgumentParser, program: str, condition: str) -> Iterator[str]:
    """Yield lines for a command's options and for its subcommands."""
    yield from _options(parser, program, condition)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for pseudo in action._choices_actions:
                line = f"complete -c {program} -n {_quoted(condition)} -f -a {pseudo.dest}"
                yield f"{line} -d {_quoted(pseudo.help or '')}"
            for name, child in action.choices.items():
                yield from _command(child, program, f"{condition}; and __fish_seen_subcommand_from {name}")


def _options(parser: argparse.ArgumentParser, program: str, condition: str) -> Iterator[str]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        words = [f"complete -c {program} -n {_quoted(condition)}"]
        words += [f"-{'l' if flag.startswith('--') else 's'} {flag.lstrip('-')}" for flag in action.option_strings]
        if action.option_strings and action.nargs != 0:
            words.append("-r")
        if action.choices:
            words.append(f"-f -a {_quoted(' '.join(map(str, action.choices)))}")
        elif not action.option_strings:
            continue
        words.append(f"-d {_quoted(parser._get_formatter()._expand_help(action))}")
        yield " ".join(words)


def _quoted(text: str) -> str:
    """Quote a string for fish. Only the backslash and the quote are special there."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ")
    return f"'{escaped}'"
