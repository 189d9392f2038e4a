"""The argument parser of all commands: its errors suggest the nearest option, action or choice."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from telemetry.errors import UsageError

_CHOICE: Final = re.compile(r"(?P<what>.*): invalid choice: (?P<given>.*) \(choose from (?P<known>.*)\)", re.DOTALL)
_REQUIRED: Final = "the following arguments are required"
_ALIKE: Final = 0.6


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError for an unknown option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._actions_of: Any = None
        """The parsers of its commands or actions, if it has any."""
        self._given: list[str] = []

    def add_subparsers(self, **kwargs: Any) -> Any:
        self._actions_of = super().add_subparsers(**kwargs)
        return self._actions_of

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments. Raises UsageError for an unknown option or argument."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            raise self._chosen(found)._unknown(rest[0])
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit. Raises UsageError if an unknown option may be the cause."""
        if message.startswith(_REQUIRED) and (unknown := next(self._unknown_options(), "")):
            raise self._unknown(unknown)
        if (choice := _CHOICE.fullmatch(message)) is not None:
            known = [word.strip("'\"") for word in choice["known"].split(", ")]
            message += _did_you_mean(choice["given"].strip("'\""), known, "; ")
        super().error(message)

    def _chosen(self, found: argparse.Namespace) -> CommandParser:
        """Return the parser of the command, and of its action, that the arguments name."""
        if self._actions_of is None:
            return self
        child = self._actions_of.choices.get(getattr(found, self._actions_of.dest, None))
        return child._chosen(found) if isinstance(child, CommandParser) else self

    def _unknown(self, word: str) -> UsageError:
        option = word.partition("=")[0]
        if not option.startswith("-"):
            return UsageError(f"unexpected argument {word!r}", hint=f"`{self.prog} --help` shows the arguments")
        hint = _did_you_mean(option, self._option_strings(), "")
        return UsageError(
            f"unknown option {option} of `{self.prog}`", hint=hint or f"`{self.prog} --help` lists its options"
        )

    def _unknown_options(self) -> Iterator[str]:
        """Yield unknown options that were given. The words of another command are not looked at."""
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return
        known = set(self._option_strings())
        for word in self._given:
            if word == "--":
                return
            if word.startswith("--") and word.partition("=")[0] not in known:
                yield word

    def _option_strings(self) -> list[str]:
        return [text for action in self._actions for text in action.option_strings]


def _did_you_mean(given: str, known: Iterable[str], before: str) -> str:
    """Return a question with the word that was probably meant; empty without a similar one."""
    from difflib import get_close_matches

    words = list(known)
    begins = [word for word in words if given.strip("-") and word.startswith(given)]
    near = get_close_matches(given, words, n=1, cutoff=_ALIKE) or begins[:1]
    return f"{before}did you mean {near[0]}?" if near else ""
