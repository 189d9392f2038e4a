"""Values in the bodies of the Relax routes: nulls, and events of a timeline."""

from __future__ import annotations

import time
from math import inf, isnan, nan
from typing import Any

import pytest

from telemetry.gateway.routes.relax_bodies import problem_of, with_nan


def event(**changes: Any) -> dict[str, Any]:
    made = {"name": "rollout", "ph": "X", "ts": time.time_ns() // 1_000, "dur": 5, "pid": 1, "tid": 1} | changes
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize("value", [None, [None], [[None, nan], [None]]])
def test_null_is_a_number_that_is_not_finite(value: Any) -> None:
    """A list of only nulls, which a client made of a tensor, is not finite, too."""
    assert isnan(with_nan(value))


@pytest.mark.parametrize("value", [1, 0.5, True, "text", [], {}, [1, [2.5]], ["a"], [event(args=None)], event()])
def test_other_values_stay(value: Any) -> None:
    """Timeline events keep their nulls, too."""
    assert with_nan(value) == value


def test_nulls_inside_are_replaced() -> None:
    """Nulls are replaced in lists and in dictionaries, down to a bounded depth."""
    found = with_nan({"a": None, "b": [1.0, None]})
    assert isnan(found["a"])
    assert (found["b"][0], isnan(found["b"][1])) == (1.0, True)
    deep: Any = None
    for _ in range(10_000):
        deep = [deep]
    assert isinstance(with_nan(deep), list)


@pytest.mark.parametrize("phase", ["X", "B", "E", "i", "I"])
def test_events_of_spans_and_marks_can_be_recorded(phase: str) -> None:
    """A duration is only needed for a complete event."""
    assert problem_of(event(ph=phase)) == ""
    assert problem_of(event(ph=phase, dur=None)) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": None}, "it has no 'name'"),
        ({"ts": None}, "it has no 'ts'"),
        ({"ph": "M"}, "the phase 'M' is neither"),
        ({"ts": "now"}, "not numbers"),
        ({"dur": [1]}, "not numbers"),
        ({"ts": inf}, "not finite"),
        ({"ts": nan}, "not finite"),
        ({"dur": -1}, "negative"),
        ({"ts": 0}, "before this machine started"),
        ({"ts": 1e300}, "before this machine started"),
        ({"ts": 10**400}, "not finite"),
        ({"dur": 1e300}, "too far in the future"),
        ({"dur": inf}, "not finite"),
        ({"args": [1]}, "its args"),
        ({"tid": [1]}, "its pid or tid"),
        ({"pid": {"a": 1}}, "its pid or tid"),
    ],
)
def test_other_events_have_a_reason(changes: dict[str, Any], reason: str) -> None:
    """The answer names it, and no event is lost in silence."""
    assert reason in problem_of(event(**changes))
