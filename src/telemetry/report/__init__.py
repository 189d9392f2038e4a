"""Reading a finished run and saying what it came to: text, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from telemetry.errors import UsageError
from telemetry.report.json import render_json
from telemetry.report.markdown import render_markdown
from telemetry.report.source import load_report
from telemetry.report.text import render_text
from telemetry.wire.report import Report

Format = Literal["text", "json", "md"]

_PLAIN: Final[dict[str, Callable[[Report], str]]] = {"json": render_json, "md": render_markdown}
FORMATS: Final = ("text", *_PLAIN)


def render(report: Report, format: Format = "text", *, width: int = 100, color: bool = False) -> str:
    """The report in a form people or programs read, ending with a newline.

    `width` (columns) and `color` (ANSI) concern text alone. Raises UsageError for an unknown format.
    """
    if format == "text":
        return render_text(report, width, color)
    try:
        return _PLAIN[format](report)
    except KeyError:
        raise UsageError(f"unknown report format {format!r}", hint=f"one of {', '.join(FORMATS)}") from None


__all__ = ["FORMATS", "Format", "Report", "load_report", "render"]
