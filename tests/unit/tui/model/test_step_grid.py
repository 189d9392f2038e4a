"""The grid of curves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.tui import trainings
from tests.unit.tui.model.scenes import scene, text, texts

from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.step_grid import READING, Card, best_text, curve_of, drawn, step_grid, with_band
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def curve(name: str = "loss", values: list[float | None] | None = None, **changes: Any) -> StepCurve:
    """Return a curve with values at steps 0, 10, 20 and so on."""
    values = [4.0, 2.0, 1.0, 1.5] if values is None else values
    known = [value for value in values if value is not None]
    facts = {
        "axis": "train",
        "name": name,
        "steps": [10 * at for at in range(len(values))],
        "times_s": [float(at) for at in range(len(values))],
        "values": values,
        "count": len(values),
        "first": values[0] if values else None,
        "last": values[-1] if values else None,
        "min": min(known, default=None),
        "max": max(known, default=None),
        "min_step": 20,
        "max_step": 0,
    }
    return StepCurve(**{**facts, **changes})


def played(**changes: Any) -> Scene:
    run = trainings.training()
    return replace(Scene(snapshot=run.last, curves=run.curves()), **changes)


def card(one: StepCurve, behind: StepCurve | None = None) -> Card:
    return Card((one.axis, one.name), one, behind)


def test_axes_are_sections_with_their_state() -> None:
    """Axes are sections, each under a rule that fills the line. The step that an axis waits for stands out."""
    found = step_grid(played(steps_per_s={"train": 20.0}), View(), 80)
    heads = texts(section.heading for section in found.sections)
    assert heads[0].startswith("train · step 1,196 · 20 steps/s · step 1,197 waits for rank 1 ──")
    assert heads[1].startswith("rollout · step 14 ──")
    assert {len(head) for head in heads} == {80}
    tones = {cell.text: cell.tone for cell in found.sections[0].heading}
    assert tones["step 1,197 waits for rank 1"] == "warn"
    assert [key for section in found.sections for key, *_ in [card.key for card in section.cards]] == [
        *["train"] * 5,
        *["rollout"] * 2,
        *["eval"] * 2,
    ]


def test_timeouts_and_corrections_are_told() -> None:
    """Timeouts and corrections of an axis stand in its heading where there are any."""
    axis = AxisStat(name="a", newest=7, timeouts=2, corrections=1, values={"x": 1.0})
    (head,) = texts([step_grid(scene(axes=[axis]), View(), 100).sections[0].heading])
    assert head.startswith("a · step 7 · 2 timeouts · 1 correction ──")


def test_a_filter_leaves_curves_and_axes_that_have_some() -> None:
    """A filter leaves curves and the axes that have some. Without any, the grid says so."""
    found = step_grid(played(), View(filter="LOSS"))
    assert [each.key for each in found.cards] == [("train", "loss"), ("eval", "loss")]
    assert len(found.sections) == 2
    assert step_grid(played(), View(filter="nothing")).empty == "no value matches 'nothing'"


def test_a_count_of_epochs_is_no_curve() -> None:
    """A count of epochs is no curve, as it is a straight line beside the steps.

    A filter that names it still shows it.
    """
    shown = played(curves=(curve("loss"), curve("epoch"), curve("train/global_step")))
    assert [one.curve.name for one in step_grid(shown, View()).cards] == ["loss"]
    assert [one.curve.name for one in step_grid(shown, View(filter="epoch")).cards] == ["epoch"]


def test_before_they_are_read() -> None:
    """The axes are there already."""
    found = step_grid(played(curves=None), View())
    assert (found.empty, found.cards, len(found.sections)) == (READING, (), 3)
    assert step_grid(Scene(curves=()), View()).empty == "no step has been closed yet"


def test_the_earlier_run_is_behind_where_it_has_the_value() -> None:
    """An earlier run is drawn behind where it has the value, and only with the comparison on."""
    shown = played(baseline_curves=trainings.earlier().curves)
    behind = [each.key for each in step_grid(shown, View(compare=True)).cards if each.behind is not None]
    assert behind == [("train", "loss"), ("train", "gradient/norm"), ("eval", "loss")]
    assert all(each.behind is None for each in step_grid(shown, View()).cards)


def test_a_card_has_name_newest_first_and_best() -> None:
    """A card has the name, the newest, first and best value.

    The best is by the direction of the name, and without one the card has the range.
    """
    lines = texts(drawn(card(curve()), 24, 6, "readable"))
    assert lines[0] == "loss                1.50"
    assert lines[-1] == "from 4            best 1"
    assert len(lines) == 6
    assert best_text(curve("accuracy"), "readable", step=True) == "best 4 at step 0"
    assert best_text(curve("lr"), "readable") == ""
    assert texts(drawn(card(curve("lr")), 24, 6, "readable"))[-1] == "from 4             1 … 4"


def test_a_long_name_keeps_its_ends() -> None:
    """A long name keeps its ends beside the newest value. Names from outside are made printable."""
    (title, *_) = texts(drawn(card(curve("model/layers.11\x1b/attention/weight_norm")), 24, 6, "readable"))
    assert title.startswith("model/la")
    assert title.endswith("norm 1.50")
    assert len(title) == 24


def test_what_is_not_finite_says_so() -> None:
    """A value that is not finite is named in the title, and the curve has a gap."""
    lines = texts(drawn(card(curve(values=[1.0, None, 3.0, None])), 24, 6, "readable"))
    assert lines[0].endswith("not finite")
    assert lines[1:-1] != texts(drawn(card(curve(values=[1.0, 2.0, 3.0, None])), 24, 6, "readable"))[1:-1]
    assert texts(drawn(card(curve(values=[None, None])), 24, 6, "readable"))[1:5] == [""] * 4


def test_the_line_goes_from_edge_to_edge() -> None:
    """A falling value begins at the top left and ends at the bottom right."""
    lines = texts(drawn(card(curve(values=[2.0, 1.0])), 10, 5, "readable"))[1:-1]
    assert lines[0][0] not in " "
    assert lines[0][1:].strip() == "" or lines[0].index(lines[0].strip()[0]) == 0
    assert lines[-1][-1] not in " "
    assert lines[-1][:5].strip() == ""


def test_a_value_that_stays_the_same_is_in_the_middle() -> None:
    """A value that stays the same is drawn in the middle, neither at zero nor at the top."""
    lines = texts(drawn(card(curve(values=[5.0, 5.0, 5.0])), 10, 5, "readable"))[1:-1]
    assert [bool(line.strip()) for line in lines] == [False, True, False]


def test_ranks_are_a_band_behind_the_line() -> None:
    """A sum, which lies beyond the values of all ranks, has none."""
    values: list[float | None] = [1.0, 1.0, 1.0]
    ranked = curve("v", values, low=[0.0] * 3, high=[2.0] * 3, producers=2)
    tones = {
        cell.tone for line in drawn(card(ranked), 10, 6, "readable")[1:-1] for cell in line if cell.text.strip()
    }
    assert tones == {"dim", "accent"}
    summed = curve("v", values, low=[0.25] * 3, high=[0.5] * 3, producers=2)
    assert (with_band(summed).low, with_band(ranked).low) == ([], [0.0] * 3)


def test_an_earlier_run_shares_the_axes() -> None:
    """An earlier run shares the axes and has a colour of its own.

    The earlier curve goes on where the run is not yet.
    """
    longer = curve(values=[8.0] * 9)
    lines = drawn(card(curve(), longer), 24, 8, "readable")[1:-1]
    tones = [{cell.tone for cell in line if cell.text.strip()} for line in lines]
    assert tones[0] == {"good"}
    assert "accent" in tones[-1]
    assert text(lines[-1])[12:].strip() == ""


@pytest.mark.parametrize("height", [0, 1, 2, 3])
def test_a_low_card_has_what_fits(height: int) -> None:
    """First its title."""
    assert len(drawn(card(curve()), 24, height, "readable")) == (height if height == 3 else min(height, 1))


def test_a_curve_is_found_by_axis_and_name() -> None:
    """Or not."""
    curves = [curve("a"), curve("b")]
    assert curve_of(curves, ("train", "b")) is curves[1]
    assert curve_of(curves, ("eval", "b")) is None


@given(st.lists(st.none() | FINITE, max_size=30), st.integers(2, 60), st.integers(3, 12))
@example([None, None, 8.988465674311579e307, 8.98846567431158e307, None], 2, 3)
def test_any_curve_can_be_drawn(values: list[float | None], width: int, height: int) -> None:
    """A curve can be drawn in any size, whatever its values."""
    lines = drawn(card(curve(values=values)), width, height, "raw")
    assert len(lines) == height
    assert all(len(text(line)) <= width for line in lines)
