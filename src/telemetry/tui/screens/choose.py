"""A dialog to choose one of several entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from telemetry.common.formatting import printable


class ChooseScreen(ModalScreen[str | None]):
    """A dialog that returns the word of the chosen entry, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "give_up", show=False)]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        """Store the choices, at least one: pairs of (word, shown text)."""
        super().__init__()
        self._title = title
        self._choices = choices

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content(self._title), id="question")
            yield OptionList(*(Option(Content(printable(label))) for _, label in self._choices), compact=True)
            yield Static(Content("⏎ choose   esc cancel"), id="hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][0])

    def action_give_up(self) -> None:
        self.dismiss(None)
