"""One of several, to choose."""

from __future__ import annotations

import pytest
from textual.app import App

from telemetry.tui.screens.dialogs import ChooseScreen

pytestmark = pytest.mark.slow


class Choosing(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.answers: list[str | None] = []

    def on_mount(self) -> None:
        choices = [("a", "first [b]one[/b]"), ("b", "second\x1b[31m")]
        self.push_screen(ChooseScreen("Which?", choices), self.answers.append)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(["enter"], "a"), (["down", "enter"], "b"), (["escape"], None), (["q"], None)],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
async def test_the_chosen_one_is_answered(keys: list[str], answer: str | None) -> None:
    """The chosen entry is answered by its own word, and a dialog that is left by nothing."""
    app = Choosing()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
    assert app.answers == [answer]


async def test_names_are_shown_as_they_are() -> None:
    """Names are shown as they are: markup is not read, and control characters are written out."""
    app = Choosing()
    async with app.run_test() as pilot:
        await pilot.pause()
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "first [b]one[/b]" in shown
        assert r"second\x1b[31m" in shown
