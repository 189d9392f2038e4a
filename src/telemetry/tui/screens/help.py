"""The help: the effects of all keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from telemetry.tui import keys

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
