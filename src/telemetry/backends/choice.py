"""The parser of `--to`: kind of backend, options and name.

  KIND[:key=value,…]        jsonl:path=out.jsonl        wandb:project=mine,as=team

`as` names this writer among several of a kind. A comma in a value is written `\\,`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from telemetry import limits
from telemetry.backends.backend import GROUP, Backend, NotConfigured, missing
from telemetry.backends.registry import BUILT_IN
from telemetry.errors import UsageError
from telemetry.formatting import printable

_AS: Final = "as"
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.BACKEND_NAME_CHARS - 1}}}")
_PARTS: Final = re.compile(r"(?:\\.|[^\\,])+|\\", re.DOTALL)
_SECRET: Final = re.compile(r"(?i)(?:^|.*[_-])(?:api)?(?:key|token|password|passwd|secret)")
_HAS: Final = ("Options", "takes", "idempotent", "open", "write", "flush", "state", "close", "where")


@dataclass(frozen=True)
class BackendChoice:
    """A backend as the user requested it. Its options are unchecked until `check` or `make`."""

    name: str
    """Name of the writer, of its folder, and in snapshots."""
    kind: str
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the text that `parse` turns into this choice."""
        pairs = [*self.options.items(), *([] if self.name == self.kind else [(_AS, self.name)])]
        words = ",".join(f"{key}={_escaped(value)}" for key, value in pairs)
        return f"{self.kind}:{words}" if words else self.kind


@dataclass(frozen=True)
class Option:
    """An option of a backend, formatted for people."""

    name: str
    type: str
    default: str
    """Default as text; empty if the option is required."""


def parse(text: str) -> BackendChoice:
    """Parse `--to` without importing any backend. Raises UsageError for an unknown kind or a malformed option."""
    kind, colon, rest = text.partition(":")
    found = known()
    if kind not in found:
        close = get_close_matches(kind, found, n=1)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(found))}"
        raise UsageError(f"no backend is named {printable(kind)!r}", hint=hint)
    options = _options(kind, rest) if colon else {}
    name = options.pop(_AS, kind)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{printable(name)!r} is not a valid name for a writer",
            hint=f"use letters, digits, `.`, `_` and `-`, at most {limits.BACKEND_NAME_CHARS}",
        )
    return BackendChoice(name, kind, options)


def parse_all(texts: Sequence[str]) -> list[BackendChoice]:
    """Parse several texts and check their options. Raises UsageError, also for duplicate names and for too many."""
    choices = [parse(text) for text in texts]
    if len(choices) > limits.BACKENDS:
        raise UsageError(f"{len(choices)} backends are too many", hint=f"the limit is {limits.BACKENDS} per run")
    names = [choice.name for choice in choices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two writers are named {twice}", hint=f"rename one of them: {twice}:as=other")
    for choice in choices:
        check(choice)
    return choices


def unheeded(named: Iterable[str], choices: Sequence[BackendChoice]) -> list[str]:
    """Return messages about `[backends.values.NAME]` tables that match no writer of this run.

    A name that is another kind of backend is accepted, because it may be meant for another run.
    """
    names, kinds, found = {choice.name for choice in choices}, {choice.kind for choice in choices}, known()
    strange = [name for name in named if name not in names and name != "*" and (name in kinds or name not in found)]
    writers = printable(", ".join(sorted(names)))
    return [
        f"[backends.values.{printable(name)}] matches no writer; the writers are named {writers}"
        for name in strange
        if names
    ]


def check(choice: BackendChoice) -> None:
    """Check the options of a built-in backend.

    Other backends check theirs in their own process. Raises UsageError.
    """
    if choice.kind in BUILT_IN:
        try:
            _converted(choice, load(choice.kind))
        except NotConfigured as error:
            raise UsageError(error.message, hint=error.hint) from error


def known() -> dict[str, EntryPoint]:
    """Return all backends by name. Plugins can't replace built-in backends."""
    others = {point.name: point for point in entry_points(group=GROUP)}
    return others | {name: EntryPoint(name, ours.value, GROUP) for name, ours in BUILT_IN.items()}


def load(kind: str) -> type[Backend]:
    """Import the class of a known backend. Raises NotConfigured with the import error."""
    try:
        made = known()[kind].load()
    except (Exception, SystemExit) as error:
        raise NotConfigured(f"can't load the backend {kind}: {_words(error)}") from error
    lacks = [name for name in _HAS if not hasattr(made, name)]
    if lacks:
        raise NotConfigured(f"the backend {kind} is invalid: it lacks {', '.join(lacks)}")
    return cast(type[Backend], made)


def make(choice: BackendChoice, place: Path) -> Backend:
    """Create the backend without opening it. Raises NotConfigured."""
    cls = load(choice.kind)
    options = _converted(choice, cls)
    try:
        return cls(options, place)
    except NotConfigured:
        raise
    except ImportError as error:
        ours = BUILT_IN.get(choice.kind)
        if (
            ours is not None
            and error.name
            and error.name.split(".")[0] in {one.split(".")[0] for one in ours.needs}
        ):
            raise missing(error.name, ours.extra) from error
        raise NotConfigured(f"{choice.kind}: {_words(error)}") from error
    except Exception as error:
        raise NotConfigured(f"{choice.kind}: {_words(error)}") from error


def options_of(cls: type[Backend]) -> list[Option]:
    return [
        Option(info.encode_name, _type_words(info.type), _default_words(info))
        for info in _fields(cls.Options).values()
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


def _converted(choice: BackendChoice, cls: type[Backend]) -> Struct:
    """Convert options to their types. Raises NotConfigured that names the option."""
    fields = _fields(cls.Options)
    for key in choice.options:
        if key not in fields:
            raise NotConfigured(f"{choice.kind} has no option {printable(key)!r}", hint=_meant(key, [*fields, _AS]))
    values: dict[str, Any] = {}
    for key, text in choice.options.items():
        info = fields[key]
        try:
            values[key] = msgspec.convert(text, info.type, strict=False)
        except ValueError as error:  # also covers msgspec's own error
            wanted = f"is not one of {_values(info.type)}" if get_origin(info.type) is Literal else _wanted(error)
            raise NotConfigured(f"{choice.kind}: {key}={printable(text)}: {wanted}") from error
    try:
        return msgspec.convert(values, cls.Options, strict=True)
    except ValueError as error:
        raise NotConfigured(
            f"{choice.kind}: {_wanted(error)}", hint="`telemetry export --list` shows all options"
        ) from error


@cache
def _fields(options: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {info.encode_name: info for info in msgspec.structs.fields(options)}


def _meant(word: str, fields: Iterable[str]) -> str:
    close = get_close_matches(word, list(fields), n=1)
    return f"did you mean {close[0]}?" if close else f"its options: {', '.join(sorted(fields))}"


def _wanted(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _words(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _type_words(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _type_words(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return _values(kind, " or ")
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def _values(kind: Any, between: str = ", ") -> str:
    return between.join(str(one) or "''" for one in get_args(kind))


def _default_words(info: msgspec.structs.FieldInfo) -> str:
    if info.default is not NODEFAULT:
        return _shown(info.default)
    if info.default_factory is not NODEFAULT:
        made: Callable[[], Any] = info.default_factory
        return _shown(made())
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | Mapping) else str(value)
