"""A bound shared by several owners."""

from __future__ import annotations

from telemetry.aggregator.budgets import Budget


def test_takes_all_or_nothing() -> None:
    """A request beyond what is left changes nothing."""
    budget = Budget(5)
    assert budget.take(3)
    assert not budget.take(3)
    assert budget.left == 2
    budget.give_back(3)
    assert budget.take(5)
