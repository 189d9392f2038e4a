"""Tones can be told apart and read, whatever the terminal can show."""

from __future__ import annotations

import pytest
from rich.color import ColorType
from rich.style import Style
from tests.unit.tui.widgets.showing import Showing
from textual.theme import BUILTIN_THEMES

from telemetry.tui.theme import Palette, contrast, fitting_theme, palette
from telemetry.tui.widgets.grid_view import GridView

COLOURED = [name for name, theme in BUILTIN_THEMES.items() if not theme.ansi]
ANSI = [name for name, theme in BUILTIN_THEMES.items() if theme.ansi]
TONES = {"plain", "dim", "strong", "accent", "good", "warn", "bad"}


async def palette_in(theme: str) -> Palette:
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=(40, 8)) as pilot:
        app.theme = theme
        await pilot.pause()
        return palette(view)


def looks(styles: dict[str, Style]) -> set[str]:
    return {str(style) for style in styles.values()}


@pytest.mark.parametrize("theme", COLOURED)
async def test_all_tones_can_be_read_in_every_theme(theme: str) -> None:
    """All tones can be read in every theme, also under the cursor.

    The contrast is what text needs, or that of plain text, and for dim tones less.
    """
    paint = await palette_in(theme)
    for tones in (paint.text, paint.cursor, paint.resting):
        plain = contrast(tones["plain"].color, tones["plain"].bgcolor)
        for tone, style in tones.items():
            least = 3.0 if tone == "dim" else 4.5
            assert contrast(style.color, style.bgcolor) >= min(least, plain), tone
    for style in paint.traces:
        assert contrast(style.color, style.bgcolor) >= 4.5


@pytest.mark.parametrize("theme", [*COLOURED, *ANSI])
async def test_tones_and_the_cursor_look_different(theme: str) -> None:
    """Each says something of its own, in dark themes and light ones."""
    paint = await palette_in(theme)
    assert set(paint.text) == set(paint.cursor) == set(paint.resting) == TONES
    assert len(looks(dict(paint.text))) == len(TONES)
    assert len({str(tones["plain"]) for tones in (paint.text, paint.cursor, paint.resting)}) == 3
    assert len(set(map(str, paint.traces))) == len(paint.traces) > 2
    assert not paint.colourless


@pytest.mark.parametrize("theme", ANSI)
async def test_sixteen_colours_are_the_terminals_own(theme: str) -> None:
    """Sixteen colours are the terminal's own, so no style asks for one that it would have to guess."""
    paint = await palette_in(theme)
    styles = [*paint.text.values(), *paint.cursor.values(), *paint.resting.values(), *paint.traces, paint.head]
    colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
    assert {colour.type for colour in colours} <= {ColorType.DEFAULT, ColorType.STANDARD}
    assert all(style.reverse for style in paint.cursor.values())


async def test_without_colour_what_matters_still_stands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves bold, underlined, dim and reversed, and nothing else."""
    monkeypatch.setenv("NO_COLOR", "1")
    paint = await palette_in("textual-dark")
    styles = [*paint.text.values(), *paint.cursor.values(), *paint.resting.values(), *paint.traces, paint.head]
    assert len({(style.color, style.bgcolor) for style in styles}) == 1
    assert len({str(paint.text[tone]) for tone in ("plain", "dim", "warn", "bad")}) == 4
    assert all(style.reverse for style in paint.cursor.values())
    assert paint.colourless


@pytest.mark.parametrize(
    ("wanted", "system", "theme"),
    [
        ("nord", "truecolor", "nord"),
        ("textual-light", "256", "textual-light"),
        ("textual-dark", "standard", "ansi-dark"),
        ("textual-light", "standard", "ansi-light"),
        ("solarized-light", "windows", "ansi-light"),
        ("ansi-light", None, "ansi-light"),
        ("somebody's own", None, "ansi-dark"),
    ],
)
def test_a_terminal_with_few_colours_keeps_its_own(wanted: str, system: str | None, theme: str) -> None:
    """A theme of millions of colours, rounded to sixteen, can't be read; light stays light."""
    assert fitting_theme(wanted, system) == theme
