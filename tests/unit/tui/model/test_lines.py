"""Pieces of text find room, or go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tui.model.scenes import text, texts

from telemetry.tui.model.grid import Cell, Piece, apart, cut, elided, fitted, taken, width_of, wrapped


def test_long_text_ends_with_an_ellipsis() -> None:
    """Long text ends with an ellipsis in the width it is given, also if characters take two columns."""
    assert elided("latency", 7) == "latency"
    assert elided("latency", 5) == "late…"
    assert elided("遅延時間", 6) == "遅延…"
    assert elided("latency", 0) == ""


def test_what_matters_least_goes_first() -> None:
    """Pieces leave by descending `keep`, those with 0 never; empty ones are not there."""
    pieces = [Piece("state"), Piece("cost", keep=2), Piece(""), Piece("producers", keep=1)]
    assert text(fitted(pieces, 80)) == "state · cost · producers"
    assert taken([piece for piece in pieces if piece.text]) == len("state · cost · producers")
    assert text(fitted(pieces, 20)) == "state · producers"
    assert text(fitted(pieces, 8)) == "state"
    assert text(fitted(pieces, 3)) == "st…"
    assert fitted([], 10) == ()


@given(
    st.lists(st.builds(Piece, st.text("ab 遅", max_size=9), keep=st.integers(0, 3)), max_size=5), st.integers(0, 40)
)
def test_no_line_is_wider_than_it_may_be(pieces: list[Piece], width: int) -> None:
    """A fitted line is no wider than it may be, whatever its pieces."""
    assert width_of(fitted(pieces, width)) <= width


def test_two_ends_of_a_line() -> None:
    """The right end stands at the right edge, or yields."""
    left, right = (Cell("left"),), (Cell("right"),)
    assert text(apart(left, right, 12)) == "left   right"
    assert text(apart(left, right, 9)) == "left"
    assert text(cut((Cell("ab"), Cell("cd")), 3)) == "ab…"


def test_long_words_of_warning_wrap() -> None:
    """Lines after the first are indented."""
    assert texts(wrapped("one two three four", "warn", 10)) == ["one two", "  three", "  four"]


def test_without_any_room_nothing_fits() -> None:
    """Nor does a width below zero matter."""
    assert fitted([Piece("a", keep=1), Piece("b", keep=2)], -20) == ()
