"""Warnings, marks, and the output of the wrapped command."""

from __future__ import annotations

from textual.app import ComposeResult

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.log import log
from telemetry.tui.screens.base import CockpitScreen, ScreenContent
from telemetry.tui.widgets.lines_view import LinesView


class LogScreen(CockpitScreen):
    PLACE = "log"
    BINDINGS = bindings("log")

    def body(self) -> ComposeResult:
        yield LinesView(id="log")

    def draw_body(self, shown: ScreenContent) -> Line:
        self.query_one(LinesView).show(log(shown.scene))
        return ()
