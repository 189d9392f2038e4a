"""Explanations of terms in titles."""

from __future__ import annotations

import pytest

from telemetry.report.html.help import explanation, question


@pytest.mark.parametrize(
    ("title", "beginnings"),
    [
        ("llm.ttft: percentiles", ["TTFT:", "Percentile:"]),
        ("TPOT p99 bounds", ["TPOT:", "Percentile:", "Bounds:"]),
        ("llm.itl p99.9", ["ITL:", "Percentile:"]),
        ("attainment", ["Attainment:"]),
        ("llm goodput", ["Goodput:"]),
        ("Requests per second completed within limits", ["Goodput:"]),
        ("Requests in flight", ["Concurrency:"]),
        ("train/loss p2", []),
        ("hitless capitl", []),
    ],
)
def test_terms_of_a_title_are_explained(title: str, beginnings: list[str]) -> None:
    """Whole words count, in any case; a title without terms has no explanation."""
    found = explanation(title)
    assert [part for part in found.split() if part.endswith(":")] == beginnings
    assert bool(question(title)) == bool(beginnings)


def test_a_question_mark_can_be_reached_and_read_aloud() -> None:
    """A question mark is a button whose name is the explanation. The visible text is not read a second time."""
    text = explanation("ttft")
    html = question("ttft")
    assert f'<button type="button" aria-label="{text}">?</button>' in html
    assert f'<span aria-hidden="true">{text}</span>' in html
