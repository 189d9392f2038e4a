"""Tests of what an aggregator is built with."""

from __future__ import annotations

import pytest

from telemetry.aggregator.config import AggregatorConfig


@pytest.mark.parametrize(("window_s", "rolls"), [(10, 10), (0, 1), (2.6, 3)])
def test_the_window_is_whole_rolls_and_never_empty(window_s: float, rolls: int) -> None:
    """Any length becomes a number of one-second rolls, at least one."""
    assert AggregatorConfig(window_s=window_s).window_rolls == rolls
