"""The cockpit: its screens, and the actions of its keys."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, partialmethod
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import work
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.config.schema import TuiConfig
from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.history.intervals.timeline import Timeline
from telemetry.store.atomic import write_atomic
from telemetry.tui import keys, view_changes
from telemetry.tui.drill_down import DrillDown
from telemetry.tui.feed.news import NewsFeed
from telemetry.tui.model import export as parts
from telemetry.tui.model import nodes, overview
from telemetry.tui.model.scene import Baseline, Opened, Scene, SeriesId, ValuesOverTime, View
from telemetry.tui.screens.base import FilteringScreen, FilterLine, TablesScreen, ValuesTable
from telemetry.tui.screens.curve import CurveScreen
from telemetry.tui.screens.dialogs import ChooseScreen, ConfirmScreen, HelpScreen
from telemetry.tui.screens.overview import OverviewScreen
from telemetry.tui.screens.producers import ProducersScreen
from telemetry.tui.screens.series import SeriesScreen
from telemetry.tui.screens.spans import SpansScreen
from telemetry.tui.screens.steps import StepsScreen
from telemetry.tui.tabs import TABS
from telemetry.tui.widgets.grid_view import GridView

_FONT_ADDRESS: Final = re.compile(r",?\s*url\([^)]*\) format\([^)]*\)")
_NAME_CHARS: Final = 60
"""Characters of a run's name in a file name: file names have at most 255 bytes."""


def _screen(path: str) -> Screen[Any]:
    module, _, name = path.partition(".")
    screen: Screen[Any] = getattr(import_module(f"telemetry.tui.screens.{module}"), name)()
    return screen


def _has_tab(tab: str, cockpit: Cockpit) -> bool:
    return tab in cockpit.tabs


_SWITCH: Final = ""
"""Entry in the list of baselines: switches the last one on or off."""


class Cockpit(DrillDown):
    """The application: it shows news from the feed and executes keys. Only a confirmed `stop` affects the run."""

    CSS_PATH = "cockpit.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [keys.PALETTE]
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        name: partial(_screen, tab.screen) for name, tab in TABS.items()
    }
    DEFAULT_MODE = "overview"

    def __init__(
        self,
        feed: NewsFeed,
        *,
        title: str,
        settings: TuiConfig,
        stop_words: str,
        load_baseline: Callable[[str], Baseline],
        baselines: Callable[[], list[tuple[str, str]]],
        baseline: Baseline | None = None,
        export_dir: Path,
        beside_command: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare the cockpit. Raises ConfigError for an unknown theme, key or action.

        `stop_words` is the question before the run is ended. `baselines` returns pairs of (argument for
        `load_baseline`, text). Both functions may block and raise TelemetryError, and are called from other
        threads. With `beside_command`, the command gets the keyboard when the cockpit closes.
        """
        super().__init__(feed, title=title, settings=settings, baseline=baseline, clock=clock)
        self._stop_words = stop_words
        self._load_baseline = load_baseline
        self._baselines = baselines
        self._export_dir = export_dir
        self._beside_command = beside_command

    # --- available keys --------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.is_live(action) if action in keys.BY_ID else super().check_action(action, parameters)

    @property
    def _can_open(self) -> bool:
        """True unless the cursor is on a producer or a table of steps: nothing of those can be opened."""
        screen = self.cockpit_screen
        if isinstance(screen, StepsScreen):
            return screen.shows_curves
        return not isinstance(screen, ProducersScreen) or nodes.node_at(self.scene, screen.cursor) is not None

    def is_live(self, action: str) -> bool:
        rule = self._LIVE.get(action)
        return rule is None or rule(self)

    _LIVE: ClassVar[dict[str, Callable[[Cockpit], bool]]] = {
        **dict.fromkeys(("zoom_in", "zoom_out"), lambda self: bool(self._open_here or self._past)),
        **dict.fromkeys(("pan_left", "pan_right"), lambda self: self._curve is not None or self.view.zoom > 0),
        "now": lambda self: self._past is not None or self._curve is not None,
        "scrub_forward": lambda self: self._past is not None,
        **dict.fromkeys(("scrub_back", "export", "freeze"), lambda self: self.scene.snapshot is not None),
        "open": lambda self: not isinstance(self.focused, ValuesTable) and self._can_open,
        **{f"tab_{number}": partial(_has_tab, name) for number, name in enumerate(TABS, 1)},
        "table": lambda self: isinstance(self.cockpit_screen, StepsScreen) and self.cockpit_screen.has_both,
        "group": lambda self: bool(overview.label_keys(self.scene)),
        "figures": lambda self: self._past is None,
        "baseline": lambda self: self._open_here is None or self._open_here.kind != "value",
        "stop": lambda self: not self._known.ended,
        "next_plot": lambda self: isinstance(self.cockpit_screen, SeriesScreen) and self.cockpit_screen.shows_one,
        "back": lambda self: (
            not isinstance(self.cockpit_screen, OverviewScreen)
            or bool(self.view.filter or self._past or self._held)
        ),
    }
    """Conditions of actions that are not always available."""

    # --- keys ------------------------------------------------------------------------------------

    async def action_back(self) -> None:
        """Leave one thing, in this order: the series or curve, the past, the frozen screen, the filter, the tab."""
        if isinstance(self.cockpit_screen, SeriesScreen | CurveScreen):
            self._leave_open()
        elif self._past is not None:
            self.action_now()
        elif self._held is not None:
            self.action_freeze()
        elif self.view.filter:
            self.see(replace(self.view, filter=""))
        else:
            self._enter(self.DEFAULT_MODE)

    def action_open(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, TablesScreen | ProducersScreen | SpansScreen | StepsScreen):
            screen.open()

    def action_filter(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, FilteringScreen):
            screen.ask_filter(self.view.filter)

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        self.see(replace(self.view, filter=event.words))

    def action_sort(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, FilteringScreen):
            self.see(view_changes.next_sort(self.view, screen.sort_keys(self.scene, self.view)))

    def on_grid_view_header_clicked(self, event: GridView.HeaderClicked) -> None:
        screen = self.cockpit_screen
        if (
            isinstance(screen, FilteringScreen)
            and event.grid.id == screen.MAIN
            and event.key in screen.sort_keys(self.scene, self.view)
        ):
            self.see(view_changes.sort_by(self.view, event.key))

    def action_reverse(self) -> None:
        self.see(view_changes.reverse(self.view))

    def action_figures(self) -> None:
        self._figures_chosen = True
        self.see(view_changes.other_figures(self.view))

    def action_units(self) -> None:
        self._views = {tab: view_changes.other_units(view) for tab, view in self._views.items()}
        self.draw()

    def action_group(self) -> None:
        self.see(view_changes.next_group(self.view, overview.label_keys(self.scene)))

    def action_pin(self) -> None:
        screen = self.cockpit_screen
        key = screen.cursor if isinstance(screen, OverviewScreen) else None
        series = overview.series_of(self.scene, key) if key is not None else None
        if series is not None:
            self.see(view_changes.pin(self.view, series))

    def action_next_plot(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, SeriesScreen):
            screen.next_plot()

    def action_table(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, StepsScreen):
            screen.switch()

    def action_next_pane(self) -> None:
        screen = self.cockpit_screen
        if isinstance(screen, TablesScreen | StepsScreen):
            screen.next_pane()

    def action_freeze(self) -> None:
        held = self.scene if self._held is None else None
        series, timeline = self._series, self.timeline
        self._held_timeline = (series, timeline) if held and series and timeline is not None else None
        self._held = held
        self.draw()

    # --- time ------------------------------------------------------------------------------------

    def action_zoom_in(self) -> None:
        self._zoom(1)

    def action_zoom_out(self) -> None:
        self._zoom(-1)

    def _zoom(self, step: int) -> None:
        if self._curve is not None:
            self._curve.zoom(step)
        elif self._series is not None:
            self.see(view_changes.zoom(self.view, step))
        elif self._past is not None:
            self._look_at(view_changes.time_range(self._past, step))

    def action_pan_left(self) -> None:
        self._pan(1)

    def action_pan_right(self) -> None:
        self._pan(-1)

    def _pan(self, back: int) -> None:
        if self._curve is not None:
            self._curve.move(-back)
        else:
            self.see(view_changes.pan(self.view, back))

    def action_scrub_back(self) -> None:
        self._look_at(view_changes.scrub(self.scene, self._past, -1))

    def action_scrub_forward(self) -> None:
        self._look_at(view_changes.scrub(self.scene, self._past, 1))

    def action_now(self) -> None:
        if self._curve is not None:
            self._curve.go_to_end()
        else:
            self._look_at(None)

    def _look_at(self, past: view_changes.PastRange | None) -> None:
        self._past = past
        if past is None:
            self._known.return_to_now()
        else:
            self._known.look_back()
            self._feed.look_at(past.end_ns, past.seconds)
        self.draw()

    # --- tabs and dialogs ------------------------------------------------------------------------

    def action_next_tab(self) -> None:
        tabs = self.tabs
        self._enter(tabs[(tabs.index(self.current_mode) + 1) % len(tabs)])

    def go_to(self, tab: str) -> None:
        """Switch to a tab if it exists. In the current tab, leave the open series."""
        if tab in self.tabs:
            if tab == self.current_mode and self._open_here is not None:
                self._leave_open()
            self._enter(tab)

    def _enter(self, tab: str) -> None:
        self.switch_mode(tab)
        opened = self._opened.get(tab)
        if opened is not None and opened.kind != "steps":
            self._follow(opened.series)

    def action_help_quit(self) -> None:
        """Explain the keys to leave and to stop. Ctrl+C would end the job in a terminal; it is disabled here."""
        leave, stop = keys.shown(self._keys["quit"]), keys.shown(self._keys["stop"])
        if self._beside_command:
            self.say(f"{leave} quits the viewer, then keys go to the command. {stop} ends it.")
        else:
            self.say(f"{leave} quits the viewer, {stop} ends the run.")

    def action_help(self) -> None:
        screen = self.cockpit_screen
        if screen is not None:
            self.push_screen(HelpScreen(screen.PLACE, self._keys, self.is_live))

    def action_stop(self) -> None:
        self.push_screen(ConfirmScreen(self._stop_words, "Stop"), self._stop)

    def _stop(self, confirmed: bool | None) -> None:
        if confirmed:
            self._feed.stop_run()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        shown = self.cockpit_screen
        for key in keys.TABLE:
            if shown is not None and key.id != "palette" and shown.PLACE in key.on and self.is_live(key.id):
                title = f"{key.help[0].upper()}{key.help[1:]}"
                description = f"key {keys.all_shown(self._keys[key.id])}"
                yield SystemCommand(title, description, partial(self.run_action, key.id))
        yield SystemCommand("Theme", "other colours", self.action_change_theme)

    # --- slow actions ----------------------------------------------------------------------------

    @work(exclusive=True, group="baseline")
    async def action_baseline(self) -> None:
        """Ask for a finished run, load it and compare with it.

        `enter` alone switches the current baseline off or on.
        """
        current = self._known.scene(0).baseline
        switch = "compare with none" if self.view.compare else f"{current.run_id} again" if current else ""
        try:
            runs = await asyncio.to_thread(self._baselines)
            runs = [(_SWITCH, switch), *runs] if current else runs
            if not runs:
                self.say("There is no finished run to compare with.")
                return
            spec = await self.push_screen_wait(ChooseScreen("Compare with which run?", runs))
            if spec is None:
                return
            if spec == _SWITCH:
                self._compare(not self.view.compare)
                return
            baseline = await asyncio.to_thread(self._load_baseline, spec)
        except TelemetryError as error:
            self.say(str(error), bad=True)
            return
        self._known.compare_with(baseline)
        self._compare(True)

    def _compare(self, on: bool) -> None:
        self._views = {tab: replace(view, compare=on) for tab, view in self._views.items()}
        self.draw()

    @work(group="export")
    async def action_export(self) -> None:
        screen = self.cockpit_screen
        if screen is None:
            return
        await self._take_back_words()
        svg = self.export_screenshot(simplify=True)
        opened = self._open_here
        document = export_json(
            self.scene,
            self.view,
            screen.PLACE,
            series=self._series,
            timeline=self.timeline,
            opened=opened,
            values=self._known.values(opened.series) if opened is not None else None,
        )
        try:
            picture, numbers = await asyncio.to_thread(
                write, self._export_dir, self.title, self._clock.wall_ns(), svg, document
            )
        except TelemetryError as error:
            self.say(str(error), bad=True)
        else:
            self.say(f"Saved {picture} and {numbers.name}")

    async def _take_back_words(self) -> None:
        """Remove notifications, and wait until the screen is drawn without them."""
        self.clear_notifications()
        await self.screen.query("Toast").remove()
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()


for _number, _tab in enumerate(TABS, 1):
    setattr(Cockpit, f"action_tab_{_number}", partialmethod(Cockpit.go_to, _tab))


def export_json(
    scene: Scene,
    view: View,
    screen: str,
    *,
    series: SeriesId | None = None,
    timeline: Timeline | None = None,
    opened: Opened | None = None,
    values: ValuesOverTime | None = None,
) -> dict[str, Any]:
    """Return the content of a screen as strict JSON: the same rows in the same order, without filtered ones.

    Values are in the units of their series. `screen` is one of `telemetry.tui.keys.PLACES`; `series` needs the
    argument `series`, and `curve` needs `opened`.
    """
    document = {"screen": screen, "run": parts.run(scene.snapshot), "view": parts.view_state(scene, view)}
    if screen in TABS:
        document |= TABS[screen].content(scene, view)
    elif screen == "series" and series is not None:
        document["series"] = parts.detail(scene, view, series, timeline)
    elif screen == "curve" and opened is not None:
        document["curve"] = parts.curve(scene, opened, values)
    plain: dict[str, Any] = parts.strict(document)
    return plain


def offline(svg: str) -> str:
    """Remove the addresses of fonts from a picture, so that opening it causes no network requests."""
    return _FONT_ADDRESS.sub("", svg)


def write(folder: Path, name: str, wall_ns: int, svg: str, document: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write `<name>-<UTC time>.svg` and `.json`. A second export within a second replaces the first.

    Blocks until both are on the disk. Raises RunDirectoryError.
    """
    when = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    safe = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:_NAME_CHARS] or "run"
    picture, numbers = (folder / f"{safe}-{when:%Y%m%dT%H%M%SZ}.{kind}" for kind in ("svg", "json"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(picture, offline(svg).encode())
        write_atomic(numbers, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise RunDirectoryError(f"can't write {error.filename or folder}: {error.strerror}") from error
    return picture, numbers
