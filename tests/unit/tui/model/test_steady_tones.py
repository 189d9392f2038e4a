"""Tones that do not flicker."""

from __future__ import annotations

from telemetry.tui.model.grid import Tone
from telemetry.tui.model.steady_tones import HELD_NS, SteadyTones

KEY = ("row", 1)
SECOND = 1_000_000_000


def shown(*wanted: tuple[float, Tone]) -> list[Tone]:
    """Return the tones of one cell that wants these tones at these seconds."""
    steady = SteadyTones()
    return [steady.tone(KEY, tone, round(at * SECOND)) for at, tone in wanted]


def test_a_warning_appears_at_once_and_goes_late() -> None:
    """Three seconds after its reason was there last."""
    assert shown((0, "plain"), (1, "warn"), (2, "plain"), (3.9, "plain"), (4, "plain")) == [
        *("plain", "warn", "warn", "warn"),
        "plain",
    ]


def test_a_value_at_its_limit_keeps_one_colour() -> None:
    """However often it crosses the limit."""
    assert set(shown(*((at / 4, "warn" if at % 3 == 0 else "plain") for at in range(60)))) == {"warn"}


def test_worse_news_are_not_held_back() -> None:
    """Better ones are."""
    assert shown((0, "warn"), (0.1, "bad"), (0.2, "warn"), (4, "warn")) == ["warn", "bad", "bad", "warn"]


def test_tones_that_warn_of_nothing_change_at_once() -> None:
    """Tones that warn of nothing change at once, as they are different things, not states of one."""
    assert shown((0, "accent"), (0.1, "good"), (0.2, "plain")) == ["accent", "good", "plain"]


def test_cells_that_show_something_else_begin_anew() -> None:
    """Another time range has its own warnings."""
    steady = SteadyTones()
    steady.tone(KEY, "bad", 0)
    steady.forget()
    assert steady.tone(KEY, "plain", 1) == "plain"


def test_rows_are_drawn_again_when_a_held_tone_goes() -> None:
    """A row is drawn again when a held tone goes, once, and no other row is."""
    steady = SteadyTones()
    steady.tone(KEY, "warn", 0)
    steady.tone(("other", 0), "warn", 0)
    assert steady.due(HELD_NS * 2) == set()
    steady.tone(KEY, "plain", 1)
    assert steady.due(HELD_NS - 1) == set()
    assert steady.due(HELD_NS) == {"row"}
    assert steady.due(HELD_NS) == set()
