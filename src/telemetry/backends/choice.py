"""The backends by name, and the parser of `--to`: kind of backend, options and name.

  KIND[:key=value,…]        jsonl:path=out.jsonl        wandb:project=mine,as=team

`as` names this writer among several of a kind. A comma in a value is written `\\,`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from telemetry import limits
from telemetry.backends.backend import Backend, NotConfigured, missing
from telemetry.common.distribution import install_hint
from telemetry.common.formatting import printable
from telemetry.config.plugins import choice as choices
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import Choice
from telemetry.config.plugins.entry_points import Plugin, PluginError, is_installed
from telemetry.errors import UsageError, error_text

_NOUN: Final = "backend"
_HAS: Final = ("Options", "takes", "idempotent", "open", "write", "flush", "state", "close", "where")


def parse(text: str) -> Choice:
    """Parse `--to` without importing any backend. Raises UsageError for an unknown kind or a malformed option."""
    return choices.parse(text, noun=_NOUN, known=known())


def parse_all(texts: Sequence[str]) -> list[Choice]:
    """Parse several texts and check their options. Raises UsageError, also for duplicate names and for too many."""
    chosen = [parse(text) for text in texts]
    if len(chosen) > limits.BACKENDS:
        raise UsageError(f"{len(chosen)} backends are too many", hint=f"the limit is {limits.BACKENDS} per run")
    names = [choice.name for choice in chosen]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two writers are named {twice}", hint=f"rename one of them: {twice}:as=other")
    for choice in chosen:
        check(choice)
    return chosen


def unheeded(named: Iterable[str], chosen: Sequence[Choice]) -> list[str]:
    """Return messages about `[backends.values.NAME]` tables that match no writer of this run.

    A name that is another kind of backend is accepted, because it may be meant for another run.
    """
    names, kinds, all_kinds = {choice.name for choice in chosen}, {choice.kind for choice in chosen}, known()
    strange = [
        name for name in named if name not in names and name != "*" and (name in kinds or name not in all_kinds)
    ]
    writers = printable(", ".join(sorted(names)))
    return [
        f"[backends.values.{printable(name)}] matches no writer; the writers are named {writers}"
        for name in strange
        if names
    ]


def check(choice: Choice) -> None:
    """Check the options of a built-in backend, and that the library it needs is installed.

    Other backends check theirs in their own process. Raises UsageError.
    """
    if choice.kind in BUILT_IN:
        if modules := missing_modules(choice.kind):
            message = f"the backend {choice.kind} needs {' and '.join(modules)}, which is not installed"
            raise UsageError(message, hint=install_hint(BUILT_IN[choice.kind].extra))
        try:
            _converted(choice, load(choice.kind))
        except NotConfigured as error:
            raise UsageError(error.message, hint=error.hint) from error


def missing_modules(kind: str) -> list[str]:
    """Return the modules that a built-in backend needs and that are not installed."""
    return [module for module in BUILT_IN[kind].needs if not is_installed(module)]


def known() -> dict[str, Plugin]:
    """Return all backends by name. Plug-ins can't replace built-in backends."""
    return entry_points.plugins("backends", {name: ours.value for name, ours in BUILT_IN.items()})


def load(kind: str) -> type[Backend]:
    """Import the class of a known backend. Raises NotConfigured with the package, the cause and the remedy."""
    plugin = known()[kind]
    try:
        cls = entry_points.load(plugin)
        absent = [name for name in _HAS if not hasattr(cls, name)]
        if absent:
            raise entry_points.broken(plugin, f"it lacks {', '.join(absent)}")
    except PluginError as error:
        raise NotConfigured(error.message, hint=error.hint) from error
    return cast(type[Backend], cls)


def make(choice: Choice, directory: Path) -> Backend:
    """Create the backend without opening it. Raises NotConfigured."""
    cls = load(choice.kind)
    options = _converted(choice, cls)
    try:
        return cls(options, directory)
    except NotConfigured:
        raise
    except ImportError as error:
        ours = BUILT_IN.get(choice.kind)
        if (
            ours is not None
            and error.name
            and error.name.split(".")[0] in {module.split(".")[0] for module in ours.needs}
        ):
            raise missing(error.name, ours.extra) from error
        raise NotConfigured(f"{choice.kind}: {printable(error_text(error))}") from error
    except Exception as error:
        raise NotConfigured(f"{choice.kind}: {printable(error_text(error))}") from error


def _converted(choice: Choice, cls: type[Backend]) -> Struct:
    """Convert options to their types. Raises NotConfigured that names the option."""
    try:
        return choices.convert(choice, cls.Options, noun=_NOUN)
    except UsageError as error:
        raise NotConfigured(error.message, hint=error.hint) from error
