"""Tables of completions: what of them is recorded, with texts and without."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from telemetry.integrations.transformers.completions import TEXTS_VARIABLE, table_of

LOGS: dict[str, Any] = {
    "images": deque(),
    "prompt": deque(["ab", "abc"]),
    "completion": deque(["x", "xyz"]),
    "rewards": {"length": deque([1.0, 3.0])},
    "advantages": deque([-0.5, 0.5]),
    "extra": {"source": deque(["book", None]), "score": deque([1, None])},
}


@pytest.fixture(autouse=True)
def _no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TEXTS_VARIABLE, raising=False)


def test_texts_become_numbers_of_characters() -> None:
    """Columns of numbers stay as they are."""
    assert table_of(LOGS) == (
        ["prompt_chars", "completion_chars", "length", "source_chars", "score", "advantage"],
        [(2, 1, 1.0, 4, 1, -0.5), (3, 3, 3.0, None, None, 0.5)],
    )


@pytest.mark.parametrize("value", ["0", "", "no"])
def test_only_1_switches_texts_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other value keeps texts out."""
    monkeypatch.setenv(TEXTS_VARIABLE, value)
    made = table_of(LOGS)
    assert made is not None
    assert "prompt" not in made[0]


def test_texts_are_there_when_the_user_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of characters stay beside them."""
    monkeypatch.setenv(TEXTS_VARIABLE, "1")
    made = table_of(LOGS)
    assert made is not None
    rows = [dict(zip(made[0], row, strict=True)) for row in made[1]]
    assert [(row["prompt"], row["completion"], row["source"]) for row in rows] == [
        ("ab", "x", "book"),
        ("abc", "xyz", None),
    ]


def test_conversations_become_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is a line, and a picture is named only."""
    monkeypatch.setenv(TEXTS_VARIABLE, "1")
    parts = [{"type": "image"}, {"type": "text", "text": "what is it?"}]
    prompt = [{"role": "system", "content": "be brief"}, {"role": "user", "content": parts}]
    made = table_of({"prompt": [prompt], "completion": [[{"role": "assistant", "content": None}]]})
    assert made is not None
    (row,) = (dict(zip(made[0], row, strict=True)) for row in made[1])
    assert row["prompt"] == "system: be brief\nuser: [image] what is it?"
    assert row["completion"] == "assistant: "


@pytest.mark.parametrize("logs", [None, [], {}, {"prompt": deque(), "completion": deque()}, {"prompt": ["a"]}])
def test_without_completions_there_is_no_table(logs: object) -> None:
    """A trainer that keeps completions in another form is left alone."""
    assert table_of(logs) is None
