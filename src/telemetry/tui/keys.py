"""The single table of keys: the action of each key, its name, and its screens.

The configuration uses the ids of actions (`[tui] keys = { figures = "f" }`). A key is written as in Textual,
`ctrl+x`, `full_stop`, or as the character it types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, format_key, key_to_character

from telemetry.config.load import closest
from telemetry.errors import ConfigError
from telemetry.tui.tabs import TABS

PLACES: Final = (*TABS, "series", "curve")
"""Screens with keys of their own: the tabs, and those opened from one."""
_SORTED: Final = ("overview", "producers")
_OPENED: Final = ("overview", "requests")
_OPENABLE: Final = (*_OPENED, "producers", "steps", "spans")
_TIMES: Final = ("overview", "series", "requests")
_NUMBERS: Final = (*_TIMES, "producers", "steps", "spans", "curve")


@dataclass(frozen=True, slots=True)
class Key:
    id: str
    key: str
    """Keys of the action, separated by commas; the first one is shown."""
    words: str
    """Text in the footer; empty for keys that only the help shows."""
    help: str
    """Effect of the action, in 30 columns."""
    on: tuple[str, ...] = PLACES
    beside: str = ""
    """Id of the action whose key is shown beside this one in the footer."""


TABLE: Final = (
    Key("open", "enter", "open", "open what is selected", _OPENABLE),
    Key("back", "escape", "back", "one step back"),
    Key("filter", "slash", "filter", "filter by words", (*_SORTED, "requests", "steps", "spans")),
    Key("sort", "s", "sort", "sort by the next column", _SORTED),
    Key("figures", "w", "figures", "last seconds / whole run", (*_TIMES, "steps")),
    Key("next_plot", "v", "next plot", "the next plot", ("series",)),
    Key("table", "v", "table", "curves, or tables", ("steps",)),
    Key("zoom_in", "plus,equals_sign", "zoom", "shorter or longer range", (*_TIMES, "curve"), beside="zoom_out"),
    Key("zoom_out", "minus", "", "longer time range", (*_TIMES, "curve")),
    Key("pan_left", "left", "pan", "earlier, or later", ("series", "curve"), beside="pan_right"),
    Key("pan_right", "right", "", "later", ("series", "curve")),
    Key("scrub_back", "comma", "history", "back in time, and forward", _TIMES, beside="scrub_forward"),
    Key("scrub_forward", "full_stop", "", "forward in time", _TIMES),
    Key("now", "end", "now", "return to live data", (*_TIMES, "curve")),
    Key("freeze", "space", "freeze", "freeze the screen"),
    Key("baseline", "b", "baseline", "compare with a baseline run", (*_TIMES, "steps", "curve")),
    Key("pin", "p", "pin", "keep the series at the top", ("overview",)),
    Key("group", "g", "group", "group by the next label", ("overview",)),
    Key("units", "u", "units", "raw numbers / fitting units", _NUMBERS),
    Key("reverse", "r", "reverse", "reverse the order", _SORTED),
    Key("export", "e", "export", "save it as SVG and JSON"),
    Key("next_pane", "shift+tab", "", "switch to the other table", (*_OPENED, "steps")),
    Key("next_tab", "tab", "", "the next tab"),
    *(
        Key(f"tab_{number}", str(number), "", tab.help or tab.title.lower())
        for number, tab in enumerate(TABS.values(), 1)
    ),
    Key("stop", "ctrl+x", "stop", "end the run, asks first"),
    Key("palette", "ctrl+p", "", "all commands, and themes"),
    Key("help", "question_mark,f1", "help", "show all keys"),
    Key("quit", "q", "quit", "quit; the run continues"),
)
"""Keys in the order of the footer. The help also has those that do not fit there."""

BY_ID: Final = {key.id: key for key in TABLE}
TAKEN: Final = ("up", "down", "pageup", "pagedown", "home", "ctrl+end", "ctrl+q", "ctrl+c")
"""Keys of tables and of Textual itself, unavailable for actions."""
_TAKEN_AT: Final[Mapping[str, tuple[str, ...]]] = {"steps": ("left", "right")}
"""Keys of the widgets of one screen, unavailable there."""


def keymap(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return a map of action id → keys as Textual spells them, separated by commas: the defaults under `chosen`.

    Raises ConfigError for an unknown action or key, and for two actions with the same key on one screen.
    """
    for name in chosen:
        if name not in BY_ID:
            near = closest(name, BY_ID)
            hint = f"did you mean {near}?" if near else f"the actions are {', '.join(sorted(BY_ID))}"
            raise ConfigError(f"tui.keys: unknown action {name!r}", hint=hint)
    keys = {key.id: _spelled(key.id, chosen.get(key.id, key.key)) for key in TABLE}
    for screen in PLACES:
        _check_single(keys, screen)
    return keys


def bindings(screen: str) -> list[BindingType]:
    """Return the bindings of a screen with the default keys. `App.set_keymap` changes keys by action id."""
    return [
        Binding(key.key, f"app.{key.id}", key.words, id=key.id)
        for key in TABLE
        if screen in key.on and key.id != PALETTE.id
    ]


PALETTE: Final = Binding("ctrl+p", "command_palette", "palette", show=False, priority=True, id="palette")
"""Textual's own binding. Textual finds it by its action."""


def shown(keys: str) -> str:
    """Return the first of these keys as printed on a keyboard: `?`, `^x`, `esc`."""
    return _on_keyboard(keys.split(",", maxsplit=1)[0])


def all_shown(keys: str) -> str:
    """Return all of these keys: `? f1`."""
    return " ".join(_on_keyboard(key) for key in keys.split(","))


def _on_keyboard(key: str) -> str:
    return _SHORT.get(key) or format_key(key.replace("ctrl+", "^").replace("shift+", "⇧"))


_SHORT: Final = {
    "escape": "esc",
    "enter": "⏎",
    "space": "space",
    "question_mark": "?",
    "full_stop": ".",
    "plus": "+",
}


def _check_single(keys: Mapping[str, str], screen: str) -> None:
    owners = dict.fromkeys((*TAKEN, *_TAKEN_AT.get(screen, ())), "the cockpit itself")
    for key in TABLE:
        if screen not in key.on:
            continue
        for key_name in keys[key.id].split(","):
            if key_name in owners:
                raise ConfigError(
                    f"tui.keys: {shown(key_name)!r} is assigned to both {key.id} and {owners[key_name]}",
                    hint="choose another key",
                )
            owners[key_name] = key.id


def _spelled(action: str, keys: str) -> str:
    # A single comma is a key; otherwise commas separate keys.
    parts = [keys] if keys == "," else [part.strip() for part in keys.split(",")]
    return ",".join(_key_name(action, part) for part in parts)


def _key_name(action: str, key: str) -> str:
    *modifiers, last = key.split("+") if key != "+" else [key]
    if len(last) == 1 and last.isprintable() and last != " ":
        parsed_bindings = Binding.make_bindings([Binding("comma" if last == "," else last, "")])
        last = next(iter(parsed_bindings)).key
    elif last not in _NAMED and key_to_character(last) is None:
        raise ConfigError(f"tui.keys: {action} can't use {key!r}: unknown key", hint=_like(last))
    if not set(modifiers) <= _MODIFIERS:
        raise ConfigError(
            f"tui.keys: {action} can't be {key!r}", hint=f"the modifiers are {', '.join(sorted(_MODIFIERS))}"
        )
    return "+".join([*modifiers, last])


_MODIFIERS: Final = {"ctrl", "shift", "alt", "super"}
_NAMED: Final = frozenset(KEY_NAME_REPLACEMENTS.values()) | {
    key.value for key in Keys if "+" not in key.value and not key.value.startswith("<")
}
"""Names of keys without a character, and of characters that Textual names differently from Unicode."""


def _like(name: str) -> str:
    near = closest(name, _NAMED)
    return near and f"did you mean {near}?"
