"""Reports, comparisons, sweeps, outcomes of gates and pairs of runs, in each of their formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from telemetry.errors import UsageError

if TYPE_CHECKING:
    from telemetry.wire.report import Report

Kind = Literal["report", "comparison", "sweep", "gates", "ab"]


class Format(NamedTuple):
    """A format: the suffixes of its files, and the function that renders each kind of document.

    Functions are `module.function` of this package. A module loads on first use: some import numpy or XML.
    """

    suffixes: tuple[str, ...]
    """The first one is that of new files."""
    report: str = ""
    """Empty if `telemetry report` writes the format from files of the run, or not at all."""
    comparison: str = ""
    sweep: str = ""
    gates: str = ""
    """The document is a report."""
    ab: str = ""
    bare: bool = False
    """True for a report without bounds, findings and figures over time."""


TABLE: Final = {
    "text": Format(
        (".txt", ""),
        "text.render_text",
        "comparison.comparison_text",
        "sweep.sweep_text",
        "gate_report.gates_text",
        "ab.ab_text",
    ),
    "json": Format(
        (".json",),
        "json.render_json",
        "comparison.comparison_json",
        "sweep.sweep_json",
        "gate_report.gates_json",
        "ab.ab_json",
    ),
    "md": Format(
        (".md",),
        "markdown.render_markdown",
        "comparison.comparison_markdown",
        "sweep.sweep_markdown",
        "gate_report.gates_markdown",
        "ab.ab_markdown",
    ),
    "csv": Format((".csv",), "csv.render_csv", sweep="sweep.sweep_csv"),
    "html": Format(
        (".html", ".htm"),
        "html.render_html",
        "comparison_page.comparison_html",
        "sweep_page.sweep_html",
        ab="ab_page.ab_html",
    ),
    "hlog": Format((".hlog",), bare=True),
    "hgrm": Format((".hgrm",), "hgrm.render_hgrm", bare=True),
    "junit": Format((".xml",), "junit.render_junit", gates="junit.render_junit", ab="ab.ab_junit", bare=True),
    "endpoints": Format((".endpoints.json",)),
}
"""Every format of a document. A new one is an entry here, and a module."""


def formats_of(kind: Kind) -> tuple[str, ...]:
    """Return the names of the formats of a kind of document."""
    return tuple(name for name, format in TABLE.items() if getattr(format, kind))


FORMATS: Final = formats_of("report")
"""Formats that `render` takes."""


def format_of_suffix(path: str | PurePath, formats: Iterable[str]) -> str | None:
    """Return the format that the suffix of a file stands for; None if it is not among `formats`."""
    suffix = PurePath(path).suffix.lower()
    return next((format for format in formats if suffix in TABLE[format].suffixes), None)


def renderer(kind: Kind, format: str) -> Callable[..., str]:
    """Return the function that renders a kind of document in a format. Raises UsageError for an unknown format."""
    formats = formats_of(kind)
    if format not in formats:
        raise UsageError(f"unknown {kind} format {format!r}", hint=f"one of {', '.join(formats)}")
    module, _, name = getattr(TABLE[format], kind).partition(".")
    function: Callable[..., str] = getattr(import_module(f"{__name__}.{module}"), name)
    return function


def render_as(kind: Kind, document: Any, format: str = "text", **options: Any) -> str:
    """Return a document as text in a format, ending with a newline.

    Text takes all options, Markdown takes all but `width` (columns) and `color` (ANSI), other formats take none.
    Raises UsageError for an unknown format.
    """
    render = renderer(kind, format)
    if format == "md":
        options = {name: value for name, value in options.items() if name not in ("width", "color")}
    return render(document, **options) if format in ("text", "md") else render(document)


def render(
    report: Report,
    format: str = "text",
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
    renderer("report", format)
    if not TABLE[format].bare:
        report = _judged(report)
    return render_as("report", report, format, width=width, color=color, steps=steps, full=full)


def _judged(report: Report) -> Report:
    """Add bounds and findings unless the report has them.

    Leaves the report of a live run unchanged: it will get more data.
    """
    going_on = report.source == "status" and not report.final
    if going_on or report.bounds or report.findings or report.time_range is not None:
        return report
    from telemetry.history.findings import alone  # arrays

    return alone(report)


__all__ = ["FORMATS", "TABLE", "format_of_suffix", "formats_of", "render", "render_as", "renderer"]
