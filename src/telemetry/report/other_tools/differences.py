"""Figures of this program beside those of another tool, with the reasons for each difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from telemetry.report.other_tools import aiperf, own_definitions, sglang, vllm
from telemetry.report.other_tools import reasons as why
from telemetry.report.other_tools.reasons import DifferenceReason
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.tool import Tool


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
    facts = why.facts(selection, limit_keys)
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
            own = reasons if key == "mean" else (*reasons, why.INTERPOLATED)
            yield _Row(f"{name} {key} ms", f"{name}_{key}", pattern.format(theirs), own, name)


_SHARES: Final = frozenset({"slo_attainment", "good_request_fraction.avg"})
_RATE: Final = (why.ALL_REQUESTS,)
_GOOD: Final = (why.GOOD_ONE_TOKEN, why.GOOD_WHOLE, why.OTHER_LIMITS, why.SAME_LIMITS)
_VLLM: Final[tuple[_Row, ...]] = (
    _Row("completed", "completed", "completed", (why.NO_OUTPUT_FAILED,)),
    _Row("failed", "failed", "failed", (why.NO_OUTPUT_FAILED,)),
    _Row("duration s", "duration", "duration", ()),
    _Row("requests/s", "requests_per_s", "request_throughput", (*_RATE, why.NO_OUTPUT_FAILED)),
    _Row("goodput/s", "goodput", "request_goodput", (*_RATE, why.GOOD_TO_LAST, *_GOOD)),
    _Row("output tokens/s", "output_tokens_per_s", "output_throughput", _RATE),
    _Row("total tokens/s", "total_tokens_per_s", "total_token_throughput", (*_RATE, why.NO_OUTPUT_FAILED)),
    _Row("best second, tokens", "best_second", "max_output_tokens_per_s", (why.CHUNKS,)),
    _Row("peak in flight", "concurrency_peak", "max_concurrent_requests", (why.SAME_SECOND,)),
    *_durations(
        {"mean": "mean_{}_ms", "p50": "median_{}_ms", "p99": "p99_{}_ms"},
        (
            ("ttft", "ttft", (why.WHOLE,)),
            ("tpot", "tpot", (why.TO_LAST_CHUNK, why.ONE_TOKEN, why.WHOLE)),
            ("itl", "itl", ()),
            ("latency", "e2el", (why.TO_LAST_CHUNK, why.NO_OUTPUT_FAILED)),
        ),
    ),
)
_TIME: Final = (why.OUTPUT_TIME, why.OUTPUT_ONLY)
_GOOD_AIPERF: Final = (*_GOOD, why.GOOD_TO_LAST, why.NO_TPOT_NOT_GOOD)
_AIPERF: Final[tuple[_Row, ...]] = (
    _Row("completed", "completed", "request_count.avg", (why.NO_OUTPUT_FAILED,)),
    _Row("failed", "failed", "error_request_count.avg", (why.NO_OUTPUT_FAILED,)),
    _Row("error rate %", "error_rate", "request_error_rate.avg", (why.NO_OUTPUT_FAILED,)),
    _Row("duration s", "duration", "benchmark_duration.avg", (*_TIME, why.VALID_TIME)),
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
        (why.ONE_TOKEN, why.TO_LAST_CHUNK),
    ),
    *_durations(
        {"mean": "{}.avg", **{key: "{}." + key for key in ("p50", "p90", "p99")}},
        (
            ("ttft", "time_to_first_token", (why.WHOLE,)),
            ("tpot", "inter_token_latency", (why.TO_LAST_CHUNK, why.ONE_TOKEN, why.WHOLE)),
            ("itl", "inter_chunk_latency", ()),
            ("latency", "request_latency", (why.TO_LAST_CHUNK, why.NO_OUTPUT_FAILED)),
        ),
    ),
)


def _sglang(native: bool) -> tuple[_Row, ...]:
    good, chunks = (*_GOOD, why.NO_OUTPUT_NO_TTFT), why.SPREAD if native else why.CHUNKS
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
        _Row("mean in flight", "concurrency_mean", "concurrency", (why.BUSY,)),
        _Row("peak in flight", "concurrency_peak", "max_concurrent_requests", (why.SAME_SECOND,)),
        *_durations(
            {"mean": "mean_{}_ms", "p50": "median_{}_ms", **{key: key + "_{}_ms" for key in ("p90", "p95", "p99")}},
            (
                ("ttft", "ttft", (why.WHOLE, why.NO_OUTPUT_NO_TTFT)),
                ("tpot", "tpot", (why.ONE_TOKEN, why.WHOLE)),
                ("itl", "itl", (why.GAP_PER_TOKEN,) if native else ()),
                ("latency", "e2e_latency", ()),
            ),
        ),
    )
