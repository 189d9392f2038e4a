"""The content of a plot: named traces, and the ticks of both axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from telemetry.tui.model.grid import Tone

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """A line of a plot. `xs` ascend. `xs` and `ys` are finite and equally long; the line has a gap at a None."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
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
    """A marked moment on the x axis."""
    empty: str = "no values yet"
    """Text shown in place of an empty plot."""
