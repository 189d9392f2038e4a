"""What each tone looks like: with any Textual theme, in 16 colours, and without colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rich.color import Color as RichColor
from rich.color_triplet import ColorTriplet
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget

from telemetry.tui.model.grid import Tone

Tones = Mapping[Tone, Style]

_VARIABLES: Final = ("text-primary", "text-secondary", "text-success", "text-warning", "text-error", "primary")
_DIM: Final = 0.4
_HEAD: Final = 0.08
_CURSOR: Final = 0.3
_RESTING: Final = 0.15
"""How far towards the other colour: less can't be told from the background, more hides the tones."""
_CONTRAST: Final = 4.5
_DIM_CONTRAST: Final = 3.0
"""Least ratios by WCAG 2: of text, and of what one need not read."""
_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class Palette:
    """Complete styles, on the background of the widget they were asked for."""

    text: Tones
    cursor: Tones
    """Of the row that the keyboard acts on."""
    resting: Tones
    """Of that row while another widget has the keyboard."""
    head: Style
    traces: tuple[Style, ...]
    """Of lines in a plot that have no tone of their own, in turn."""
    colourless: bool
    """What differs only by colour must differ by something else."""


def palette(widget: Widget) -> Palette:
    """The styles for one painting of this widget; ask again for the next one, for the theme may change."""
    app = widget.app
    known = tuple(app.theme_variables.get(name, "") for name in _VARIABLES)
    return _mixed(widget.rich_style, known, app.native_ansi_color, app.current_theme.dark, app.no_color)


def fitting_theme(wanted: str, colour_system: str | None) -> str:
    """The wanted Textual theme, or where the terminal has 16 colours or none, the one that uses the terminal's own.

    `colour_system` is what rich calls it: `truecolor`, `256`, `standard`, `windows`; None without colour."""
    if colour_system in ("truecolor", "256"):
        return wanted
    theme = BUILTIN_THEMES.get(wanted)
    return "ansi-dark" if theme is None or theme.dark else "ansi-light"


# A widget in one theme needs one; so this holds some screens of widgets in some themes.
@lru_cache(maxsize=64)
def _mixed(base: Style, known: tuple[str, ...], ansi: bool, dark: bool, no_color: bool) -> Palette:
    if no_color:
        return _without_colour(base)
    primary, secondary, success, warning, error, mark = known
    # Of the 16, blue can't be read on black; of the others, a light theme's primary is hardly told from black.
    accent = secondary if ansi == dark else primary
    text: Tones = {
        "plain": base,
        "dim": base + Style(dim=True) if ansi else base + Style(color=_towards(base.color, base.bgcolor, _DIM)),
        "strong": base + Style(bold=True),
        "accent": base + _ink(accent),
        "good": base + _ink(success),
        "warn": base + _ink(warning),
        "bad": base + _ink(error) + Style(bold=True),
    }
    if ansi:
        # Reversed, every tone would become a block of its own colour.
        cursor = _shades(base + Style(reverse=True))
        resting = {tone: style + Style(bold=True) for tone, style in text.items()}
        return Palette(text, cursor, resting, base + Style(bold=True, underline=True), _traces(text), False)
    text = _on(text, base.bgcolor)
    marked = Color.parse(mark).rich_color
    head = base + Style(bold=True, bgcolor=_towards(base.bgcolor, base.color, _HEAD))
    return Palette(
        text,
        _on(text, _towards(base.bgcolor, marked, _CURSOR)),
        _on(text, _towards(base.bgcolor, marked, _RESTING)),
        head,
        _traces(text),
        False,
    )


def _without_colour(base: Style) -> Palette:
    text = _shades(base)
    resting = {tone: style + Style(bold=True) for tone, style in text.items()}
    head = base + Style(bold=True, underline=True)
    return Palette(text, _shades(base + Style(reverse=True)), resting, head, (base,), True)


def _traces(text: Tones) -> tuple[Style, ...]:
    return text["accent"], text["warn"], text["good"], text["bad"]


def _shades(base: Style) -> Tones:
    bold = base + Style(bold=True)
    return {
        "plain": base,
        "dim": base + Style(dim=True),
        "strong": bold,
        "accent": bold,
        "good": base,
        "warn": bold,
        "bad": bold + Style(underline=True),
    }


def _on(text: Tones, background: RichColor | None) -> Tones:
    """The same on another background, each tone moved towards plain text until it can be read there."""
    plain = text["plain"].color
    readable: dict[Tone, Style] = {}
    for tone, style in text.items():
        least = _DIM_CONTRAST if tone == "dim" else _CONTRAST
        shares = (step / _STEPS for step in range(_STEPS))
        inks = (_towards(style.color, plain, share) for share in shares)
        ink = next((ink for ink in inks if contrast(ink, background) >= least), plain)
        readable[tone] = style + Style(color=ink, bgcolor=background)
    return readable


def contrast(a: RichColor | None, b: RichColor | None) -> float:
    """Ratio of luminance by WCAG 2, 1 … 21; of the terminal's own colours, which are as they are, 21."""
    if a is None or b is None or a.triplet is None or b.triplet is None:
        return 21.0
    darker, lighter = sorted((_luminance(a.triplet), _luminance(b.triplet)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: ColorTriplet) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _ink(colour: str) -> Style:
    return Style(color=Color.parse(colour).rich_color)


def _towards(start: RichColor | None, end: RichColor | None, share: float) -> RichColor | None:
    """None where a colour is the terminal's own, of which nobody knows what it is."""
    if start is None or end is None or start.triplet is None or end.triplet is None:
        return start
    return Color.from_rich_color(start).blend(Color.from_rich_color(end), share).rich_color
