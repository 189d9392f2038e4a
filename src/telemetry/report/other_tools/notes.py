"""Notes below a report in the form of another tool: figures that are unknown, and assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry import slo
from telemetry.formatting import number_of
from telemetry.report.other_tools import aiperf, sglang, vllm
from telemetry.report.other_tools.differences import differences, shown
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.tool import Tool
from telemetry.report.table import DOT

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
    for one in differences(tool, selection):
        if one.group or not one.ours or not one.theirs or not one.reasons:
            continue
        if not 1 / _FAR <= one.theirs / one.ours <= _FAR:
            yield f"{one.name} is {shown(one.theirs)}, ours {shown(one.ours)}: {DOT.join(one.reasons)}"


def _about_limits(tool: Tool, selection: Selection) -> Iterator[str]:
    known = _LIMITS[tool.name]
    unknown = {key: limit for key, limit in selection.limits.items() if key not in known}
    if unknown:
        yield f"the tool has no limit such as {slo.describe(unknown)}: it is left out"
    if own := selection.lacks.own_limits:
        yield f"{number_of(own, 'request has', 'requests have')} limits of their own: the tool has one for all"


def _about_outcomes(tool: Tool, selection: Selection) -> Iterator[str]:
    lacks, is_sglang = selection.lacks, tool.name.startswith("sglang")
    if lacks.no_output:
        meaning = "a first token after 0 ms" if is_sglang else "counted as failed"
        yield f"{number_of(lacks.no_output, 'request')} completed without output: {meaning}"
    if lacks.expired:
        meaning = "in no figure but attainment" if is_sglang else "counted as failed"
        yield f"{number_of(lacks.expired, 'request')} expired: {meaning}"
    if selection.in_flight:
        yield f"{number_of(selection.in_flight, 'request')} in flight at the end of the run: in no figure"


def _about_output(tool: Tool, selection: Selection) -> Iterator[str]:
    lacks = selection.lacks
    if lacks.not_streamed:
        yield f"{number_of(lacks.not_streamed, 'answer')} came as a whole: the first token comes at the end"
    if lacks.output_tokens:
        yield f"output tokens of {number_of(lacks.output_tokens, 'request')} are not known: a chunk counts as one"
    if lacks.input_tokens:
        yield f"input tokens of {number_of(lacks.input_tokens, 'request')} are not known: they count as 0"
    if lacks.chunk_tokens and tool.name == "sglang-native":
        yield f"{number_of(lacks.chunk_tokens, 'request has', 'requests have')} chunks of unknown tokens: one each"
    if lacks.left_out:
        yield f"the log lacks the early chunks of {number_of(lacks.left_out, 'very long answer')}"
