"""Where words go, how wide, and in which colour."""

from __future__ import annotations

import io

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
