"""Drill-down into the row of a table or a grid: a series, a counter, a gauge, a value of steps, or a node."""

from __future__ import annotations

from dataclasses import replace

from telemetry.tui import view_changes
from telemetry.tui.model import nodes, overview
from telemetry.tui.model.scene import Opened, SeriesId
from telemetry.tui.screens.curve import CurveScreen
from telemetry.tui.screens.producers import ProducersScreen
from telemetry.tui.screens.series import SeriesScreen
from telemetry.tui.screens.steps import StepsScreen
from telemetry.tui.viewer import Viewer
from telemetry.tui.widgets.curve_grid import CurveGrid
from telemetry.tui.widgets.grid_view import GridView


class DrillDown(Viewer):
    """The part of the cockpit that opens something on the whole screen, and leaves it again."""

    _followed: SeriesId | None = None

    def on_grid_view_opened(self, event: GridView.Opened) -> None:
        if isinstance(self.cockpit_screen, ProducersScreen):
            self._open_node(event.key)
            return
        series, value = overview.series_of(self.scene, event.key), overview.value_of(event.key)
        if series is not None:
            self._open(Opened("series", series))
        elif value is not None:
            self._open(Opened("value", value))

    def on_curve_grid_opened(self, event: CurveGrid.Opened) -> None:
        self._open(Opened("steps", steps=event.key))

    def _open(self, opened: Opened) -> None:
        if self._open_here is not None:
            return
        self._opened[self.current_mode] = opened
        self._views[self.current_mode] = replace(self.view, zoom=0, pan=0)
        if opened.kind != "steps":
            self._follow(opened.series)
        self.push_screen(SeriesScreen() if opened.kind == "series" else CurveScreen())

    @property
    def _curve(self) -> CurveScreen | None:
        """The curve on the whole screen."""
        screen = self.cockpit_screen
        return screen if isinstance(screen, CurveScreen) else None

    def on_curve_screen_walked(self, event: CurveScreen.Walked) -> None:
        """Show another value of steps on the whole screen."""
        opened, screens = self._open_here, self.screen_stack
        grid = next((screen for screen in screens if isinstance(screen, StepsScreen)), None)
        key = grid.beside(event.step) if grid is not None else None
        if opened is not None and opened.kind == "steps" and key is not None:
            self._opened[self.current_mode] = Opened("steps", steps=key)
            self.draw()

    def _open_node(self, key: str) -> None:
        """Show or hide the producers of a node. Only the root's answer brings them."""
        stat = nodes.node_at(self.scene, key)
        if stat is not None:
            self.see(view_changes.open_node(self.view, nodes.identity(stat)))
            self._ask_for_members()

    def _leave_open(self) -> None:
        del self._opened[self.current_mode]
        self._held_timeline = None
        self._follow(None)
        self.pop_screen()

    def _follow(self, series: SeriesId | None) -> None:
        """Ask the feed for the history of one series at a time."""
        if series != self._followed:
            self._followed = series
            self._feed.follow(series)
