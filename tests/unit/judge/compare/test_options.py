"""Tests of the options of a comparison."""

from __future__ import annotations

import pytest

from telemetry.errors import UsageError
from telemetry.judge.compare.options import Options


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 1.5, float("nan")])
def test_a_confidence_is_between_0_and_1(confidence: float) -> None:
    """Certainty is not on offer."""
    with pytest.raises(UsageError, match="confidence"):
        Options(confidence=confidence)


@pytest.mark.parametrize("effect", [-0.01, 1.0, float("nan")])
def test_a_smallest_effect_is_a_share(effect: float) -> None:
    """Below 0 and from 100 % on it says nothing."""
    with pytest.raises(UsageError, match="min_effect="):
        Options(min_effect=effect)


def test_the_level_is_what_the_confidence_leaves() -> None:
    """Exactly, so that a p-value of 0.05 is not below it."""
    assert Options().level == 0.05
    assert Options(confidence=0.999).level == 0.001
