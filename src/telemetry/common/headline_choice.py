"""The user's choice of figures to show first: names such as `loss` and `p99(latency)`. Pure.

The choice travels as a parameter of the run. Only the headline reads it; it is not shown among the parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from telemetry.errors import UsageError

PARAM: Final = "telemetry.headline"
"""Parameter with the choice: a JSON list of names."""
MOST: Final = 7
"""Largest number of figures of a headline."""
FUNCTIONS: Final = (
    *("mean", "min", "max", "count", "total", "rate", "first", "last", "best"),
    *("failed", "goodput", "attainment"),
)
"""Functions besides percentiles, which are `p50`, `p99`, `p99.9` and the like."""

_NAME_CHARS: Final = 300
_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d{1,7})?|100)", re.ASCII)
_CALL: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.]*)\s*\((.*)\)", re.DOTALL)
_LABELLED: Final = re.compile(r"([^{}]+)\{([^{}]*)\}")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class HeadlineChoice:
    """One chosen figure: `p99(latency{route=/search})` has all three parts."""

    text: str
    name: str
    function: str = ""
    """A percentile such as `p99`, or one of FUNCTIONS. Empty: what is most telling about the name."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def percentile(self) -> str:
        """Key of the percentile, such as `99.9`; empty for other functions."""
        match = _PERCENTILE.fullmatch(self.function)
        return match[1] if match else ""


def parse(text: str) -> HeadlineChoice:
    """Parse one name of the choice. Raise UsageError if it can't be one."""
    expression = text.strip() if isinstance(text, str) else ""
    if not expression or len(expression) > _NAME_CHARS or not expression.isprintable():
        raise UsageError(
            f"{text!r} is not a figure of a headline", hint='give a name such as "loss" or "p99(latency)"'
        )
    call = _CALL.fullmatch(expression)
    function, inside = (call[1], call[2].strip()) if call else ("", expression)
    if function and function not in FUNCTIONS and not _PERCENTILE.fullmatch(function):
        raise UsageError(
            f"{expression!r}: unknown function {function!r}", hint=f"use p50, p99 or {', '.join(FUNCTIONS)}"
        )
    labelled = _LABELLED.fullmatch(inside)
    name = labelled[1].strip() if labelled else inside
    if not name or any(char in name for char in "(){}"):
        raise UsageError(f"{expression!r} has no name of a metric", hint='write it as "p99(latency)"')
    return HeadlineChoice(expression, name, function, _labels(labelled[2], expression) if labelled else {})


def encoded(names: Sequence[str]) -> str:
    """Return the choice as the value of its parameter. Raise UsageError for a name that can't be shown."""
    if not names or len(names) > MOST:
        raise UsageError(
            f"a headline has 1 to {MOST} figures, got {len(names)}", hint='such as headline("loss", "p99(latency)")'
        )
    return json.dumps([parse(name).text for name in names], ensure_ascii=False)


def chosen(params: Mapping[str, object]) -> list[HeadlineChoice]:
    """Return the choice among the parameters of a run; empty without a choice or with an unreadable one."""
    value = params.get(PARAM)
    try:
        names = json.loads(value) if isinstance(value, str) else []
        return [parse(name) for name in names][:MOST] if isinstance(names, list) else []
    except (ValueError, RecursionError, UsageError):
        return []


def shown_params(params: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the parameters without the choice, for lists that people read."""
    return {name: value for name, value in params.items() if name != PARAM}


def _labels(text: str, expression: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not key.strip() or not equals for key, equals, _ in pairs):
        raise UsageError(f"{expression!r}: labels are written as {{name=value}}")
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
