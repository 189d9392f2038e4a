"""The parser of a choice of plug-in, such as that of `--to` and `--collect`: kind, options and name.

  KIND[:key=value,…]        jsonl:path=out.jsonl        wandb:project=mine,as=team

`as` names this one among several of a kind. A comma in a value is written `\\,`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from telemetry import limits
from telemetry.common.formatting import did_you_mean, printable
from telemetry.errors import UsageError

_AS: Final = "as"
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.BACKEND_NAME_CHARS - 1}}}")
_PARTS: Final = re.compile(r"(?:\\.|[^\\,])+|\\", re.DOTALL)
_SECRET: Final = re.compile(r"(?i)(?:^|.*[_-])(?:api)?(?:key|token|password|passwd|secret)")


@dataclass(frozen=True)
class Choice:
    """A plug-in as the user requested it. Its options are unchecked until `convert`."""

    name: str
    """Name of this one among several of a kind."""
    kind: str
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the text that `parse` turns into this choice."""
        pairs = [*self.options.items(), *([] if self.name == self.kind else [(_AS, self.name)])]
        text = ",".join(f"{key}={_escaped(value)}" for key, value in pairs)
        return f"{self.kind}:{text}" if text else self.kind


@dataclass(frozen=True)
class Option:
    """An option of a plug-in, formatted for people."""

    name: str
    type: str
    default: str
    """Default as text; empty if the option is required."""


def parse(text: str, *, noun: str, known: Collection[str]) -> Choice:
    """Parse a choice without importing anything. Raises UsageError for an unknown kind or a malformed option.

    `noun` is the kind of plug-in in messages, such as `backend`.
    """
    kind, colon, rest = text.partition(":")
    if kind not in known:
        raise unknown(kind, noun, known)
    options = _options(kind, rest) if colon else {}
    name = options.pop(_AS, kind)
    if not is_valid_name(name):
        raise UsageError(
            f"{printable(name)!r} is not a valid name for a {noun}",
            hint=f"use letters, digits, `.`, `_` and `-`, at most {limits.BACKEND_NAME_CHARS}",
        )
    return Choice(name, kind, options)


def is_valid_name(name: str) -> bool:
    """Return whether a plug-in may be named so."""
    return _NAME.fullmatch(name) is not None


def unknown(kind: str, noun: str, kinds: Collection[str]) -> UsageError:
    """Return the error for a kind that no package offers."""
    hint = did_you_mean(kind, kinds) or f"one of {', '.join(sorted(kinds))}"
    return UsageError(f"no {noun} is named {printable(kind)!r}", hint=printable(hint))


def convert(choice: Choice, options: type[Struct], *, noun: str) -> Struct:
    """Convert the options to their types. Raises UsageError that names the option."""
    fields = _fields(options)
    for key in choice.options:
        if key not in fields:
            raise UsageError(f"{choice.kind} has no option {printable(key)!r}", hint=_meant(key, [*fields, _AS]))
    values: dict[str, Any] = {}
    for key, text in choice.options.items():
        info = fields[key]
        try:
            values[key] = msgspec.convert(text, info.type, strict=False)
        except ValueError as error:  # also covers msgspec's own error
            wanted = f"is not one of {_values(info.type)}" if get_origin(info.type) is Literal else _wanted(error)
            raise UsageError(f"{choice.kind}: {key}={printable(text)}: {wanted}") from error
    try:
        return msgspec.convert(values, options, strict=True)
    except ValueError as error:
        raise UsageError(
            f"{choice.kind}: {_wanted(error)}",
            hint=f"`telemetry plugins list --full` shows the options of each {noun}",
        ) from error


def options_of(options: type[Struct]) -> list[Option]:
    """Return the options of a struct as a person would write them."""
    return [
        Option(info.encode_name, _type_words(info.type), _default_words(info)) for info in _fields(options).values()
    ]


# --- helpers -----------------------------------------------------------------------------------------


def _options(kind: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in _PARTS.findall(text):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(
                f"{printable(part)!r} is not an option of {kind}",
                hint="write key=value, and `\\,` for a comma in a value",
            )
        if _SECRET.fullmatch(key):
            raise UsageError(
                f"{kind}: {printable(key)} is a secret; don't put it on a command line",
                hint=f"set it in the environment variable that {kind} reads",
            )
        if key in options:
            raise UsageError(f"{kind}: {printable(key)} is given twice")
        options[key] = re.sub(r"\\([\\,])", r"\1", value)
    return options


def _escaped(value: str) -> str:
    return re.sub(r"([\\,])", r"\\\1", value)


@cache
def _fields(options: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {info.encode_name: info for info in msgspec.structs.fields(options)}


def _meant(word: str, fields: Iterable[str]) -> str:
    return did_you_mean(word, fields) or f"its options: {', '.join(sorted(fields))}"


def _wanted(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _type_words(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _type_words(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return _values(kind, " or ")
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _values(kind: Any, between: str = ", ") -> str:
    return between.join(str(value) or "''" for value in get_args(kind))


def _default_words(info: msgspec.structs.FieldInfo) -> str:
    if info.default is not NODEFAULT:
        return _shown(info.default)
    if info.default_factory is not NODEFAULT:
        factory: Callable[[], Any] = info.default_factory
        return _shown(factory())
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | Mapping) else str(value)
