"""Reports of finished runs: reading them, and rendering them for people and programs."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Literal

from telemetry.errors import UsageError
from telemetry.history.result import load_report
from telemetry.report.text import render_text
from telemetry.wire.report import Report

Format = Literal["text", "json", "md", "csv", "html", "hgrm", "junit"]

_RENDERERS: Final = {
    "json": ("telemetry.report.json", "render_json"),
    "md": ("telemetry.report.markdown", "render_markdown"),
    "csv": ("telemetry.report.csv", "render_csv"),
    "html": ("telemetry.report.html", "render_html"),
    "hgrm": ("telemetry.report.hgrm", "render_hgrm"),
    "junit": ("telemetry.report.junit", "render_junit"),
}
"""Map of format → module and function. Each loads on first use: some import numpy or XML."""
_BARE: Final = frozenset({"hgrm", "junit"})
"""Formats without bounds and findings."""
FORMATS: Final = ("text", *_RENDERERS)


def render(
    report: Report,
    format: Format = "text",
    *,
    width: int = 100,
    color: bool = False,
    steps: bool = False,
    full: bool = False,
) -> str:
    """Return the report as text in a format, ending with a newline.

    A result that was read without its history, such as `run.report`, gets the bounds of its display histograms, and
    findings. No file is read. `width` (columns) and `color` (ANSI) affect the text format only, `steps` (a table of
    figures over time) and `full` (all figures) text and Markdown. Raises UsageError for an unknown format.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}", hint=f"one of {', '.join(FORMATS)}")
    if format not in _BARE:
        report = _judged(report)
    if format == "text":
        return render_text(report, width, color, steps=steps, full=full)
    options = {"steps": steps, "full": full} if format == "md" else {}
    module, name = _RENDERERS[format]
    renderer: Any = getattr(import_module(module), name)
    rendered: str = renderer(report, **options)
    return rendered


def _judged(report: Report) -> Report:
    """Add bounds and findings unless the report has them.

    Leaves the report of a live run unchanged: it will get more data.
    """
    going_on = report.source == "status" and not report.final
    if going_on or report.bounds or report.findings or report.time_range is not None:
        return report
    from telemetry.history.findings import alone  # arrays

    return alone(report)


__all__ = ["FORMATS", "Format", "Report", "load_report", "render"]
