"""Figures of this program beside those of another tool, with the reasons for each difference."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from telemetry.report.other_tools import aiperf, own_definitions, sglang, vllm
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.tool import Tool

Fact = Literal[
    "always",
    "failed",
    "longer",
    "no_output",
    "whole",
    "one_token",
    "bundled",
    "trailing",
    "chunks",
    "limits",
    "own_limits",
]


@dataclass(frozen=True, slots=True)
class DifferenceReason:
    """A sentence, and the fact about the requests without which it can't be the reason."""

    text: str
    fact: Fact = "always"


INTERPOLATED: Final = DifferenceReason("interpolated between two values (ours: one of the values)")
ALL_REQUESTS: Final = DifferenceReason("time of failed requests too (ours: of completed ones)", "longer")
TO_LAST_CHUNK: Final = DifferenceReason("ends at the last chunk (ours: when the answer is complete)", "trailing")
ONE_TOKEN: Final = DifferenceReason("leaves out one token (ours: all tokens of the first chunk)", "bundled")
GOOD_TO_LAST: Final = DifferenceReason(
    "tpot and e2el end at the last chunk (ours: when the answer is complete)", "trailing"
)
GOOD_ONE_TOKEN: Final = DifferenceReason(
    "tpot leaves out one token (ours: all tokens of the first chunk)", "bundled"
)
WHOLE: Final = DifferenceReason("has answers that come as a whole (ours: without first token)", "whole")
GOOD_WHOLE: Final = DifferenceReason(
    "an answer that comes as a whole has a first token (ours: none, not good)", "whole"
)
NO_OUTPUT_FAILED: Final = DifferenceReason("completed without output counts as failed", "no_output")
NO_OUTPUT_NO_TTFT: Final = DifferenceReason(
    "without output the first token comes after 0 ms (ours: never)", "no_output"
)
CHUNKS: Final = DifferenceReason("counts chunks (ours: tokens)", "chunks")
SPREAD: Final = DifferenceReason(
    "spreads the tokens of a chunk over the gap before it (ours: at its time)", "chunks"
)
SAME_SECOND: Final = DifferenceReason("counts completed requests in the same second (ours: at the same time)")
GAP_PER_TOKEN: Final = DifferenceReason(
    "divides the gap before a chunk among its tokens (ours: per chunk)", "chunks"
)
BUSY: Final = DifferenceReason("leaves out failed requests, but not their time", "failed")
OUTPUT_TIME: Final = DifferenceReason("time ends at the last chunk (ours: with the last answer)", "trailing")
OUTPUT_ONLY: Final = DifferenceReason("time of requests with output (ours: of all completed ones)", "no_output")
VALID_TIME: Final = DifferenceReason("time of completed requests (ours: of failed ones too)", "longer")
NO_TPOT_NOT_GOOD: Final = DifferenceReason("one token and a limit for tpot is not good (ours: good)", "one_token")
OTHER_LIMITS: Final = DifferenceReason("leaves out limits that it does not know", "limits")
SAME_LIMITS: Final = DifferenceReason("has the same limits for all requests", "own_limits")


def reason_facts(selection: Selection, known_limits: Collection[str]) -> frozenset[Fact]:
    """Return the facts about the requests that reasons depend on."""
    answers, missing = selection.answers, selection.lacks
    streamed = answers.chosen(answers.streamed)
    conditions: dict[Fact, bool] = {
        "always": True,
        "failed": not answers.completed.all(),
        "longer": answers.span_ns != answers.chosen(answers.completed).span_ns,
        "no_output": missing.no_output > 0,
        "whole": missing.not_streamed > 0,
        "one_token": bool((answers.output_tokens[answers.completed] < 2).any()),
        "bundled": bool((streamed.first_tokens != 1).any()),
        "trailing": bool((streamed.ended_ns > streamed.last_ns).any()),
        "chunks": bool((answers.chunk_tokens != 1).any()),
        "limits": any(key not in known_limits for key in selection.limits),
        "own_limits": missing.own_limits > 0,
    }
    return frozenset(fact for fact, holds in conditions.items() if holds)


@dataclass(frozen=True, slots=True)
class FigureDifference:
    """A figure by both definitions."""

    name: str
    group: str
    """Name of what is measured, common to its mean and percentiles."""
    ours: float | None
    theirs: float | None
    field: str
    """Name of the figure in the JSON of the tool."""
    reasons: Sequence[str]
    """Why the values differ, in sentences; empty if they differ by rounding only."""

    @property
    def is_same(self) -> bool:
        """True if the values differ by no more than rounding."""
        if self.ours is None or self.theirs is None:
            return self.ours is self.theirs
        return math.isclose(self.ours, self.theirs, rel_tol=1e-9, abs_tol=1e-9)


class _Row(NamedTuple):
    name: str
    key: str
    """Key of our figure."""
    field: str
    reasons: tuple[DifferenceReason, ...]
    group: str = ""


def differences(tool: Tool, selection: Selection) -> list[FigureDifference]:
    """Return the figures that both know. Without limits there is no goodput."""
    answers, limits = selection.answers, selection.limits
    own = own_definitions.figures(answers, limits)
    limit_keys: Sequence[str]
    if tool.name == "vllm":
        rows, limit_keys, theirs = _VLLM, vllm.LIMITS, vllm.figures(answers, limits)
    elif tool.name == "aiperf":
        rows, limit_keys, theirs = _AIPERF, aiperf.LIMITS, aiperf.figures(answers, limits)
        theirs.setdefault("error_request_count", {"avg": 0})
    else:
        native = tool.name == "sglang-native"
        rows, limit_keys = _sglang(native), sglang.LIMITS
        theirs = sglang.figures(answers, limits, native=native)
    facts = reason_facts(selection, limit_keys)
    results = []
    for row in rows:
        value = _value(theirs, row.field)
        if own[row.key] is None and value is None:
            continue
        difference = FigureDifference(
            name=row.name,
            group=row.group,
            ours=own[row.key],
            theirs=value,
            field=row.field,
            reasons=[reason.text for reason in row.reasons if reason.fact in facts],
        )
        results.append(difference)
    return results


def shown(value: float | None) -> str:
    """Return a figure as text, with three digits behind the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def _value(theirs: Mapping[str, Any], field: str) -> float | None:
    """Return a figure of the tool; shares in percent, as ours are."""
    value: Any = theirs
    for part in field.split("."):
        value = value.get(part) if value is not None else None
    if value is None:
        return None
    return float(value) * 100.0 if field in _SHARES else float(value)


def _durations(
    fields: Mapping[str, str], names: Sequence[tuple[str, str, tuple[DifferenceReason, ...]]]
) -> Iterator[_Row]:
    """Yield rows for the figures of several durations, by our name and that of the tool.

    `fields` has the figures of the tool and the pattern of their names.
    """
    for name, theirs, reasons in names:
        for key, pattern in fields.items():
            own = reasons if key == "mean" else (*reasons, INTERPOLATED)
            yield _Row(f"{name} {key} ms", f"{name}_{key}", pattern.format(theirs), own, name)


_SHARES: Final = frozenset({"slo_attainment", "good_request_fraction.avg"})
_RATE: Final = (ALL_REQUESTS,)
_GOOD: Final = (GOOD_ONE_TOKEN, GOOD_WHOLE, OTHER_LIMITS, SAME_LIMITS)
_VLLM: Final[tuple[_Row, ...]] = (
    _Row("completed", "completed", "completed", (NO_OUTPUT_FAILED,)),
    _Row("failed", "failed", "failed", (NO_OUTPUT_FAILED,)),
    _Row("duration s", "duration", "duration", ()),
    _Row("requests/s", "requests_per_s", "request_throughput", (*_RATE, NO_OUTPUT_FAILED)),
    _Row("goodput/s", "goodput", "request_goodput", (*_RATE, GOOD_TO_LAST, *_GOOD)),
    _Row("output tokens/s", "output_tokens_per_s", "output_throughput", _RATE),
    _Row("total tokens/s", "total_tokens_per_s", "total_token_throughput", (*_RATE, NO_OUTPUT_FAILED)),
    _Row("best second, tokens", "best_second", "max_output_tokens_per_s", (CHUNKS,)),
    _Row("peak in flight", "concurrency_peak", "max_concurrent_requests", (SAME_SECOND,)),
    *_durations(
        {"mean": "mean_{}_ms", "p50": "median_{}_ms", "p99": "p99_{}_ms"},
        (
            ("ttft", "ttft", (WHOLE,)),
            ("tpot", "tpot", (TO_LAST_CHUNK, ONE_TOKEN, WHOLE)),
            ("itl", "itl", ()),
            ("latency", "e2el", (TO_LAST_CHUNK, NO_OUTPUT_FAILED)),
        ),
    ),
)
_TIME: Final = (OUTPUT_TIME, OUTPUT_ONLY)
_GOOD_AIPERF: Final = (*_GOOD, GOOD_TO_LAST, NO_TPOT_NOT_GOOD)
_AIPERF: Final[tuple[_Row, ...]] = (
    _Row("completed", "completed", "request_count.avg", (NO_OUTPUT_FAILED,)),
    _Row("failed", "failed", "error_request_count.avg", (NO_OUTPUT_FAILED,)),
    _Row("error rate %", "error_rate", "request_error_rate.avg", (NO_OUTPUT_FAILED,)),
    _Row("duration s", "duration", "benchmark_duration.avg", (*_TIME, VALID_TIME)),
    _Row("requests/s", "requests_per_s", "request_throughput.avg", _TIME),
    _Row("goodput/s", "goodput", "goodput.avg", (*_TIME, *_GOOD_AIPERF)),
    _Row("attainment %", "attainment", "good_request_fraction.avg", _GOOD_AIPERF),
    _Row("input tokens/s", "input_tokens_per_s", "input_token_throughput.avg", _TIME),
    _Row("output tokens/s", "output_tokens_per_s", "output_token_throughput.avg", _TIME),
    _Row("total tokens/s", "total_tokens_per_s", "total_token_throughput.avg", _TIME),
    _Row(
        "tokens/s per user, mean",
        "tokens_per_s_per_user_mean",
        "output_token_throughput_per_user.avg",
        (ONE_TOKEN, TO_LAST_CHUNK),
    ),
    *_durations(
        {"mean": "{}.avg", **{key: "{}." + key for key in ("p50", "p90", "p99")}},
        (
            ("ttft", "time_to_first_token", (WHOLE,)),
            ("tpot", "inter_token_latency", (TO_LAST_CHUNK, ONE_TOKEN, WHOLE)),
            ("itl", "inter_chunk_latency", ()),
            ("latency", "request_latency", (TO_LAST_CHUNK, NO_OUTPUT_FAILED)),
        ),
    ),
)


def _sglang(native: bool) -> tuple[_Row, ...]:
    good, chunks = (*_GOOD, NO_OUTPUT_NO_TTFT), SPREAD if native else CHUNKS
    return (
        _Row("completed", "completed", "completed", ()),
        _Row("duration s", "duration", "duration", ()),
        _Row("requests/s", "requests_per_s", "request_throughput", _RATE),
        _Row("goodput/s", "goodput", "request_goodput", (*_RATE, *good)),
        _Row("attainment %", "attainment", "slo_attainment", good),
        _Row("input tokens/s", "input_tokens_per_s", "input_throughput", _RATE),
        _Row("output tokens/s", "output_tokens_per_s", "output_throughput", _RATE),
        _Row("total tokens/s", "total_tokens_per_s", "total_throughput", _RATE),
        _Row("best second, tokens", "best_second", "max_output_tokens_per_s", (chunks,)),
        _Row("mean in flight", "concurrency_mean", "concurrency", (BUSY,)),
        _Row("peak in flight", "concurrency_peak", "max_concurrent_requests", (SAME_SECOND,)),
        *_durations(
            {"mean": "mean_{}_ms", "p50": "median_{}_ms", **{key: key + "_{}_ms" for key in ("p90", "p95", "p99")}},
            (
                ("ttft", "ttft", (WHOLE, NO_OUTPUT_NO_TTFT)),
                ("tpot", "tpot", (ONE_TOKEN, WHOLE)),
                ("itl", "itl", (GAP_PER_TOKEN,) if native else ()),
                ("latency", "e2e_latency", ()),
            ),
        ),
    )
