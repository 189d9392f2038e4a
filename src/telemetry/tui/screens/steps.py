"""Steps of every axis, the newest values of one axis, and the backends that receive them."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.steps import Steps, chosen, steps
from telemetry.tui.model.stragglers import stragglers
from telemetry.tui.screens.base import ScreenContent
from telemetry.tui.screens.filter import FilteringScreen, FilterLine
from telemetry.tui.screens.tables import ValuesTable
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView

FRAME_LINES: Final = 10
"""Lines of the frame at most: header, tabs, the titles of three tables and lines between them, the keys."""
TABLES: Final = ("axes", "values", "backends")


class StepsScreen(FilteringScreen):
    """Three tables. The selected row of the first one chooses the axis of the second, and of the slow ranks."""

    PLACE = "steps"
    MAIN = "values"
    AUTO_FOCUS = "#axes"
    BINDINGS = bindings("steps")

    def body(self) -> ComposeResult:
        with Container(id="steps"):
            yield GridView(id="axes")
            yield HeaderView(id="stragglers")
            yield ValuesTable(id="values")
            yield ValuesTable(id="backends")
        yield FilterLine()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return no keys: values of different names can't be compared."""
        return ()

    def next_pane(self) -> None:
        """Give focus to the next visible table."""
        there = [table for name in TABLES if (table := self.query_one(f"#{name}", GridView)).display]
        at = next((place for place, table in enumerate(there) if table.has_focus), -1)
        if there:
            there[(at + 1) % len(there)].focus()

    def on_grid_view_moved(self) -> None:
        self.post_message(self.Wanted())

    def draw_body(self, shown: ScreenContent) -> Line:
        slow = self._draw_stragglers(shown)
        axes, values, backends = (self.query_one(f"#{name}", GridView) for name in TABLES)
        width = self.size.width
        found = steps(shown.scene, shown.view, axes.cursor, width, places=True)
        roomy = self._has_room(found, slow)
        if not roomy and not backends.has_focus:
            found = steps(shown.scene, shown.view, axes.cursor, width)
            roomy = self._has_room(found, slow)
        self.set_class(roomy, "-roomy")
        backends.styles.max_height = self._most_of_backends(found, slow, focused=backends.has_focus)
        backends.display = bool(found.backends.rows)
        axes.display = values.display = bool(found.axes.rows) or not backends.display
        axes.show(found.axes)
        values.show(found.values)
        backends.show(found.backends)
        return found.caption

    def _draw_stragglers(self, shown: ScreenContent) -> int:
        """Draw the slow ranks of the selected axis. Return the number of lines."""
        axis = chosen(shown.scene, self.query_one("#axes", GridView).cursor)
        view = self.query_one("#stragglers", HeaderView)
        width, height = self.size
        lines = stragglers(shown.scene, axis.name if axis is not None else None, width - 2, height)
        view.display = bool(lines)
        view.show(lines)
        return len(lines)

    def _most_of_backends(self, found: Steps, slow: int, *, focused: bool) -> int:
        """Return the lines for backends: those left by the others, a third of the screen, or more with focus."""
        height = self.size.height
        left = height - FRAME_LINES + len(TABLES) - slow - len(found.axes.rows) - len(found.values.rows)
        return max(left, height * 6 // 10 if focused else height // 3)

    def _has_room(self, found: Steps, slow: int) -> bool:
        rows = slow + sum(len(grid.rows) for grid in (found.axes, found.values, found.backends))
        return self.size.height >= FRAME_LINES + rows
