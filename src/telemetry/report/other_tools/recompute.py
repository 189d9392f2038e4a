"""Figures of an imported run by the definitions of its tool, under the names that the tool has for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.history.request_model import request_counts
from telemetry.report.other_tools import http_tools, llm_tools, micro_tools, vllm
from telemetry.report.other_tools.answers import Answers
from telemetry.report.other_tools.selection import select
from telemetry.report.other_tools.series_values import series_values
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.imported import ImportedFile, StatedFigure
from telemetry.wire.report import Report

_Definition = Callable[[Answers, Mapping[str, int]], Mapping[str, Any]]
_DEFINITIONS: Final[dict[str, _Definition]] = {
    "vLLM": lambda answers, limits: vllm.figures(answers, limits, vllm.PERCENTILES),
    **http_tools.DEFINITIONS,
    **llm_tools.DEFINITIONS,
}
"""Name of the tool → figures by its definitions. Keys of the figures are the names that its importer states."""

_MEASURED: Final = "measured by the tool, and used for its rates here, too"
_INSIDE: Final = "…"
"""Beginning of a key that may be anywhere in the name of a figure, which begins with that of a benchmark."""
_WHY: Final = {
    "vLLM": {"request_goodput": "the file does not have the limits"},
    **http_tools.WHY,
    **llm_tools.WHY,
    **micro_tools.WHY,
}


def reason(tool: str, name: str) -> str:
    """Return why a stated figure differs from ours, or can't be recomputed; empty if that is not known."""
    reasons = _WHY.get(tool, {})
    parts = [part for part in reasons if name.startswith(part) or (part[:1] == _INSIDE and part[1:] in name)]
    return reasons[max(parts, key=len)] if parts else ""


def with_recomputed(report: Report, directory: RunDirectory, origin: ImportedFile) -> list[StatedFigure]:
    """Return the figures that the tool of an imported run states, with ours beside them. Blocks on the disk."""
    if nothing := _nothing_to_compute_from(report, origin.tool):
        return [replace(figure, reason=nothing) for figure in origin.stated]
    figures = by_its_definitions(report, directory, origin)
    stated = []
    for figure in origin.stated:
        ours = figures.get(figure.name)
        if figure.value == origin.measured_s:
            stated.append(replace(figure, reason=_MEASURED))
            continue
        value = float(ours) if isinstance(ours, int | float) else None
        own = replace(figure, recomputed=value)
        stated.append(own if own.is_same else replace(own, reason=reason(origin.tool, figure.name)))
    return stated


def _nothing_to_compute_from(report: Report, tool: str) -> str:
    """Return why no figure of a run can be recomputed; empty if some can."""
    if tool in micro_tools.DEFINITIONS:
        return "" if report.snapshot.series else "the file has no single values"
    return "" if request_counts(report.snapshot) else "the file has no requests"


def by_its_definitions(report: Report, directory: RunDirectory, origin: ImportedFile) -> Mapping[str, Any]:
    """Return the figures of an imported run, as its tool computes them; empty if that is not known."""
    if (of_series := micro_tools.DEFINITIONS.get(origin.tool)) is not None:
        return of_series(series_values(report.snapshot, directory), origin.version)
    definition = _DEFINITIONS.get(origin.tool)
    if definition is None:
        return {}
    try:
        selection = select(report, directory, needs_output=False)
    except UsageError:  # without requests there is nothing to compute from
        return {}
    measured_ns = round(origin.measured_s * 1e9) if origin.measured_s else None
    return definition(dataclasses.replace(selection.answers, measured_ns=measured_ns), selection.limits)
