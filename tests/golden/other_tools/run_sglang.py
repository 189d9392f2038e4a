"""Figures of SGLang's `bench_serving` for all cases, on both kinds of backend. Runs without this package."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from cases import CASES, Case, S, Sent
from stubs import dict_keys, quiet, stub


def _gaps(one: Sent, native: bool) -> list[float]:
    """Return what the client of a backend records: a gap per chunk, or per token."""
    found: list[float] = []
    for (before, _), (after, tokens) in zip(one.chunks, one.chunks[1:], strict=False):
        gap = (after - before) / S
        found += [gap / tokens] * tokens if native else [gap]
    return found


def main() -> None:
    stub("sglang", "aiohttp", "tqdm", "transformers", "requests")
    import msgspec
    from sglang.benchmark import goodput, serving

    tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: [])

    def figures(case: Case, native: bool) -> dict[str, Any]:
        outputs = [
            serving.RequestFuncOutput(
                success=one.completed,
                latency=(one.ended - one.issued) / S,
                ttft=(one.chunks[0][0] - one.issued) / S if one.chunks else 0.0,
                itl=_gaps(one, native),
                output_len=one.output_tokens,
                prompt_len=one.input_tokens,
                start_time=one.issued / S,
            )
            for one in case.sent
        ]
        rows = [
            SimpleNamespace(prompt_len=one.input_tokens, text_prompt_len=one.input_tokens, vision_prompt_len=0)
            for one in case.sent
        ]
        span_s = (max(one.ended for one in case.sent) - min(one.issued for one in case.sent)) / S
        backend = "sglang" if native else "sglang-oai-chat"
        found, _ = quiet(serving.calculate_metrics, rows, outputs, span_s, tokenizer, backend)
        names = {
            "total_input": "total_input_tokens",
            "total_input_text": "total_input_text_tokens",
            "total_input_vision": "total_input_vision_tokens",
            "total_output": "total_output_tokens",
        }
        known = {names.get(name, name): value for name, value in asdict(found).items() if "retokenized" not in name}
        if case.limits:
            good = goodput.calculate_goodput(outputs, dict(case.limits), span_s)
            known |= msgspec.structs.asdict(good)
        return {"duration": span_s, **known}

    answer = {
        "cases": {name: figures(case, False) for name, case in CASES.items()},
        "native": {name: figures(case, True) for name, case in CASES.items()},
        "keys": dict_keys(serving.__file__),
    }
    json.dump(answer, sys.stdout, default=float)


main()
