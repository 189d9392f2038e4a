"""Figures of `report --as`, compared with those that the tools' own functions computed for the same requests.

The stored figures are renewed by hand: `python -m tests.golden.other_tools.record`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.golden.other_tools.cases import CASES, EQUAL, Case, Sent
from tests.golden.other_tools.record import differences, golden

from telemetry.common import slo
from telemetry.report.other_tools import aiperf, sglang, vllm
from telemetry.report.other_tools.answers import AnswerCollector, Answers
from telemetry.report.other_tools.selection import Selection
from telemetry.report.other_tools.tool import TOOLS, parse_tool
from telemetry.wire.request_log import RequestEntry

UNKNOWN = {"total_output_tokens_retokenized", "accept_length"}
"""Figures that need texts or a server."""
DECIDED_BY_ROUNDING = {"request_goodput", "slo_attainment", "slo_attainment_by_metric"}


def entry(number: int, sent: Sent) -> RequestEntry:
    """Return a request as it stands in the request log."""
    times = [at for at, _ in sent.chunks]
    tokens = [tokens for _, tokens in sent.chunks]
    return RequestEntry(
        number=number,
        issued_ns=sent.issued,
        ended_ns=sent.ended,
        outcome="completed" if sent.completed else "failed",
        first_ns=times[0] if times else None,
        first_tokens=tokens[0] if times else None,
        gaps_ns=[after - before for before, after in pairwise(times)],
        chunk_tokens=tokens[1:],
        input_tokens=sent.input_tokens,
        output_tokens=sent.output_tokens,
    )


def answers(case: Case, offset_ns: int = 0) -> tuple[Answers, dict[str, int]]:
    """Return the requests of a case, and its limits in ns."""
    limits = slo.parse([f"{key}:{limit}" for key, limit in case.limits.items()]) if case.limits else {}
    collector = AnswerCollector(limits)
    for number, sent in enumerate(case.sent):
        collector.add(entry(number, sent), offset_ns)
    return collector.answers(), limits


def stored(tool: str) -> dict[str, Any]:
    """Return the stored figures of a tool."""
    found: dict[str, Any] = json.loads(golden(tool).read_text())
    return found


def known(found: dict[str, Any], *left_out: str) -> dict[str, Any]:
    """Return figures without those that can't be known, and without absent ones."""
    return {key: value for key, value in found.items() if key not in {*UNKNOWN, *left_out}}


@pytest.mark.parametrize("name", [name for name in CASES if name != EQUAL])
def test_vllm(name: str) -> None:
    """All figures of `vllm bench serve` come out as vLLM computes them."""
    found = vllm.figures(*answers(CASES[name]))
    assert list(differences(stored("vllm")["cases"][name], found)) == []


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if name != EQUAL])
def test_sglang(name: str, native: bool) -> None:
    """All figures of SGLang's bench_serving come out as SGLang computes them, on both kinds of backend."""
    found = sglang.figures(*answers(CASES[name]), native=native)
    wanted = stored("sglang")["native" if native else "cases"][name]
    assert list(differences(known(wanted), known(found))) == []


@pytest.mark.parametrize("name", list(CASES))
def test_aiperf(name: str) -> None:
    """All figures of aiperf come out as aiperf computes them; none is missing or new but those of failed input."""
    found = known(aiperf.figures(*answers(CASES[name])), "error_isl", "total_error_isl")
    assert list(differences(stored("aiperf")["cases"][name], found)) == []


def test_a_request_equal_to_its_limit_is_good() -> None:
    """A request exactly at its limit is good, where rounding of floats makes vLLM and SGLang say otherwise."""
    requests, limits = answers(CASES[EQUAL])
    for tool, figures in (("vllm", vllm.figures(requests, limits)), ("sglang", sglang.figures(requests, limits))):
        wanted = stored(tool)["cases"][EQUAL]
        rounded = DECIDED_BY_ROUNDING & set(wanted)
        assert list(differences(known(wanted, *rounded), known(figures, *rounded))) == []
        assert figures["request_goodput"] * figures["duration"] == pytest.approx(1)
        assert wanted["request_goodput"] == 0.0


@pytest.mark.parametrize("name", ["five requests", "chunks of many tokens", "a thousand requests"])
def test_figures_do_not_depend_on_the_clock(name: str) -> None:
    """The same requests months later, on a clock of large numbers, have the same figures."""
    early, limits = answers(CASES[name])
    late, _ = answers(CASES[name], 1_790_000_000_000_000_000)
    assert list(differences(vllm.figures(early, limits), vllm.figures(late, limits))) == []
    assert list(differences(sglang.figures(early, limits), sglang.figures(late, limits))) == []
    assert list(differences(aiperf.figures(early, limits), aiperf.figures(late, limits))) == []


def test_names_are_those_of_the_tools() -> None:
    """Each field of our JSON stands in the source of the tool, but figures whose name it puts together."""
    selection = Selection(answers(CASES["five requests"])[0], "llm", {"ttft": 10**9})
    for tool, document in (
        ("vllm", vllm.document(selection)),
        ("sglang", sglang.document(selection, native=False)),
    ):
        put_together = {key for key in document if tool == "vllm" and key.endswith("_ms")}
        missing = {*document} - {*stored(tool)["keys"]} - put_together
        assert missing <= {"max_itl_ms", "goodput_slos_ms", "request_goodput", "slo_attainment"} | {
            "slo_attainment_by_metric"
        }


def test_versions_are_those_of_the_stored_figures() -> None:
    """The version that `--as` names is the one whose functions were run."""
    for tool in TOOLS:
        assert stored(tool.name.removesuffix("-native"))["version"] == tool.version
        assert parse_tool(f"{tool.name}@{tool.version}") == tool
