"""Small plots of dots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tui.model.scenes import text, texts

from telemetry.tui.model.step_grid import Layer, dots

HEIGHTS = st.lists(st.none() | st.floats(-0.5, 1.5), max_size=40)


def test_a_line_has_no_holes() -> None:
    """Steep parts fill the rows between two columns."""
    assert texts(dots([Layer("accent", [0.0, 1.0])], 1, 2)) == ["⣸", "⡇"]
    assert texts(dots([Layer("accent", [0.0, 0.0, 0.0, 0.0])], 2, 1)) == ["⣀⣀"]
    assert texts(dots([Layer("accent", [1.0, 1.0, 1.0, 1.0])], 2, 1)) == ["⠉⠉"]


def test_what_is_not_known_is_a_gap() -> None:
    """An unknown value is a gap, and the line is not drawn across it."""
    assert texts(dots([Layer("accent", [0.0, None, None, 1.0])], 2, 1)) == ["⡀⠈"]
    assert texts(dots([Layer("accent", [None, None])], 1, 1)) == [""]


def test_a_band_is_lighter_than_a_line() -> None:
    """Every other dot, between its edges."""
    (line,) = dots([Layer("dim", [0.0] * 4, [1.0] * 4)], 2, 1)
    assert line[0].tone == "dim"
    assert all(0 < (ord(char) - 0x2800).bit_count() < 8 for char in text(line))
    assert texts(dots([Layer("dim", [0.0, None], [None, 1.0])], 1, 1)) == [""]


def test_the_frontmost_layer_owns_its_cells() -> None:
    """A cell has one colour; where the line is not, the band behind it stays."""
    layers = [Layer("dim", [0.0] * 4, [1.0] * 4), Layer("accent", [1.0, 1.0, None, None])]
    (line,) = dots(layers, 2, 1)
    assert (line[0].text, line[0].tone) == ("⠉", "accent")
    assert line[1].tone == "dim"


@given(HEIGHTS, HEIGHTS, st.integers(1, 20), st.integers(1, 6))
def test_any_plot_has_its_size(
    lows: list[float | None], highs: list[float | None], width: int, height: int
) -> None:
    """A plot has its size, whatever the heights and however many."""
    drawn = dots([Layer("dim", lows, highs), Layer("accent", lows)], width, height)
    assert len(drawn) == height
    assert all(len(text(line)) == width for line in drawn)
