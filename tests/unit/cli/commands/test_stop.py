"""Stopping what has ended already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from telemetry.cli.main import main
from telemetry.store.run_directory import RunDirectory

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_stop_of_a_finished_run(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to stop, and the message says so."""
    make_run("job", "aaaa1111")
    assert main(["stop", "latest"]) == 1
    assert "has ended" in capsys.readouterr().err
