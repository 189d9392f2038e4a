"""One widget on a screen, and what can be read of it."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from telemetry.tui.widgets.grid_view import GridView


class Showing(App[None]):
    """Keeps what the widget has posted in `told`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *shown: Widget) -> None:
        super().__init__()
        self._shown = shown
        self.told: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield from self._shown

    def on_grid_view_opened(self, message: GridView.Opened) -> None:
        self._tell("opened", message, message.key)

    def on_grid_view_header_clicked(self, message: GridView.HeaderClicked) -> None:
        self._tell("header", message, message.key)

    def _tell(self, what: str, message: Message, key: str) -> None:
        assert message.control in self._shown
        self.told.append((what, key))


def strips(widget: Widget) -> list[Strip]:
    return widget.render_lines(widget.size.region)


def picture(widget: Widget) -> list[str]:
    """The widget's lines, without the blanks at their ends."""
    return [strip.text.rstrip() for strip in strips(widget)]
