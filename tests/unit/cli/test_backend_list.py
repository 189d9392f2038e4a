"""Backends as a list for people and programs."""

from __future__ import annotations

import json

import pytest

from telemetry.cli import backend_list
from telemetry.cli.backend_list import show
from telemetry.config.plugins.backends import BUILT_IN, BuiltIn

JSONL = {
    "name": "jsonl",
    "missing": "",
    "options": [{"name": "path", "type": "str", "default": "''"}],
    "no_place": ["live"],
}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_list, "known", lambda: {"jsonl": None, "console": None})


def test_options_have_their_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """Options have types and defaults. Bounds are not in the list, as a value beyond one gets an error."""
    assert show(as_json=False) == 0
    assert capsys.readouterr().out == (
        "console\n"
        "    every_s: float = 2.0\n"
        "    values: int = 8\n"
        "    does not support live, table, histogram, span\n"
        "jsonl\n"
        "    path: str = ''\n"
        "    does not support live\n"
    )
    assert show(as_json=True) == 0
    assert json.loads(capsys.readouterr().out)[1] == JSONL


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is not installed, and a backend that can't be loaded."""
    ours = BuiltIn(BUILT_IN["jsonl"].value, "some", ("no_such_library.inside", "json"))
    monkeypatch.setitem(BUILT_IN, "jsonl", ours)
    monkeypatch.setitem(BUILT_IN, "console", BuiltIn("no_such_module:Class"))
    assert show(as_json=False) == 0
    out = capsys.readouterr().out
    assert "jsonl: needs no_such_library.inside: pip install 'telemetryd[some]'\n" in out
    assert out.startswith("console: can't load the backend console: package telemetryd ")
