"""The settings for people and editors: one line each, TOML, and JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from telemetry.config import notify_urls
from telemetry.config.load import FIELDS, Loaded, default_of, env_name
from telemetry.config.schema import Config

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Setting(Struct, kw_only=True, frozen=True):
    """A setting with its value and origin."""

    key: str
    value: Any
    origin: str
    default: Any
    environment: str
    description: str


def settings(loaded: Loaded) -> list[Setting]:
    """Return all settings in the order of the schema."""
    return [_setting(key, info, loaded) for key, info in FIELDS.items()]


def without_secrets(config: Config) -> dict[str, Any]:
    """Return the settings as plain values, with receivers of notifications and redaction patterns masked.

    A pattern may spell out what it is to hide.
    """
    plain: dict[str, Any] = msgspec.to_builtins(config)
    plain["notify"]["urls"] = [notify_urls.masked(url) for url in config.notify.urls]
    plain["redact"]["patterns"] = [f"{text.partition('=')[0]}=***" for text in config.redact.patterns]
    return plain


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `telemetry.toml`."""
    return {"$schema": JSON_SCHEMA_DIALECT, "title": "telemetry.toml", **msgspec.json.schema(Config)}


def to_toml(loaded: Loaded) -> str:
    """Return the current settings as a valid `telemetry.toml`, each with its origin in a comment."""
    lines: list[str] = []
    section = ""
    for item in settings(loaded):
        head, name = item.key.split(".")
        if head != section:
            lines += ["", f"[{head}]"] if section else [f"[{head}]"]
            section = head
        lines.append(f"{f'{name} = {_toml_value(item.value)}':<44} # {item.origin}")
    return "\n".join(lines)


def _setting(key: str, info: FieldInfo, loaded: Loaded) -> Setting:
    section, name = key.split(".")
    value = getattr(getattr(loaded.config, section), name)
    return Setting(
        key=key,
        value=tuple(map(notify_urls.masked, value)) if key == notify_urls.KEY else value,
        origin=loaded.origins[key],
        default=default_of(info),
        environment=env_name(key),
        description=_description(info),
    )


def _description(info: FieldInfo) -> str:
    for meta in getattr(info.type, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    return ""


def _toml_value(value: object) -> str:
    """Return the value in TOML.

    TOML spells strings, numbers, booleans and lists like JSON. Tables are written inline, without default values.
    """
    if isinstance(value, Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{_toml_value(key)} = {_toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
