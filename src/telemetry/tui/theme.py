"""Styles of tones: for all Textual themes, for 16 colours, and without colours."""

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
"""Shares of the other colour to mix in.

Smaller ones can't be told from the background, larger ones hide the tones.
"""
_CONTRAST: Final = 4.5
_DIM_CONTRAST: Final = 3.0
"""Least contrast ratios by WCAG 2: of text, and of dim text, which is less important."""
_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class Palette:
    """A set of complete styles, on the background of their widget."""

    text: Tones
    cursor: Tones
    """Styles of the selected row of the widget with focus."""
    resting: Tones
    """Styles of the selected row while another widget has focus."""
    head: Style
    traces: tuple[Style, ...]
    """Styles for traces without a tone of their own, used in turn."""
    colourless: bool
    """True if there are no colours, so that everything must differ by something else."""


def palette(widget: Widget) -> Palette:
    """Return the styles to paint this widget once. Ask again for the next painting: the theme may change."""
    app = widget.app
    colors = tuple(app.theme_variables.get(name, "") for name in _VARIABLES)
    return _mixed(widget.rich_style, colors, app.native_ansi_color, app.current_theme.dark, app.no_color)


def fitting_theme(wanted: str, colour_system: str | None) -> str:
    """Return the requested theme.

    On terminals with at most 16 colours, return the theme with the terminal's own colours.

    `colour_system` is the name that rich uses: `truecolor`, `256`, `standard`, `windows`; None without colour.
    """
    if colour_system in ("truecolor", "256"):
        return wanted
    theme = BUILTIN_THEMES.get(wanted)
    return "ansi-dark" if theme is None or theme.dark else "ansi-light"


# Each widget needs one entry per theme; this is enough for some screens of widgets in some themes.
@lru_cache(maxsize=64)
def _mixed(base: Style, colors: tuple[str, ...], ansi: bool, dark: bool, no_color: bool) -> Palette:
    if no_color:
        return _without_colour(base)
    primary, secondary, success, warning, error, mark = colors
    # Blue is unreadable on black in 16 colours. Elsewhere, a light theme's primary colour looks almost black.
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
    """Put the styles on another background. Each tone is mixed with plain text until it is readable."""
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
    """Return the contrast ratio by WCAG 2, 1 … 21. Returns 21 for the terminal's own colours, which are unknown."""
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
    """Mix two colours. Returns `start` if one of them is the terminal's own, which is unknown."""
    if start is None or end is None or start.triplet is None or end.triplet is None:
        return start
    return Color.from_rich_color(start).blend(Color.from_rich_color(end), share).rich_color
