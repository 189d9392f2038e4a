"""Reading a finished run and saying what it came to, in every form people and programs ask for."""

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
"""Format → where it is made; each loads on first use, for some of them take arrays or XML."""
_BARE: Final = frozenset({"hgrm", "junit"})
"""Without bounds and findings."""
FORMATS: Final = ("text", *_RENDERERS)


def render(
    report: Report, format: Format = "text", *, width: int = 100, color: bool = False, steps: bool = False
) -> str:
    """The report in a form people or programs read, ending with a newline.

    A result that nobody has read with its history, such as `run.report`, gets what it says without: bounds from its
    display histograms, and findings. No file is read. `width` (columns), `color` (ANSI) and `steps` (what is over
    time is a table of steps) concern text alone. Raises UsageError for an unknown format.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}", hint=f"one of {', '.join(FORMATS)}")
    if format not in _BARE:
        report = _judged(report)
    if format == "text":
        return render_text(report, width, color, steps=steps)
    module, name = _RENDERERS[format]
    renderer: Any = getattr(import_module(module), name)
    rendered: str = renderer(report)
    return rendered


def _judged(report: Report) -> Report:
    """With bounds and findings, if it has neither. A run that goes on is left as it is: there is more to come."""
    going_on = report.source == "status" and not report.final
    if going_on or report.bounds or report.findings or report.time_range is not None:
        return report
    from telemetry.history.findings import alone  # arrays

    return alone(report)


__all__ = ["FORMATS", "Format", "Report", "load_report", "render"]
