"""Tests of where curves are in their grid, and of what drawing them costs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui.model.test_step_grid import curve
from tests.unit.tui.widgets.showing import Showing, picture
from textual.pilot import Pilot

from telemetry.tui.model.grid import Cell
from telemetry.tui.model.step_grid import AxisSection, Card, StepGrid
from telemetry.tui.widgets import curve_grid as module
from telemetry.tui.widgets.curve_grid import LEAST_HEIGHT, LEAST_WIDTH, CurveGrid, arranged

pytestmark = pytest.mark.slow


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


def grid(*counts: int) -> StepGrid:
    """Sections of so many curves."""
    sections = []
    for at, count in enumerate(counts):
        curves = [curve(f"v{number:03}", axis=f"axis{at}") for number in range(count)]
        cards = tuple(Card((one.axis, one.name), one) for one in curves)
        sections.append(AxisSection((Cell(f"axis{at}"),), cards))
    return StepGrid(tuple(sections), "nothing here")


@pytest.mark.parametrize("counts", [[1], [3], [5, 2, 2], [300], [0, 4], []])
@pytest.mark.parametrize("size", [(20, 8), (78, 19), (158, 43), (300, 60)])
def test_every_curve_has_a_place(counts: list[int], size: tuple[int, int]) -> None:
    """Curves stand in reading order, within the width, and at least as large as is readable."""
    layout = arranged(counts, *size)
    placed = [at for row in layout.rows for at in range(row.first, row.first + row.curves)]
    assert placed == list(range(sum(counts)))
    widest = max((row.curves for row in layout.rows), default=0)
    assert widest * (layout.width + 2) <= size[0] + 2
    assert layout.height >= LEAST_HEIGHT
    assert layout.width >= min(LEAST_WIDTH, size[0] - 2)
    tops = [row.top for row in layout.rows]
    assert tops == sorted(set(tops))


def test_few_curves_are_larger() -> None:
    """Few curves fill the screen, up to what a curve needs."""
    assert arranged([2], 158, 43).width > arranged([8], 158, 43).width
    assert arranged([4], 158, 43).height > arranged([60], 158, 43).height == LEAST_HEIGHT


async def test_hundreds_of_curves_are_drawn_only_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor scrolls to the others."""
    drawn: list[str] = []
    draw = module.drawn

    def counted(card: Card, *rest: object) -> object:
        drawn.append(card.curve.name)
        return draw(card, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "drawn", counted)
    view = CurveGrid()
    async with Showing(view).run_test(size=(80, 24)) as pilot:
        view.show(grid(300))
        view.focus()
        await pilot.pause()
        assert 0 < len(drawn) < 30
        before = len(drawn)
        view.show(grid(0))
        await press(pilot, "down")
        assert "nothing here" in "\n".join(picture(view))
        view.show(grid(300))
        await press(pilot, "ctrl+end")
        assert view.cursor == ("axis0", "v299")
        assert "v299" in "\n".join(picture(view))
        assert len(drawn) < before + 60


async def test_a_curve_is_drawn_again_only_if_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid that was not changed costs nothing."""
    drawn: list[str] = []
    draw = module.drawn
    monkeypatch.setattr(module, "drawn", lambda card, *rest: drawn.append(card.curve.name) or draw(card, *rest))
    view, first = CurveGrid(), grid(3)
    async with Showing(view).run_test(size=(80, 24)) as pilot:
        view.show(first)
        await pilot.pause()
        assert sorted(drawn) == ["v000", "v001", "v002"]
        view.show(first, 10**9)
        await pilot.pause()
        assert len(drawn) == 3
        card = first.cards[1]
        other = replace(card.curve, last=7.0)
        section = AxisSection(first.sections[0].heading, (first.cards[0], Card(card.key, other), first.cards[2]))
        view.show(StepGrid((section,)))
        await pilot.pause()
        assert drawn[3:] == ["v001"]


async def test_the_cursor_stays_with_its_curve() -> None:
    """The cursor stays with its curve as long as that is there."""
    view = CurveGrid()
    async with Showing(view).run_test(size=(80, 24)) as pilot:
        view.show(grid(5))
        view.focus()
        await press(pilot, "right", "down")
        assert view.cursor == ("axis0", "v004")
        view.show(grid(9, 1))
        assert view.cursor == ("axis0", "v004")
        view.show(grid(2))
        assert view.cursor == ("axis0", "v001")
        view.show(grid())
        assert view.cursor is None
