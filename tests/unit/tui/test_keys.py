"""Keys: one table, remapped by action id."""

from __future__ import annotations

from collections import Counter

import pytest

from telemetry.common.formatting import columns
from telemetry.errors import ConfigError
from telemetry.tui import keys

HELP_COLUMNS = 30


def test_the_defaults_are_a_keymap() -> None:
    """The default keymap has a key for each action, and no two share one on a screen."""
    assert keys.keymap({})["quit"] == "q"
    assert keys.keymap({})["help"] == "question_mark,f1"
    assert max(Counter(key.id for key in keys.TABLE).values()) == 1


def test_help_fits_into_half_a_small_screen() -> None:
    """The help of a key fits into 30 columns, half of a small screen."""
    assert [key.id for key in keys.TABLE if columns(key.help) > HELP_COLUMNS] == []


def test_a_key_is_chosen_by_action() -> None:
    """Characters, names and several keys: all in Textual's spelling afterwards."""
    chosen = keys.keymap({"figures": ",", "scrub_back": "<", "zoom_in": "+, ctrl+up", "sort": "o"})
    assert chosen["figures"] == "comma"
    assert chosen["scrub_back"] == "less_than_sign"
    assert chosen["zoom_in"] == "plus,ctrl+up"
    assert chosen["sort"] == "o"
    assert chosen["reverse"] == "r"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"figurs": "f"}, "unknown action 'figurs' (did you mean figures?)"),
        ({"dance": "f"}, "unknown action 'dance' (the actions are back, baseline, export, figures, "),
        ({"figures": "s"}, "'s' is assigned to both figures and sort"),
        ({"figures": "up"}, "the cockpit itself"),
        ({"figures": "spce"}, "unknown key (did you mean space?)"),
        ({"figures": "hyper+x"}, "the modifiers are alt, ctrl, shift, super"),
        ({"quit": ""}, "unknown key"),
    ],
    ids=["action", "unlike any", "double", "taken", "key", "modifier", "empty"],
)
def test_what_can_be_no_key_is_refused(chosen: dict[str, str], said: str) -> None:
    """The error names what was probably meant."""
    with pytest.raises(ConfigError) as raised:
        keys.keymap(chosen)
    assert said in str(raised.value)


def test_screens_that_are_never_seen_together_may_share_a_key() -> None:
    """`v` turns plots over on one screen and may sort on others."""
    assert keys.keymap({"sort": "v"})["sort"] == keys.keymap({})["next_plot"]


@pytest.mark.parametrize("place", keys.PLACES)
def test_every_action_of_a_screen_is_bound(place: str) -> None:
    """Every action of a screen is bound by its id, so that a keymap finds it."""
    bound = {binding.id: binding.action for binding in keys.bindings(place)}  # type: ignore[union-attr]
    assert bound == {key.id: f"app.{key.id}" for key in keys.TABLE if place in key.on and key.id != "palette"}


def test_keys_are_shown_as_they_stand_on_a_keyboard() -> None:
    """Keys are shown as they stand on a keyboard, the first of several or all of them."""
    assert keys.all_shown("question_mark,f1") == "? f1"
    assert [keys.shown(key) for key in ("question_mark,f1", "escape", "ctrl+x", "shift+tab", "comma", "enter")] == [
        *("?", "esc", "^x", "⇧tab", ",", "⏎")
    ]


def test_arrows_belong_to_the_grid_of_curves() -> None:
    """There they move the cursor; elsewhere they are free."""
    with pytest.raises(ConfigError, match="'←' is assigned to both table and the cockpit itself"):
        keys.keymap({"table": "left"})
    assert keys.keymap({})["pan_left"] == "left"
