"""The input line of a filter, and screens that have one."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from telemetry import limits
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.screens.base import CockpitScreen


class FilterLine(Input):
    """An input line that is visible only while it is open."""

    DEFAULT_CSS = "FilterLine { display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", show=False),
        Binding("up,down", "submit", show=False),
    ]

    class Typed(Message):
        """The current words of the filter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.words = text

    def __init__(self) -> None:
        super().__init__(
            placeholder="words in a name or its labels",
            compact=True,
            select_on_focus=False,
            max_length=limits.NAME_CHARS,
        )

    def open(self, text: str) -> None:
        self.display = True
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.screen.set_focus(self)

    def close(self) -> None:
        """Give focus back to the table at once: no other widget may get it in between."""
        if isinstance(self.screen, FilteringScreen):
            self.screen.set_focus(self.screen.query_one(f"#{self.screen.main}"))
        self.display = False

    def action_give_up(self) -> None:
        self.post_message(self.Typed(""))
        self.close()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    async def action_submit(self) -> None:
        self.close()


class FilteringScreen(CockpitScreen):
    """A screen with a `FilterLine`."""

    MAIN: ClassVar[str]
    """Id of the table that is sorted and filtered."""

    @property
    def main(self) -> str:
        """Id of the widget that has the keyboard when the filter is closed."""
        return self.MAIN

    def ask_filter(self, text: str) -> None:
        self.query_one(FilterLine).open(text)

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return the sort keys of the table."""
        raise NotImplementedError

    @property
    def asks(self) -> bool:
        return bool(self.query_one(FilterLine).display)
