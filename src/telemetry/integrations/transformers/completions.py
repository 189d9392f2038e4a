"""Tables of completions that a trainer of TRL has logged. Texts are left out unless the user asks for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from numbers import Number
from typing import Any, Final

TEXTS_VARIABLE: Final = "TELEMETRY_CAPTURE_TEXTS"
"""With the value `1`, tables have the texts of prompts and completions."""
_TEXTS: Final = ("prompt", "completion")


def table_of(logs: object) -> tuple[list[str], list[tuple[Any, ...]]] | None:
    """Return columns and rows of what a trainer has collected. Return None if there are no completions.

    A text becomes the number of its characters, in a column such as `prompt_chars`. This is also done to columns
    that the program has added itself.
    """
    if not isinstance(logs, Mapping) or not all(logs.get(name) for name in _TEXTS):
        return None
    columns: dict[str, list[Any]] = {}
    with_texts = os.environ.get(TEXTS_VARIABLE) == "1"
    for name in _TEXTS:
        _add(columns, name, list(logs[name]), with_texts)
    for group in ("rewards", "extra"):
        for name, values in logs.get(group, {}).items():
            _add(columns, name, list(values), with_texts)
    if logs.get("advantages"):
        _add(columns, "advantage", list(logs["advantages"]), with_texts)
    return list(columns), list(zip_longest(*columns.values()))


def _add(columns: dict[str, list[Any]], name: str, values: list[Any], with_texts: bool) -> None:
    if all(value is None or isinstance(value, Number) or hasattr(value, "item") for value in values):
        columns[name] = values
        return
    texts = [None if value is None else _text(value) for value in values]
    columns[f"{name}_chars"] = [None if text is None else len(text) for text in texts]
    if with_texts:
        columns[name] = texts


def _text(value: Any) -> str:
    """Return a prompt or completion as text: of a conversation, its messages line by line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(part, Mapping) for part in value):
        return "\n".join(_message(part) for part in value)
    return str(value)


def _message(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, Iterable) and not isinstance(content, str):
        parts = [part.get("text", f"[{part.get('type')}]") for part in content if isinstance(part, Mapping)]
        content = " ".join(map(str, parts))
    return f"{message.get('role', '')}: {content or ''}"
