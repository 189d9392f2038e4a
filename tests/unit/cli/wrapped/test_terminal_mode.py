"""Tests of who has the terminal."""

from __future__ import annotations

import pytest

from telemetry.cli.wrapped.terminal_mode import PlainMode, open_mode
from telemetry.errors import UsageError
from telemetry.report.live_line import LinePart


def test_without_a_viewer_nothing_is_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """The command is an ordinary child, talk goes to stderr at once, and nobody is waited for."""
    with open_mode(tui=False) as stage:
        assert isinstance(stage, PlainMode)
        assert stage.launch is None
        stage.begin("/nowhere", {})
        stage.say("a word")
        stage.pass_by("a line\n")
        stage.show([LinePart("1:23")])  # stderr is no terminal: the first line comes after a while
        stage.over()
        stage.await_leave(patient=True)
    assert capsys.readouterr().err == "telemetry: a word\na line\n"


def test_a_viewer_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that can place characters, on both streams; what to do instead is said."""
    for term in ("dumb", "xterm"):
        monkeypatch.setenv("TERM", term)
        with pytest.raises(UsageError, match="--tui requires a terminal") as caught:
            open_mode(tui=True)
        assert "telemetry top" in caught.value.hint
