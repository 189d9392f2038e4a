"""One curve on the whole screen: a value of steps, a counter or a gauge, with a cursor that reads it."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from telemetry.tui.keys import bindings
from telemetry.tui.model.curve_detail import ZOOM_MOST, Cursor, CurveDetail, step_detail, value_detail
from telemetry.tui.model.grid import Line
from telemetry.tui.model.plot import Plot
from telemetry.tui.screens.base import CockpitScreen, ScreenContent
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView

_FAR: Final = 10
"""Points that page up and page down move the cursor by."""
REDRAWN_NS: Final = 1_000_000_000
"""Time between redraws for news: curves grow once a second, and drawing one costs 10 ms."""


class CurveScreen(CockpitScreen):
    """A plot below the facts about it. The cursor follows the newest point until it is moved."""

    PLACE = "curve"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("curve"),
        Binding("up", "walk(-1)", show=False),
        Binding("down", "walk(1)", show=False),
        Binding("pageup", f"far({-_FAR})", show=False),
        Binding("pagedown", f"far({_FAR})", show=False),
        Binding("home", "start", show=False),
    ]

    class Walked(Message):
        """A request for the next value of steps, or for the one before."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self) -> None:
        super().__init__()
        self._cursor = Cursor()
        self._places: tuple[float, ...] = ()
        self._drawn: tuple[object, ...] = ()
        self._drawn_ns = 0

    def body(self) -> ComposeResult:
        yield HeaderView(id="curve-facts")
        yield PlotView(id="curve")

    def move(self, points: int) -> None:
        """Move the cursor by so many points."""
        places = self._places
        if places:
            position = self._cursor.place
            at = len(places) - 1 if position is None else bisect_left(places, position)
            to = at + points
            last = to >= len(places) and not self._cursor.zoom
            self._put(Cursor(None if last else places[min(max(to, 0), len(places) - 1)], self._cursor.zoom))

    def zoom(self, step: int) -> None:
        """Halve the range around the cursor, or double it."""
        self._put(Cursor(self._cursor.place, min(max(self._cursor.zoom + step, 0), ZOOM_MOST)))

    def go_to_end(self) -> None:
        self._put(Cursor(None, self._cursor.zoom))

    def action_far(self, points: int) -> None:
        self.move(points)

    def action_start(self) -> None:
        if self._places:
            self._put(Cursor(self._places[0], self._cursor.zoom))

    def action_walk(self, step: int) -> None:
        self.post_message(self.Walked(step))

    def draw_body(self, shown: ScreenContent) -> Line:
        scene = shown.scene
        asked = (shown.view, shown.opened, self._cursor, self.size, scene.baseline)
        news = (scene.curves, shown.values)
        is_due = not self._places or shown.now_ns - self._drawn_ns >= REDRAWN_NS
        if (asked,) != self._drawn[:1] or (is_due and not _alike(news, self._drawn[1:])):
            self._drawn, self._drawn_ns = (asked, *news), shown.now_ns
            detail = self._detail(shown)
            self._places = detail.places
            self.query_one("#curve-facts", HeaderView).show(detail.facts)
            self.query_one("#curve", PlotView).show(detail.plot)
        return ()

    def _detail(self, shown: ScreenContent) -> CurveDetail:
        opened, width = shown.opened, self.size.width - 2
        if opened is None:
            return CurveDetail((), Plot(empty=""))
        if opened.kind == "steps":
            return step_detail(shown.scene, shown.view, opened.steps, self._cursor, width)
        values = opened.series, shown.values
        return value_detail(shown.scene, shown.view, values, self._cursor, width)

    def _put(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.post_message(self.Wanted())


def _alike(news: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Return whether these are the same objects: new curves are new ones."""
    return all(item is other for item, other in zip(news, before, strict=False))
