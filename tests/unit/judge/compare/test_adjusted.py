"""Intervals that hold together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.judge.compare.evidence import confidences
from telemetry.statistics.runs import holm

P_VALUES = st.lists(st.floats(0, 1), max_size=20)


@given(P_VALUES, st.sampled_from([0.01, 0.05, 0.2]))
def test_an_interval_excludes_0_exactly_if_its_figure_is_called_different(
    p_values: list[float], level: float
) -> None:
    """An interval of confidence 1 - a excludes 0 exactly if p < a. That must be the verdict of Holm's method."""
    for p_value, adjusted, confidence in zip(p_values, holm(p_values), confidences(p_values, level), strict=True):
        own = 1.0 - confidence
        if abs(adjusted - level) > 1e-9 and abs(p_value - own) > 1e-9:
            assert (p_value < own) == (adjusted < level)


def test_the_levels_are_those_of_the_steps() -> None:
    """The first that is not different, and all after it, share one level."""
    found = confidences([0.2, 0.001, 0.5, 0.012], 0.05)
    assert found == pytest.approx([1 - 0.05 / 2, 1 - 0.05 / 4, 1 - 0.05 / 2, 1 - 0.05 / 3])
    assert confidences([0.03], 0.05) == pytest.approx([0.95])
    assert confidences([], 0.05) == []


@given(P_VALUES)
def test_together_they_are_as_sure_as_asked(p_values: list[float]) -> None:
    """Each confidence is at least that of one figure alone and at most that of Bonferroni's method."""
    for confidence in confidences(p_values, 0.05):
        assert 0.95 - 1e-12 <= confidence <= 1 - 0.05 / len(p_values) + 1e-12
