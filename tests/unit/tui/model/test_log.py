"""Tests of the log: warnings, marks and output of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.model.scenes import scene, texts

from telemetry.tui.model.log import log, plain_text
from telemetry.tui.model.scene import Scene
from telemetry.wire.snapshot import Accounting, CommandFacts


def test_warnings_then_marks_then_output() -> None:
    """The end of the output is the newest of all, and the last line."""
    account = Accounting(
        dropped_by_producer={"buffer_full": 1_234}, bad_frames={"wrong_topic": 2}, missing=3, waiting=4
    )
    shown = scene(
        warnings=["the disk is full"],
        accounting=account,
        command=CommandFacts(argv=["python", "bench it.py"]),
    )
    assert texts(log(replace(shown, output=("one", "\x1b[32mtwo\x1b[0m")))) == [
        "Warnings",
        "1,234 events lost, buffer_full  the producer's buffer was full",
        "2 frames refused, wrong_topic  sent under another topic",
        "3 events missing  sent, but never arrived",
        "4 events waiting  no definition has arrived for their id",
        "the disk is full",
        "",
        "Marks, UTC",
        "12:00:01.000  load begins",
        "",
        "Output of python 'bench it.py', still running",
        "one",
        "two",
    ]


def test_nothing_was_said() -> None:
    """The log has a text of its own without a run, and in a quiet one."""
    assert texts(log(Scene())) == ["no messages yet"]
    assert texts(log(scene(marks=[]))) == ["no messages yet"]
    assert texts(log(scene(marks=[], state="COMPLETE"))) == ["the run has no messages"]


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;an unfinished title", ""),
        ("\x1b(Bset\x1b7", "set"),
        ("a\tb", "a       b"),
        ("bell\x07\r\n", r"bell\x07"),
        ("\u202eevil", r"\u202eevil"),
        ("[not markup]", "[not markup]"),
    ],
)
def test_output_has_no_escape_sequences(line: str, plain: str) -> None:
    """Output has no escape sequences, so that it can't colour, move, or rename anything here."""
    assert plain_text(line) == plain


def test_endless_lines_are_cut() -> None:
    """A progress bar without line ends is no reason to be slow."""
    assert len(plain_text("\x1b[0m" * 1_000_000)) <= 2_000
    assert len(plain_text("x" * 1_000_000)) == 2_000


def test_trouble_with_the_connection_stands_first() -> None:
    """Trouble with the connection stands first and in full, as it has what can be done about it."""
    said = texts(log(replace(scene(), trouble="gone; `telemetry recover runs/a` makes a result")))
    assert said[:2] == ["Connection", "gone; `telemetry recover runs/a` makes a result"]
