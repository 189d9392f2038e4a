"""Loading of the settings from all sources into one frozen `Config`, with the origin of each.

    flag > TELEMETRY_SECTION__KEY > telemetry.toml > [tool.telemetry] in pyproject.toml > user config > default

The two project files are read from the working directory only. A file in a parent folder, where other users may be
able to write, never changes a run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from telemetry.config import notify_urls
from telemetry.config.schema import BackendValues, Config
from telemetry.errors import ConfigError, UsageError

ENV_PREFIX: Final = "TELEMETRY_"
ENV_NEST: Final = "__"
DEFAULT: Final = "default"
FLAG: Final = "flag"
_SHOWN_CHARS: Final = 200
_SHOWN_LEVELS: Final = 20
_PLUGINS: Final = ("backends.to", "collect.names")
_PATTERNS: Final = "redact.patterns"
_VALUES: Final = "backends.values"
_LINE_DOTS: Final = 1_000  # the parser's memory grows with the square of the parts of a key

_SECTIONS: Final[dict[str, type[Struct]]] = {info.name: info.type for info in msgspec.structs.fields(Config)}


def _all_fields() -> dict[str, FieldInfo]:
    return {
        f"{section}.{info.name}": info
        for section, struct in _SECTIONS.items()
        for info in msgspec.structs.fields(struct)
    }


FIELDS: Final[dict[str, FieldInfo]] = _all_fields()
"""Dotted key → its definition, in the order of the schema."""


class Loaded(NamedTuple):
    """The current settings, and the origin of each by its dotted key."""

    config: Config
    origins: dict[str, str]


class SettingsFile(NamedTuple):
    """A file for settings, which may not exist."""

    path: Path
    table: str
    """Dotted name of the table with the settings; empty: the whole file."""
    origin: str


class _Entry(NamedTuple):
    key: str
    value: object
    origin: str
    spelled: str
    """Key as the user wrote it."""


def load(
    flags: Mapping[str, object] | None = None,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    origin: str = FLAG,
) -> Loaded:
    """Load the settings from all sources.

    `flags` maps dotted keys to values; None means that the flag was not given. `origin` names their source.

    Reads at most three small files. Raises ConfigError, which names all problems at once.
    """
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    values: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    origins = dict.fromkeys(FIELDS, DEFAULT)
    for entry in _entries(flags or {}, origin, cwd or Path(), environ, problems):
        _admit(entry, values, origins, problems)
    config = msgspec.convert(values, Config)
    problems.extend(_contradictions(config))
    if problems:
        count = f"{len(problems)} problems in the configuration: " if len(problems) > 1 else ""
        raise ConfigError(count + "; ".join(problems), hint="`telemetry config schema` shows all keys")
    return Loaded(config, origins)


def places(cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> list[SettingsFile]:
    """Return the files that are read, in ascending priority."""
    environ = os.environ if environ is None else environ
    cwd = cwd or Path()
    user = user_config_path(environ)
    user_files = [SettingsFile(user, "", f"user config {user}")] if user else []
    return [
        *user_files,
        SettingsFile(cwd / "pyproject.toml", "tool.telemetry", "pyproject.toml"),
        SettingsFile(cwd / "telemetry.toml", "", "telemetry.toml"),
    ]


def user_config_path(environ: Mapping[str, str]) -> Path | None:
    """Return `telemetry/config.toml` under XDG_CONFIG_HOME, else under ~/.config; None without a home."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "telemetry" / "config.toml"
    home = environ.get("HOME", "")
    return Path(home) / ".config" / "telemetry" / "config.toml" if home else None


def default_of(info: FieldInfo) -> Any:
    """Return the default of a setting. Tables are created anew."""
    return info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()


def env_name(key: str) -> str:
    """Return the name of an environment variable: `emit.flush_ms` → `TELEMETRY_EMIT__FLUSH_MS`."""
    return ENV_PREFIX + key.upper().replace(".", ENV_NEST)


def closest(word: str, choices: Collection[str]) -> str:
    """Return the known word that was probably meant, or an empty text."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, choices, n=1, cutoff=0.6)), "")


def _entries(
    flags: Mapping[str, object], origin: str, cwd: Path, environ: Mapping[str, str], problems: list[str]
) -> Iterator[_Entry]:
    """Yield every given value, in ascending priority."""
    for file in places(cwd, environ):
        yield from _from_file(file, problems)
    for name, text in sorted(environ.items()):
        if name.startswith(ENV_PREFIX) and ENV_NEST in name and text:
            key = name.removeprefix(ENV_PREFIX).lower().replace(ENV_NEST, ".")
            yield _Entry(key, text, f"environment {name}", name)
    for key, value in flags.items():
        if value is not None:
            yield _Entry(key, value, origin, key)


def _from_file(file: SettingsFile, problems: list[str]) -> Iterator[_Entry]:
    document = _read_toml(file.path, problems)
    for part in file.table.split(".") if file.table else ():
        document = document.get(part, {}) if isinstance(document, dict) else {}
    if not isinstance(document, dict):
        problems.append(f"[{file.table}] in {file.path} is not a table")
        return
    for section, table in document.items():
        if section not in _SECTIONS:
            problems.append(f"unknown section {section!r} in {file.path}{_question(closest(section, _SECTIONS))}")
        elif not isinstance(table, dict):
            problems.append(f"{section!r} in {file.path} must be a table, not {_shown(table)}")
        else:
            for key, value in table.items():
                yield _Entry(f"{section}.{key}", value, file.origin, f"{section}.{key}")


def _read_toml(path: Path, problems: list[str]) -> Any:
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        problems.append(f"can't read {path}: {error.strerror}")
        return {}
    import tomllib

    for number, line in enumerate(text.split(b"\n"), 1):
        if line.count(b".") > _LINE_DOTS:
            problems.append(f"{path}: line {number} has more than {_LINE_DOTS:,} dots")
            return {}
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # it also passes on errors of `int` about thousands of digits
        problems.append(f"{path} is not valid TOML: {error}")
        return {}


def _admit(entry: _Entry, values: dict[str, dict[str, Any]], origins: dict[str, str], problems: list[str]) -> None:
    info = FIELDS.get(entry.key)
    if info is None:
        problems.append(_unknown(entry))
        return
    unknown = list(_unknown_inside(entry))
    if unknown:
        problems.extend(unknown)
        return
    try:
        value = _convert(_split(entry), info)
    except ValueError as error:
        shown = "***" if entry.key == notify_urls.KEY else _shown(entry.value)
        problems.append(f"{entry.key} = {shown} ({entry.origin}): {_wanted(error, info)}")
        return
    section, name = entry.key.split(".")
    values[section][name] = value
    origins[entry.key] = entry.origin


def _convert(value: object, info: FieldInfo) -> Any:
    """Convert a value to the type of its field. Raises ValueError (msgspec's own error is one)."""
    if isinstance(default_of(info), tuple):
        value = _as_list_of_text(value)
    elif isinstance(default_of(info), dict) and isinstance(value, str):
        value = _as_table_of_text(value)
    converted = msgspec.convert(value, info.type, strict=not isinstance(value, str))
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError("expected a finite number")
    return converted


def _split(entry: _Entry) -> object:
    """Split a list of backends, collectors or receivers of notifications from the environment at commas.

    A piece that is not `NAME` or `NAME:…` belongs to the one before it. Redaction patterns stand one on a line.
    """
    if entry.key == _PATTERNS and isinstance(entry.value, str):
        return [line for line in entry.value.splitlines() if line.strip()]
    if entry.key == notify_urls.KEY and isinstance(entry.value, str):
        return notify_urls.split(entry.value)
    if entry.key not in _PLUGINS or not isinstance(entry.value, str):
        return entry.value
    pieces: list[str] = []
    for part in entry.value.split(","):
        head, equals, _ = part.partition("=")
        goes_on = bool(pieces) and ((bool(equals) and ":" not in head) or pieces[-1].endswith("\\"))
        if goes_on:
            pieces[-1] += f",{part}"
        elif part.strip():
            pieces.append(part)
    return [text.strip() for text in pieces]


def _unknown_inside(entry: _Entry) -> Iterator[str]:
    """Yield messages about unknown keys in tables inside a table."""
    if entry.key != _VALUES or not isinstance(entry.value, dict):
        return
    for name, table in entry.value.items():
        for key in table if isinstance(table, dict) else ():
            if key not in BackendValues.__struct_fields__:
                meant = closest(key, BackendValues.__struct_fields__)
                yield f"unknown key {_VALUES}.{name}.{key} ({entry.origin}){_question(meant)}"


def _shown(value: object) -> str:
    """Return the value as Python writes it, shortened to a line."""
    if _is_deep(value):  # the depth limit of `repr` depends on the version of Python
        return "a value of many levels"
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _is_deep(value: object) -> bool:
    """Return whether lists and tables are nested deeper than a line shows."""
    level = [value]
    for _ in range(_SHOWN_LEVELS):
        inner = [
            item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)
        ]
        level = [item for items in inner for item in items]
    return bool(level)


def _unknown(entry: _Entry) -> str:
    meant = closest(entry.key, FIELDS)
    if entry.spelled == entry.key:
        return f"unknown key {entry.key} ({entry.origin}){_question(meant)}"
    return f"unknown environment variable {entry.spelled}{_question(meant and env_name(meant))}"


def _question(meant: str) -> str:
    return f", did you mean {meant}?" if meant else ""


def _wanted(error: ValueError, info: FieldInfo) -> str:
    text = str(error)
    kind = get_args(info.type)[0] if get_origin(info.type) is Annotated else info.type
    if get_origin(kind) is Literal:
        return f"expected {' or '.join(map(repr, get_args(kind)))}"
    if "matching regex" in text:
        return 'expected percentiles above 0 and up to 100, such as "50" or "99.9"'
    return text[:1].lower() + text[1:]


def _as_list_of_text(value: object) -> object:
    """Convert a value to a list of texts. Lists are comma-separated in the environment; numbers become text."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return [_number_text(item) if isinstance(item, int | float) else item for item in value]
    return value


def _as_table_of_text(text: str) -> dict[str, str]:
    """Parse a table: comma-separated `name=value` in the environment. Raises ValueError."""
    table: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or name in table:
            raise ValueError(f"expected `name=value,…` with each name once, got {part.strip()!r}")
        table[name] = value
    return table


def _number_text(number: int | float) -> str:
    return repr(number).removesuffix(".0")


def _contradictions(config: Config) -> Iterator[str]:
    if config.journal.cap_bytes < config.journal.segment_bytes:
        yield (
            f"journal.cap_bytes = {config.journal.cap_bytes} is less than "
            f"journal.segment_bytes = {config.journal.segment_bytes}"
        )
    if config.security.curve == "always" and config.transport.insecure:
        yield "security.curve = 'always' conflicts with transport.insecure"
    if config.redact.patterns:
        yield from _wrong_patterns(config.redact.patterns)
    if len(set(config.run.percentiles)) < len(config.run.percentiles):
        yield f"run.percentiles = {list(config.run.percentiles)} contains a duplicate"


def _wrong_patterns(patterns: Sequence[str]) -> Iterator[str]:
    from telemetry.redaction.patterns import check_patterns

    try:
        check_patterns(patterns)
    except UsageError as error:
        yield f"redact.patterns: {error}"
