"""Plots are values."""

from __future__ import annotations

from telemetry.tui.model.plot import Plot, Trace


def test_equal_contents_are_equal_plots() -> None:
    """Plots of equal contents are equal, so a widget sees that there is nothing to draw anew."""

    def plot(value: float) -> Plot:
        return Plot(traces=(Trace("p99", (0.0, 1.0), (1.0, value)),))

    assert plot(2.0) == plot(2.0)
    assert plot(2.0) != plot(3.0)
