"""Tests of the processes of a pair, without a process."""

from __future__ import annotations

import os
import signal

import pytest

from telemetry.cli.ab.children import Children, EndedChild


def test_a_signal_without_a_name_is_a_number() -> None:
    """Real-time signals have no name."""
    assert EndedChild(wall_s=1.0, cpu_s=0.0, code=-40).failure == "ended by signal 40"
    assert EndedChild(wall_s=1.0, cpu_s=0.0, code=-9).failure == "ended by SIGKILL"


@pytest.mark.parametrize("error", [PermissionError, ProcessLookupError])
def test_a_process_that_can_not_be_signalled(monkeypatch: pytest.MonkeyPatch, error: type[OSError]) -> None:
    """A process of another user, or one that has just ended, does not keep the signal from the others."""
    pids: list[int] = []

    def refuse(pid: int, _number: int) -> None:
        pids.append(pid)
        raise error

    children = Children()
    monkeypatch.setattr(children, "_running", dict.fromkeys((7, 8)))
    monkeypatch.setattr(os, "killpg", refuse)
    children._end(signal.SIGTERM, None)
    assert (pids, children.ended_by) == ([7, 8], signal.SIGTERM)
