"""Tests of where messages and results are written, how wide they are, and in which colour."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from telemetry.cli import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "0"}, False),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(stream: io.StringIO, environ: dict[str, str], wanted: bool) -> None:
    """Colour is for terminals that can show it, unless the user says otherwise; NO_COLOR has the last word."""
    assert console.color(stream, environ) is wanted


def test_width_of_what_is_no_terminal() -> None:
    """A pipe gets a fixed generous width, or COLUMNS if that is a number."""
    assert console.width(io.StringIO(), {}) == console.PIPED_WIDTH
    assert console.width(io.StringIO(), {"COLUMNS": "60"}) == 60
    assert console.width(io.StringIO(), {"COLUMNS": "wide"}) == console.PIPED_WIDTH


def test_talk_and_results_go_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Talk is on stderr, results on stdout, JSON strict."""
    console.say("hello")
    console.write_json({"a": float("nan")})
    assert capsys.readouterr() == ('{\n  "a": null\n}\n', "telemetry: hello\n")


BROKEN = """
import os, sys
from telemetry.cli import console
reader, writer = os.pipe()
os.dup2(writer, 2)
os.close(reader)
console.say("nobody hears this")
console.say("nor this")
print("on stdout")
"""
CLOSED = """
import os, subprocess, sys
for fd in (0, 1, 2):
    os.close(fd)
sys.stdin = sys.stdout = sys.stderr = None
from telemetry.cli import console
console.complete_streams()
console.complete_streams()
console.say("x")
print("y", flush=True)
made = os.open(os.devnull, os.O_RDONLY)
child = subprocess.run([sys.executable, "-c", "import os; [os.fstat(fd) for fd in (0, 1, 2)]"])
raise SystemExit(10 * child.returncode + (0 if made > 2 else 1))
"""


def test_talk_that_nobody_hears_is_no_error() -> None:
    """The reader of stderr has gone: the program goes on, and its exit code is its own."""
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "on stdout\n")


def test_closed_streams_are_filled() -> None:
    """Closed streams get a file each, so no other file takes descriptors 0 to 2, here or in children.

    Results and messages vanish.
    """
    done = subprocess.run([sys.executable, "-c", CLOSED], timeout=60, check=False)
    assert done.returncode == 0
