"""Figures of `vllm bench serve` for all cases. Runs where vLLM's two files are, without this package."""

from __future__ import annotations

import json
import sys
from typing import Any

from cases import CASES, Case, S
from stubs import dict_keys, quiet, stub


def main() -> None:
    stub("vllm", "aiohttp", "tqdm", "regex")
    from vllm.benchmarks import serve
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

    def figures(case: Case) -> dict[str, Any]:
        outputs = [
            RequestFuncOutput(
                success=one.completed and bool(one.chunks),
                latency=(one.chunks[-1][0] - one.issued) / S if one.chunks else 0.0,
                ttft=(one.chunks[0][0] - one.issued) / S if one.chunks else 0.0,
                itl=[(b[0] - a[0]) / S for a, b in zip(one.chunks, one.chunks[1:], strict=False)],
                output_tokens=one.output_tokens,
                prompt_len=one.input_tokens,
                start_time=one.issued / S,
            )
            for one in case.sent
        ]
        span_s = (max(one.ended for one in case.sent) - min(one.issued for one in case.sent)) / S
        found, _ = quiet(serve.calculate_metrics, None, outputs, span_s, None, [99.0], case.limits)
        names = {
            "total_input": "total_input_tokens",
            "total_output": "total_output_tokens",
        }
        result: dict[str, Any] = {"duration": span_s}
        for name, value in vars(found).items():
            if name.startswith("percentiles_"):
                result |= {f"p{percentile:g}_{name.removeprefix('percentiles_')}": x for percentile, x in value}
            else:
                result[names.get(name, name)] = value
        if not case.limits:
            result["request_goodput"] = None
        return result

    answer = {"cases": {name: figures(case) for name, case in CASES.items()}, "keys": dict_keys(serve.__file__)}
    json.dump(answer, sys.stdout, default=float)


main()
