"""Steps: the curves of all values as a grid; or as tables with the state of every axis and the backends."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from telemetry.tui.keys import bindings
from telemetry.tui.model.backends import backends_line
from telemetry.tui.model.grid import Line
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.step_grid import CurveId, step_grid
from telemetry.tui.model.steps import StepsContent, caption, chosen, steps
from telemetry.tui.model.stragglers import stragglers, verdict
from telemetry.tui.screens.base import FilteringScreen, FilterLine, ScreenContent, ValuesTable
from telemetry.tui.widgets.curve_grid import CurveGrid
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView

FRAME_LINES: Final = 10
"""Lines of the frame at most: header, tabs, the titles of three tables and lines between them, the keys."""
TABLES: Final = ("axes", "values", "backends")


class StepsScreen(FilteringScreen):
    """The grid of curves, or three tables: the first chooses the axis of the second, and of the slow ranks."""

    PLACE = "steps"
    MAIN = "values"
    AUTO_FOCUS = "#curves"
    BINDINGS = bindings("steps")

    def __init__(self) -> None:
        super().__init__()
        self._wants_tables = False
        self._has_curves = True

    def body(self) -> ComposeResult:
        with Container(id="steps"):
            yield GridView(id="axes")
            yield HeaderView(id="stragglers")
            yield CurveGrid(id="curves")
            yield ValuesTable(id="values")
            yield ValuesTable(id="backends")
        yield HeaderView(id="step-backends")
        yield FilterLine()

    @property
    def shows_curves(self) -> bool:
        """True if the curves are shown, False if the tables are."""
        return self._has_curves and not self._wants_tables

    @property
    def has_both(self) -> bool:
        """True if there are curves to switch to, or to switch from."""
        return self._has_curves

    @property
    def main(self) -> str:
        return "curves" if self.shows_curves else self.MAIN

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return no keys: values of different names can't be compared."""
        return ()

    def switch(self) -> None:
        """Show the tables instead of the curves, or the curves again."""
        self._wants_tables = not self._wants_tables
        self.post_message(self.Wanted())

    def open(self) -> None:
        self.query_one(CurveGrid).action_open()

    def beside(self, step: int) -> CurveId | None:
        """Move the cursor of the grid to the next curve or to the one before. Return the selected curve."""
        grid = self.query_one(CurveGrid)
        grid.action_move(step, 0)
        return grid.cursor

    def next_pane(self) -> None:
        """Give focus to the next visible table."""
        there = [table for name in TABLES if (table := self.query_one(f"#{name}", GridView)).display]
        at = next((index for index, table in enumerate(there) if table.has_focus), -1)
        if there:
            there[(at + 1) % len(there)].focus()

    def on_grid_view_moved(self) -> None:
        self.post_message(self.Wanted())

    def draw_body(self, shown: ScreenContent) -> Line:
        scene = shown.scene
        has_axes = scene.snapshot is not None and bool(scene.snapshot.axes)
        # Without readable records there are no curves; the tables have the newest values.
        self._has_curves = has_axes and scene.curves != ()
        curves, tables = self.query_one(CurveGrid), self.shows_curves is False
        curves.display = not tables
        self.query_one("#step-backends", HeaderView).display = not tables
        line = self._draw_tables(shown) if tables else self._draw_curves(shown, curves)
        self._keep_focus(curves, tables=tables)
        return line

    def _keep_focus(self, curves: CurveGrid, *, tables: bool) -> None:
        """Move the keyboard to what has just become visible."""
        if self.asks:
            return
        if tables and (self.focused is curves or self.focused is None):
            self.query_one("#axes").focus()
        elif not tables and self.focused is not curves:
            curves.focus()

    def _draw_curves(self, shown: ScreenContent, curves: CurveGrid) -> Line:
        for name in TABLES:
            self.query_one(f"#{name}", GridView).display = False
        scene, width = shown.scene, self.size.width - 2
        slow = self.query_one("#stragglers", HeaderView)
        lines = verdict(scene, width)
        slow.display = bool(lines)
        slow.show(lines, shown.now_ns)
        grid = step_grid(scene, shown.view, width - 1)
        curves.show(grid, shown.now_ns)
        line = backends_line(scene, width)
        self.query_one("#step-backends", HeaderView).show((line,) if line else ())
        return caption(scene, shown.view, len(grid.cards), self.size.width)

    def _draw_tables(self, shown: ScreenContent) -> Line:
        slow = self._draw_stragglers(shown)
        axes, values, backends = (self.query_one(f"#{name}", GridView) for name in TABLES)
        width = self.size.width
        content = steps(shown.scene, shown.view, axes.cursor, width, places=True)
        roomy = self._has_room(content, slow)
        if not roomy and not backends.has_focus:
            content = steps(shown.scene, shown.view, axes.cursor, width)
            roomy = self._has_room(content, slow)
        self.set_class(roomy, "-roomy")
        backends.styles.max_height = self._most_of_backends(content, slow, focused=backends.has_focus)
        backends.display = bool(content.backends.rows)
        axes.display = values.display = bool(content.axes.rows) or not backends.display
        axes.show(content.axes, shown.now_ns)
        values.show(content.values, shown.now_ns)
        backends.show(content.backends, shown.now_ns)
        return content.caption

    def _draw_stragglers(self, shown: ScreenContent) -> int:
        """Draw the slow ranks of the selected axis. Return the number of lines."""
        axis = chosen(shown.scene, self.query_one("#axes", GridView).cursor)
        view = self.query_one("#stragglers", HeaderView)
        width, height = self.size
        lines = stragglers(shown.scene, axis.name if axis is not None else None, width - 2, height)
        view.display = bool(lines)
        view.show(lines)
        return len(lines)

    def _most_of_backends(self, content: StepsContent, slow: int, *, focused: bool) -> int:
        """Return the lines for backends: those left by the others, a third of the screen, or more with focus."""
        height = self.size.height
        left = height - FRAME_LINES + len(TABLES) - slow - len(content.axes.rows) - len(content.values.rows)
        return max(left, height * 6 // 10 if focused else height // 3)

    def _has_room(self, content: StepsContent, slow: int) -> bool:
        rows = slow + sum(len(grid.rows) for grid in (content.axes, content.values, content.backends))
        return self.size.height >= FRAME_LINES + rows
