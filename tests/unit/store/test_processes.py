"""Processes of this host, by pid and start."""

from __future__ import annotations

import os

import pytest

from telemetry.store.processes import process_lives, start_of


def test_a_later_process_of_another_user_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user can't be signalled, but its start time tells whether it is the same."""
    pid = os.getpid()

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert process_lives(pid)
    assert process_lives(pid, start_of(pid))
    assert not process_lives(pid, start_of(pid) - 1)
