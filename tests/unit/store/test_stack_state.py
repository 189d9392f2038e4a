"""The state of this user's stack, as programs that export to it read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.store.processes import start_of
from telemetry.store.stack_state import StackState, default_directory, live_stack, write_state


def test_a_stack_is_there_while_its_keeper_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged state and the stack of a dead keeper are none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert live_stack() is None
    folder = default_directory()
    assert folder is not None
    folder.mkdir(parents=True)
    started = start_of(os.getpid())
    state = StackState(keeper_pid=os.getpid(), keeper_started=started, targets="t", log="l", otlp="http://h:1")
    write_state(folder, state)
    assert live_stack() == state
    write_state(folder, StackState(keeper_pid=os.getpid(), keeper_started=started + 1, targets="t", log="l"))
    assert live_stack() is None
    (folder / "state.json").write_text("{")
    assert live_stack() is None
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    assert live_stack() is None
