"""The argument parser of all commands: its errors suggest the nearest option, action or choice."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from telemetry.errors import UsageError

_CHOICE: Final = re.compile(r"(?P<what>.*): invalid choice: (?P<given>.*) \(choose from (?P<known>.*)\)", re.DOTALL)
_REQUIRED: Final = "the following arguments are required"
_HELP: Final = ("-h", "--help")


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError for an unknown option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._actions_of: Any = None
        """The parsers of its commands or actions, if it has any."""
        self._default_action = ""
        self._given: list[str] = []

    def add_subparsers(self, **kwargs: Any) -> Any:
        self._actions_of = super().add_subparsers(**kwargs)
        return self._actions_of

    def add_actions(self, default: str, parser_class: type[argparse.ArgumentParser] | None = None) -> Any:
        """Add the actions of a command, such as `keys show`. Without an action, `default` runs."""
        self._default_action = default
        return self.add_subparsers(
            dest="action",
            metavar="ACTION",
            required=True,
            help=f"what to do (see below; default: {default})",
            parser_class=parser_class or CommandParser,
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments. Raises UsageError for an unknown option or argument."""
        result, rest = self.parse_known_args(args, namespace)
        if rest:
            raise self._chosen(result)._unknown(rest[0])
        return result

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = self._with_action(list(args or ()))
        return super().parse_known_args(self._given if args is not None else None, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit. Raises UsageError if an unknown option may be the cause."""
        if message.startswith(_REQUIRED) and (unknown := next(self._unknown_options(), "")):
            raise self._unknown(unknown)
        if (choice := _CHOICE.fullmatch(message)) is not None:
            choices = [word.strip("'\"") for word in choice["known"].split(", ")]
            from telemetry.common.formatting import did_you_mean

            if meant := did_you_mean(choice["given"].strip("'\""), choices):
                message += f"; {meant}"
        super().error(message)

    def _chosen(self, arguments: argparse.Namespace) -> CommandParser:
        """Return the parser of the command, and of its action, that the arguments name."""
        if self._actions_of is None:
            return self
        child = self._actions_of.choices.get(getattr(arguments, self._actions_of.dest, None))
        return child._chosen(arguments) if isinstance(child, CommandParser) else self

    def _with_action(self, argv: list[str]) -> list[str]:
        """Put the default action in front of words that name no action and are not about the command itself."""
        if not self._default_action or (argv and (not argv[0].startswith("-") or argv[0] in _HELP)):
            return argv
        options = self._actions_of.choices[self._default_action]._option_strings()
        return argv if argv and argv[0].partition("=")[0] not in options else [self._default_action, *argv]

    def _unknown(self, word: str) -> UsageError:
        from telemetry.common.formatting import did_you_mean

        option = word.partition("=")[0]
        if not option.startswith("-"):
            return UsageError(f"unexpected argument {word!r}", hint=f"`{self.prog} --help` shows the arguments")
        names = [
            text[2:] for text in self._option_strings() if text.startswith("--")
        ]  # dashes make short words alike
        hint = did_you_mean(option.lstrip("-"), names, form="--{}")
        return UsageError(
            f"unknown option {option} of `{self.prog}`", hint=hint or f"`{self.prog} --help` lists its options"
        )

    def _unknown_options(self) -> Iterator[str]:
        """Yield unknown options that were given. The words of another command are not looked at."""
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return
        options = set(self._option_strings())
        for word in self._given:
            if word == "--":
                return
            if word.startswith("--") and word.partition("=")[0] not in options:
                yield word

    def _option_strings(self) -> list[str]:
        return [text for action in self._actions for text in action.option_strings]


class GroupedParser(CommandParser):
    """The parser of all commands. Its help has them in groups, one line for each."""

    groups: Mapping[str, Mapping[str, str]]
    """Map of group → command → summary."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        parts = [formatter.format_help(), "\n"]
        width = max(len(name) for commands in self.groups.values() for name in commands)
        for group, commands in self.groups.items():
            parts.append(
                "\n".join([f"{group}:", *(f"  {name:{width}}  {text}" for name, text in commands.items())])
            )
            parts.append("\n\n")
        formatter = self._get_formatter()
        formatter.start_section("options")
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return "".join([*parts, formatter.format_help()])
