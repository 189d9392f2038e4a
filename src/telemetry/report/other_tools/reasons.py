"""Reasons why a figure of another tool differs from ours, each with the question whether it applies to a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from telemetry.report.other_tools.selection import Selection

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


def facts(selection: Selection, known_limits: Collection[str]) -> frozenset[Fact]:
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
