"""What a plot shows: points with names, and where the axes are marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from telemetry.tui.model.grid import Tone

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """One line. `xs` ascend; both are finite and of one length."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Plot:
    title: str = ""
    traces: tuple[Trace, ...] = ()
    kind: Literal["lines", "bars"] = "lines"
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    cursor: float | None = None
    """A moment on the x axis that is marked."""
    empty: str = "no values yet"
    """Said where there is nothing to draw."""
