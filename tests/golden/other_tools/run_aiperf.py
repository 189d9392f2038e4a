"""Figures of aiperf for all cases. Runs where aiperf is installed, without this package."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from cases import CASES, Case, Sent

_TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2el": "request_latency"}
_RECORDS = (
    "time_to_first_token",
    "time_to_second_token",
    "time_to_first_output_token",
    "request_latency",
    "decode_duration",
    "output_sequence_length",
    "input_sequence_length",
    "output_token_count",
    "inter_token_latency",
    "inter_chunk_latency",
    "output_token_throughput_per_user",
    "e2e_output_token_throughput",
    "prefill_throughput_per_user",
    "min_request_timestamp",
    "max_response_timestamp",
)
_DERIVED = (
    "total_isl",
    "total_osl",
    "total_output_tokens",
    "benchmark_duration",
    "completed_request_count",
    "request_error_rate",
    "request_throughput",
    "output_token_throughput",
    "input_token_throughput",
    "total_token_throughput",
    "goodput",
    "good_request_fraction",
)
_INTERNAL = ("min_request_timestamp", "max_response_timestamp")
_BEGIN_NS = 10**18
"""Wall-clock time of 0. Small enough for a float64 to hold its microseconds, large enough to be a time."""


def main() -> None:
    from aiperf.common.exceptions import NoMetricValue
    from aiperf.common.models import (
        MetricResult,
        ParsedResponse,
        ParsedResponseRecord,
        RequestRecord,
        TextResponseData,
    )
    from aiperf.common.models.record_models import TokenCounts
    from aiperf.metrics.derived_latency import inject_adjusted_latency_metrics
    from aiperf.metrics.display_units import to_display_unit
    from aiperf.metrics.metric_dicts import MetricRecordDict, MetricResultsDict, metric_result_from_array
    from aiperf.metrics.metric_registry import MetricRegistry

    metrics = MetricRegistry

    def record(one: Sent) -> Any:
        responses = [ParsedResponse(perf_ns=at, data=TextResponseData(text="x")) for at, _ in one.chunks]
        responses.append(ParsedResponse(perf_ns=one.ended, data=None))
        return ParsedResponseRecord(
            request=RequestRecord(
                start_perf_ns=one.issued, timestamp_ns=one.issued + _BEGIN_NS, end_perf_ns=one.ended
            ),
            responses=responses,
            token_counts=TokenCounts(input=one.input_tokens, output=one.output_tokens),
        )

    def measured(one: Sent, tags: tuple[str, ...]) -> dict[str, Any]:
        values, parsed = MetricRecordDict(), record(one)
        for tag in tags:
            try:
                values[tag] = metrics.get_class(tag)().parse_record(parsed, values)
            except NoMetricValue:
                continue
        return values

    def figures(case: Case) -> dict[str, Any]:
        good = metrics.get_class("good_request_count")
        good.set_slos({_TAGS[key]: limit for key, limit in case.limits.items()})
        valid = [one for one in case.sent if one.completed and one.chunks]
        errors = [one for one in case.sent if not (one.completed and one.chunks)]
        records = [measured(one, _RECORDS) for one in valid]
        arrays: dict[str, tuple[Any, float]] = {}
        for tag in _RECORDS:
            known = [one[tag] for one in records if tag in one]
            values = np.array([x for y in known for x in (y if isinstance(y, list) else [y])], np.float64)
            if values.size:
                arrays[tag] = values, float(values.sum())
        scalars = MetricResultsDict()
        for tag, (_, total) in arrays.items():
            scalars[tag] = total
        scalars["request_count"] = len(valid)
        scalars["min_request_timestamp"] = min(one["min_request_timestamp"] for one in records)
        scalars["max_response_timestamp"] = max(one["max_response_timestamp"] for one in records)
        if errors:
            scalars["error_request_count"] = len(errors)
        if case.limits:
            scalars["good_request_count"] = sum(good()._is_good(one) for one in records)
        single = {"request_count", "error_request_count", "good_request_count"} & set(scalars)
        for tag in _DERIVED:
            try:
                scalars[tag] = metrics.get_class(tag)().derive_value(scalars)
                single.add(tag)
            except NoMetricValue:
                continue
        if not case.limits:
            single.discard("good_request_fraction")
        results = {}
        for tag, (values, total) in arrays.items():
            one = metrics.get_class(tag)
            results[tag] = metric_result_from_array(tag, one.header, str(one.unit), values, total)
        kinds = {tag: metrics.get_class(tag) for tag in results}
        inject_adjusted_latency_metrics(results, arrays, len(errors), kinds)
        for tag in single:
            one = metrics.get_class(tag)
            results[tag] = MetricResult(tag=tag, header=one.header, unit=str(one.unit), avg=scalars[tag], count=1)
        shown = {tag: to_display_unit(one, metrics) for tag, one in results.items() if tag not in _INTERNAL}
        return {tag: one.to_json_result().model_dump(exclude_none=True) for tag, one in shown.items()}

    json.dump({"cases": {name: figures(case) for name, case in CASES.items()}}, sys.stdout, default=float)


main()
