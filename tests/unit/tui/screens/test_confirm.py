"""The question before something that can't be undone."""

from __future__ import annotations

import pytest
from textual.app import App

from telemetry.tui.screens.dialogs import ConfirmScreen

pytestmark = pytest.mark.slow


class Asking(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bool | None] = []

    def on_mount(self) -> None:
        self.push_screen(ConfirmScreen("Stop [b]it[/b]?", "Stop"), self.answers.append)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], True),
        (["n"], False),
        (["escape"], False),
        (["q"], False),
        (["enter"], False),
        (["left", "enter"], True),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
async def test_only_yes_means_yes(keys: list[str], answer: bool) -> None:
    """A key pressed by accident means no, as only yes means yes."""
    app = Asking()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
    assert app.answers == [answer]


@pytest.mark.parametrize(("button", "answer"), [("#yes", True), ("#no", False)])
async def test_buttons_can_be_clicked(button: str, answer: bool) -> None:
    """Each says which key it stands for."""
    app = Asking()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.click(button)
        await pilot.pause()
    assert app.answers == [answer]
