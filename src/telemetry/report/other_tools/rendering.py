"""Text and JSON of the same requests by the definitions of another tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from telemetry.common import slo
from telemetry.common.formatting import number_of, printable
from telemetry.report.other_tools import aiperf, sglang, vllm
from telemetry.report.other_tools.differences import FigureDifference, differences, shown
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.tool import Tool
from telemetry.report.table import DOT, ReportTable, TableColumn, layout, wrapped

_FAR: Final = 4 / 3
_LIMITS: Final = {
    "vllm": vllm.LIMITS,
    "sglang": sglang.LIMITS,
    "sglang-native": sglang.LIMITS,
    "aiperf": aiperf.LIMITS,
}
_UNKNOWN: Final = {
    "vllm": "request rate, burstiness, limit of concurrency, model, tokenizer, time in the client's queue",
    "sglang": "request rate, limit of concurrency, retokenized output, accepted length, server, cache hits",
    "sglang-native": "request rate, limit of concurrency, retokenized output, accepted length, server, cache hits",
    "aiperf": "settings, reasoning tokens, usage, figures over time (`Effective`), speculative decoding, GPU",
}
_INDENT: Final = "  "
_SAME: Final = "the same"
_ROUNDING: Final = "rounding"


def render_text(tool: Tool, selection: Selection, width: int = 100) -> str:
    """Return the console report of the tool, below a line that names its version, and above what is not known."""
    lines = [
        *_head(tool, selection, width),
        "",
        *_console(tool, selection),
        "",
        *_notes_text(tool, selection, width),
    ]
    return "\n".join(lines) + "\n"


def render_beside(tool: Tool, selection: Selection, width: int = 100) -> str:
    """Return a table of our figures, those of the tool, and why they differ."""
    rows = list(_rows(differences(tool, selection)))
    columns = [
        TableColumn(""),
        TableColumn("ours"),
        TableColumn(tool.name),
        TableColumn("why", right=False, wraps=True),
    ]
    table = layout(ReportTable(columns, rows), width)
    return (
        "\n".join(
            [*_head(tool, selection, width), "", *table, "", *_notes_text(tool, selection, width, beside=True)]
        )
        + "\n"
    )


def render_json(tool: Tool, selection: Selection, *, beside: bool = False) -> str:
    """Return the JSON of the tool, with a further object `telemetry`; with `beside` a list of differences."""
    about = {
        "as": f"{tool.name}@{tool.version}",
        "run_id": selection.run_id,
        "requests": selection.name,
        "duration": _duration(tool),
        "coverage": selection.coverage,
        "notes": list(notes(tool, selection, beside=beside)),
    }
    document: dict[str, Any]
    if beside:
        document = {
            "figures": [
                {
                    "name": figure.name,
                    "ours": figure.ours,
                    "theirs": figure.theirs,
                    "field": figure.field,
                    "why": "" if figure.is_same else DOT.join(figure.reasons) or _ROUNDING,
                }
                for figure in differences(tool, selection)
            ],
            "telemetry": about,
        }
    else:
        document = _document(tool, selection) | {"telemetry": about}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _document(tool: Tool, selection: Selection) -> dict[str, Any]:
    if tool.name == "vllm":
        return vllm.document(selection)
    if tool.name == "aiperf":
        return aiperf.document(selection, tool.version)
    return sglang.document(selection, native=tool.name == "sglang-native")


def _console(tool: Tool, selection: Selection) -> Iterator[str]:
    answers, limits = selection.answers, selection.limits
    if tool.name == "vllm":
        return vllm.console(vllm.figures(answers, limits))
    if tool.name == "aiperf":
        return aiperf.console(aiperf.figures(answers, limits))
    native = tool.name == "sglang-native"
    return sglang.console(sglang.figures(answers, limits, native=native), native=native)


def _duration(tool: Tool) -> str:
    return "first issue to last chunk" if tool.name == "aiperf" else "first issue to last end"


def _head(tool: Tool, selection: Selection, width: int) -> Iterator[str]:
    if selection.coverage:
        yield from wrapped(selection.coverage, width, "", _INDENT)
    yield from wrapped(f"as {tool.title}, from our request log; duration is {_duration(tool)}", width, "", _INDENT)
    limits = f" · limits {slo.describe(selection.limits)}" if selection.limits else ""
    number = number_of(len(selection.answers), "request")
    yield from wrapped(f"run {printable(selection.run)}: {number} of {selection.name}{limits}", width, "", _INDENT)


def _notes_text(tool: Tool, selection: Selection, width: int, *, beside: bool = False) -> Iterator[str]:
    for note in notes(tool, selection, beside=beside):
        yield from wrapped(note, width, "· ", _INDENT)


def _rows(figures: Sequence[FigureDifference]) -> Iterator[list[str]]:
    """Yield name, our value, their value, and why they differ.

    Percentiles repeat nothing that is said of their mean.
    """
    by_group: dict[str, Sequence[str]] = {}
    for figure in figures:
        if figure.is_same or shown(figure.ours) == shown(figure.theirs):
            yield [figure.name, shown(figure.ours), shown(figure.theirs), _SAME]
            continue
        group_reasons = by_group.setdefault(figure.group, figure.reasons) if figure.group else ()
        news = [
            reason for reason in figure.reasons if reason not in group_reasons or group_reasons is figure.reasons
        ]
        if group_reasons and group_reasons is not figure.reasons:
            news.insert(0, "as above")
        yield [figure.name, shown(figure.ours), shown(figure.theirs), DOT.join(news) or _ROUNDING]


def notes(tool: Tool, selection: Selection, *, beside: bool = False) -> Iterator[str]:
    """Yield what is not known, and what had to be assumed, one sentence each.

    Unless the figures stand `beside` ours, explain counts and rates that are far from ours.
    """
    yield f"not known: {_UNKNOWN[tool.name]}"
    yield "tokens are those that the program reported; the tool counts some of them with its own tokenizer"
    if tool.name in ("vllm", "aiperf"):
        yield "the last chunk is the last call of chunk(): exact if the program makes it for tokens only"
    elif tool.name == "sglang":
        yield "gaps are per chunk, as on backends with OpenAI's interface; sglang-native has them per token"
    if tool.name == "aiperf":
        yield "inter token latency leaves out one token, as without --per-chunk-usage"
    yield from _about_limits(tool, selection)
    yield from _about_outcomes(tool, selection)
    yield from _about_output(tool, selection)
    if not beside:
        yield from _far_from_ours(tool, selection)


def _far_from_ours(tool: Tool, selection: Selection) -> Iterator[str]:
    """Yield counts and rates that another definition changes by more than a third, with the reasons."""
    for figure in differences(tool, selection):
        if figure.group or not figure.ours or not figure.theirs or not figure.reasons:
            continue
        if not 1 / _FAR <= figure.theirs / figure.ours <= _FAR:
            yield f"{figure.name} is {shown(figure.theirs)}, ours {shown(figure.ours)}: {DOT.join(figure.reasons)}"


def _about_limits(tool: Tool, selection: Selection) -> Iterator[str]:
    tool_limits = _LIMITS[tool.name]
    unknown = {key: limit for key, limit in selection.limits.items() if key not in tool_limits}
    if unknown:
        yield f"the tool has no limit such as {slo.describe(unknown)}: it is left out"
    if own := selection.lacks.own_limits:
        yield f"{number_of(own, 'request has', 'requests have')} limits of their own: the tool has one for all"


def _about_outcomes(tool: Tool, selection: Selection) -> Iterator[str]:
    missing, is_sglang = selection.lacks, tool.name.startswith("sglang")
    if missing.no_output:
        meaning = "a first token after 0 ms" if is_sglang else "counted as failed"
        yield f"{number_of(missing.no_output, 'request')} completed without output: {meaning}"
    if missing.expired:
        meaning = "in no figure but attainment" if is_sglang else "counted as failed"
        yield f"{number_of(missing.expired, 'request')} expired: {meaning}"
    if selection.in_flight:
        yield f"{number_of(selection.in_flight, 'request')} in flight at the end of the run: in no figure"


def _about_output(tool: Tool, selection: Selection) -> Iterator[str]:
    gaps = selection.lacks
    if gaps.not_streamed:
        yield f"{number_of(gaps.not_streamed, 'answer')} came as a whole: the first token comes at the end"
    if gaps.output_tokens:
        yield f"output tokens of {number_of(gaps.output_tokens, 'request')} are not known: a chunk counts as one"
    if gaps.input_tokens:
        yield f"input tokens of {number_of(gaps.input_tokens, 'request')} are not known: they count as 0"
    if gaps.chunk_tokens and tool.name == "sglang-native":
        yield f"{number_of(gaps.chunk_tokens, 'request has', 'requests have')} chunks of unknown tokens: one each"
    if gaps.left_out:
        yield f"the log lacks the early chunks of {number_of(gaps.left_out, 'very long answer')}"
