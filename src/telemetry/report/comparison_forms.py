"""A comparison in each of its forms: text, Markdown, JSON and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from telemetry.compare import Comparison
from telemetry.errors import UsageError
from telemetry.report.comparison import comparison_json, comparison_markdown, comparison_text
from telemetry.report.comparison_page import comparison_html

_RENDERERS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "md": comparison_markdown,
    "json": comparison_json,
    "html": comparison_html,
}
FORMATS: Final = ("text", *_RENDERERS)


def render_comparison(comparison: Comparison, form: str = "text", *, width: int = 100, color: bool = False) -> str:
    """Render a comparison in a form of `FORMATS`, ending with a newline.

    `width` (columns) and `color` (ANSI) concern text alone. Raises UsageError for an unknown format.
    """
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r} of a comparison", hint=f"one of {', '.join(FORMATS)}")
    return comparison_text(comparison, width, color) if form == "text" else _RENDERERS[form](comparison)
