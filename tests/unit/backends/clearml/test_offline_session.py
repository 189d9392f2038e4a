"""Tests of the beginning of an offline session. Tests with ClearML itself are in tests/backends."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from telemetry.backends.clearml import offline_session


def test_it_says_where_the_session_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line is the folder, whatever ClearML says before; nothing else is connected to the task."""
    asked: dict[str, Any] = {}

    class Task:
        @staticmethod
        def set_offline(offline: bool) -> None:
            asked["offline"] = offline

        @classmethod
        def init(cls, **options: Any) -> Task:
            asked.update(options)
            return cls()

        def get_offline_mode_folder(self) -> str:
            return "/there/offline-1"

        def close(self) -> None:
            print("ClearML Task: Offline session stored")

    module = ModuleType("clearml")
    module.Task = Task  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "clearml", module)
    offline_session.main("p", "n", ["a"])
    assert capsys.readouterr().out.rpartition("\n/")[2] == "there/offline-1\n"
    assert asked["offline"] is True
    assert (asked["project_name"], asked["task_name"], asked["tags"]) == ("p", "n", ["a"])
    for name in ("auto_connect_arg_parser", "auto_resource_monitoring", "auto_connect_streams"):
        assert asked[name] is False
