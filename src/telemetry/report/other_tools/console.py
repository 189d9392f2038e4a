"""Lines of console reports that are 50 columns wide: a label and a number."""

from __future__ import annotations

from typing import Final

WIDTH: Final = 50
UNKNOWN: Final = "n/a"
_LABEL: Final = 40


def title(text: str, fill: str) -> str:
    """Return a text in the middle of a line."""
    return f"{text:{fill}^{WIDTH}}"


def line(label: str, value: str | float | None, decimals: int | None = None) -> str:
    """Return a line with a label and a value, which is unknown if it is None."""
    shown = UNKNOWN if value is None else str(value) if decimals is None else f"{value:.{decimals}f}"
    return f"{label:<{_LABEL}} {shown}"


def number(value: float) -> int | float:
    """Return a sum of counts as an integer if it is one."""
    return int(value) if float(value).is_integer() else value
