"""A comparison in each of its forms: text, Markdown, JSON and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from telemetry.compare import Comparison
from telemetry.errors import UsageError
from telemetry.report.comparison import comparison_json, comparison_markdown, comparison_text
from telemetry.report.comparison_page import comparison_html

_RENDERERS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "json": comparison_json,
    "html": comparison_html,
}
FORMATS: Final = ("text", "md", *_RENDERERS)


def render_comparison(
    comparison: Comparison, form: str = "text", *, width: int = 100, color: bool = False, whole: bool = False
) -> str:
    """Render a comparison in a form of `FORMATS`, ending with a newline.

    `width` (columns) and `color` (ANSI) concern text alone. With `whole`, text and Markdown have a row for each
    figure that can't be told. Raises UsageError for an unknown format.
    """
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r} of a comparison", hint=f"one of {', '.join(FORMATS)}")
    if form == "text":
        return comparison_text(comparison, width, color, whole=whole)
    return comparison_markdown(comparison, whole=whole) if form == "md" else _RENDERERS[form](comparison)
