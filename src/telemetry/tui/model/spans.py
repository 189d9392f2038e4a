"""A line of the overview: the spans with the largest self time, and their share."""

from __future__ import annotations

from itertools import islice
from typing import Final

from telemetry import formatting
from telemetry.formatting import printable
from telemetry.span_model import SpanTimes, span_times
from telemetry.tui.model.grid import Line
from telemetry.tui.model.lines import Piece, fitted
from telemetry.tui.model.scene import Scene
from telemetry.wire.spans import UNIT

_SHOWN: Final = 8


def spans_line(scene: Scene, width: int) -> Line:
    """Return the line, `time  rollout 62 % 8.11 s · update 32 % 4.20 s`. Spans that do not fit are left out.

    Empty without spans with a self time, and for a moment in the past, whose self times are not known.
    """
    if scene.snapshot is None or scene.moment is not None:
        return ()
    found = [one for one in span_times(scene.snapshot) if one.share is not None]
    if not found:
        return ()
    pieces = [_piece(one, at) for at, one in enumerate(islice(found, _SHOWN))]
    first, *others = pieces
    return fitted([first._replace(text=f"time  {first.text}"), *others], width)


def _piece(one: SpanTimes, at: int) -> Piece:
    share = formatting.percent(one.share or 0.0)
    return Piece(f"{printable(one.name)} {share} {formatting.quantity(one.self_ms, UNIT)}", keep=at)
