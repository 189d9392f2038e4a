"""Tests that the descriptions of the settings for people and editors agree with the loader."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jsonschema
import pytest

from telemetry.config import load
from telemetry.config.describe import json_schema, settings, to_toml
from telemetry.config.load import FIELDS


def test_every_setting_is_described(tmp_path: Path) -> None:
    """Every key has a sentence on its meaning."""
    described = settings(load(cwd=tmp_path, environ={}))
    assert [item.key for item in described] == list(FIELDS)
    assert all(item.description.endswith(".") for item in described)


def test_shown_toml_can_be_read_back(tmp_path: Path) -> None:
    """The output of `config show` is a telemetry.toml that means the same, and passes the published schema."""
    odd = {"run.dir": 'a "b" \\ é', "run.fallback_dirs": ["/x", "/y"], "tui.keys": {"figures": "f", "a.b": '"'}}
    odd["backends.values"] = {"*": {"every_s": 2}, "a b": {"rename": {"a*": "b*"}, "include": ["x"]}}
    loaded = load(odd, cwd=tmp_path, environ={})
    text = to_toml(loaded)
    (tmp_path / "telemetry.toml").write_text(text)
    again = load(cwd=tmp_path, environ={})
    assert again.config == loaded.config
    assert "# flag" in text
    jsonschema.validate(tomllib.loads(text), json_schema())


def test_schema_refuses_what_the_loader_refuses() -> None:
    """Unknown keys and values out of range fail the JSON Schema too."""
    for document in (
        {"run": {"refesh_hz": 1}},
        {"run": {"refresh_hz": 0}},
        {"emit": {"policy": "wait"}},
        {"tui": {"keys": {"figures": ""}}},
        {"x": {}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, json_schema())
