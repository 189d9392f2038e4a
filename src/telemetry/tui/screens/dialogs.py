"""Dialogs over a screen: a choice, a question before an action that can't be undone, and the help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from telemetry.common.formatting import printable
from telemetry.tui import keys


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


class ConfirmScreen(ModalScreen[bool]):
    """A dialog that returns True for yes. `no` has focus, so that a stray `enter` is harmless."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str) -> None:
        """Store the question, which is printable text. `yes` names the effect of that answer."""
        super().__init__()
        self._question = question
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content(self._question), id="question")
            with Horizontal(id="answers"):
                yield Button(Content(f"{self._yes} (y)"), id="yes", variant="error", compact=True)
                yield Button(Content("Cancel (esc)"), id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


PROSE: Final = (
    "A click selects a row or sorts by a column; a double click opens. You can also click tabs and "
    "the keys in the last line. Arrow keys, page up and down, home and ctrl+end move. Only stop "
    "affects the run."
)
_KEY_COLUMNS: Final = 7
TWO_COLUMNS_FROM: Final = 80
"""Columns of the screen from which the help has two columns; an entry has up to 40."""


class HelpScreen(ModalScreen[None]):
    """The keys that are available on the screen below. Most keys close it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter,space", "close", show=False)]

    def __init__(self, screen: str, keymap: Mapping[str, str], is_live: Callable[[str], bool]) -> None:
        super().__init__()
        self._keymap = keymap
        # Ask now: the dialog gets focus later.
        self._here = [key for key in keys.TABLE if screen in key.on and is_live(key.id)]

    def compose(self) -> ComposeResult:
        entries = self._entries()
        half = (len(entries) + 1) // 2
        with VerticalScroll(id="dialog", classes="help"):
            with Horizontal(id="keys-table"):
                yield Static(Content("\n").join(entries[:half]))
                yield Static(Content("\n").join(entries[half:]))
            yield Static(Content(PROSE), id="hint")

    def _entries(self) -> list[Content]:
        second = {key.beside for key in self._here}
        return [self._entry(key) for key in self._here if key.id not in second]

    def _entry(self, key: keys.Key) -> Content:
        names = " ".join(keys.all_shown(self._keymap[name]) for name in (key.id, key.beside) if name)
        return Content.assemble((names.rjust(_KEY_COLUMNS), "bold"), "  ", key.help)

    def on_resize(self) -> None:
        two = self.size.width >= TWO_COLUMNS_FROM
        self.query_one("#keys-table").styles.layout = "horizontal" if two else "vertical"

    def action_close(self) -> None:
        self.dismiss(None)
