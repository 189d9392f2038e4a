"""What is known of a run, and how it comes onto the screen: news in, one frame at a time out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from signal import SIGCONT, SIGHUP, SIGINT, SIGTERM
from typing import Final

from textual.message import Message

from telemetry.clock import SYSTEM_CLOCK, Clock
from telemetry.config.load import closest
from telemetry.config.schema import TuiConfig
from telemetry.errors import ConfigError
from telemetry.formatting import printable
from telemetry.history.intervals.timeline import Timeline
from telemetry.tui import keys, view_changes
from telemetry.tui.feed.news import Feed, Note
from telemetry.tui.inbox import Inbox
from telemetry.tui.keyboard import OrderedKeys
from telemetry.tui.model.request_flow import has_requests
from telemetry.tui.model.scene import Scene, SeriesId, View
from telemetry.tui.model.steps import has_steps
from telemetry.tui.run_knowledge import RunKnowledge
from telemetry.tui.screens.bar import Shortcut
from telemetry.tui.screens.base import CockpitScreen, ScreenContent
from telemetry.tui.theme import fitting_theme
from telemetry.wire.snapshot import MetricsSnapshot

TABS: Final = ("overview", "producers", "log", "requests", "steps")
_THERE: Final[Mapping[str, Callable[[Scene], bool]]] = {"requests": has_requests, "steps": has_steps}
"""Of tabs that not every run has, whether a run has them."""
_ALWAYS: Final = ("help", "quit")
"""Have room in the footer before all others."""
_FAILURES_KEPT: Final = 20
"""More of them say no more."""
_WATCH_S: Final = 1.0
"""How often silence is looked for."""


class Viewer(OrderedKeys):
    """Holds the state of the cockpit and draws it; `Cockpit` changes it.

    Draws when there is news, at most `tui.frames_per_s` times a second, and at once when a key changed something.
    """

    class Arrived(Message):
        """There is news in the inbox."""

    def __init__(
        self,
        feed: Feed,
        *,
        title: str,
        settings: TuiConfig,
        baseline: MetricsSnapshot | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Raises ConfigError for a theme, a key or an action that does not exist."""
        # Without colour, Textual turns those of themes into greys; colours of the terminal itself it leaves out.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        self.title = title
        self._keys = keys.keymap(settings.keys)
        self.set_keymap({name: key for name, key in self._keys.items() if name in settings.keys})
        if settings.theme not in self.available_themes:
            near = closest(settings.theme, self.available_themes)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(self.available_themes))}"
            raise ConfigError(f"tui.theme: there is no theme {settings.theme!r}", hint=hint)
        self.theme = fitting_theme(settings.theme, None if self.no_color else self.console.color_system)
        self._feed = feed
        self._clock = clock
        self._frame_ns = round(1e9 / settings.frames_per_s)
        self._inbox = Inbox(self._wake)
        self._known = RunKnowledge(clock.monotonic_ns())
        self._known.compare_with(baseline)
        self._views = {tab: View(compare=baseline is not None) for tab in TABS}
        self._opened: dict[str, SeriesId] = {}
        """The series that is open in a tab."""
        self._past: view_changes.PastRange | None = None
        self._held: Scene | None = None
        """What was known when the screen was frozen, and the history of the series that was open then."""
        self._held_timeline: tuple[SeriesId, Timeline] | None = None
        self._figures_chosen = False
        self._framed_ns = 0
        self.failures: list[str] = []
        """What could not be drawn, and why: one line a kind."""

    # --- news ------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """From any thread."""
        self.post_message(self.Arrived())

    def on_mount(self) -> None:
        for signal in (SIGTERM, SIGHUP, SIGINT):
            leave = partial(self.exit, return_code=128 + signal)
            with suppress(ValueError, RuntimeError):  # in a thread that is not the main one
                asyncio.get_running_loop().add_signal_handler(signal, leave)
        if hasattr(self._driver, "_must_signal_resume"):  # of a terminal
            with suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(SIGCONT, self._go_on)
        self._feed.start(self._inbox.tell)
        self.set_interval(_WATCH_S, self._watch)

    def _go_on(self) -> None:
        """After a stop. Textual takes each for one that it was told of, and would read the keyboard with one more
        thread after any other: where two wait for a key, one of them goes on waiting and holds up the end. And it
        would draw only what changes, on a screen that is empty."""
        driver = self._driver
        if driver is not None:
            if not getattr(driver, "_must_signal_resume", False):
                driver.suspend_application_mode()
            driver.resume_application_mode()
            self.refresh(layout=True)

    def on_unmount(self) -> None:
        self._feed.close()

    def on_viewer_arrived(self) -> None:
        wait_ns = self._framed_ns + self._frame_ns - self._clock.monotonic_ns()
        # What one has come to see is not waited for.
        if wait_ns > 0 and self.scene.snapshot is not None:
            self.set_timer(wait_ns / 1e9, self._frame)
        else:
            self._frame()

    def _frame(self) -> None:
        self._framed_ns = self._clock.monotonic_ns()
        for news in self._inbox.take():
            if isinstance(news, Note):
                self.say(news.words, bad=news.bad)
            else:
                self._known.learn(news)
        if self._known.ended and not self._figures_chosen:
            self._show_whole_run()
        self.draw()

    def _show_whole_run(self) -> None:
        """Of a run that is over, that is what one came for."""
        self._figures_chosen = True
        self._views = {tab: replace(view, figures="run") for tab, view in self._views.items()}

    def _watch(self) -> None:
        if self.scene.silence_s:
            self.draw()

    # --- frames ----------------------------------------------------------------------------------

    @property
    def scene(self) -> Scene:
        """What is shown: all that is known, or what was known when the screen was frozen."""
        scene = self._known.scene(self._clock.monotonic_ns())
        if self._held is None:
            return scene
        held = self._held
        return replace(
            scene,
            snapshot=held.snapshot,
            trends=held.trends,
            tokens_per_s=held.tokens_per_s,
            steps_per_s=held.steps_per_s,
            courses=held.courses,
            output=held.output,
        )

    @property
    def tabs(self) -> tuple[str, ...]:
        """Those there are. None goes while one is in it."""
        scene, here = self.scene, self.current_mode
        return tuple(tab for tab in TABS if tab == here or tab not in _THERE or _THERE[tab](scene))

    @property
    def _series(self) -> SeriesId | None:
        """The one that is open in the tab that is shown."""
        return self._opened.get(self.current_mode)

    @property
    def timeline(self) -> Timeline | None:
        """Of the series that is open, as far as it has come."""
        series, held = self._series, self._held_timeline
        if held is not None and held[0] == series:
            return held[1]
        return self._known.timeline(series) if series else None

    @property
    def view(self) -> View:
        """Of the tab that is shown: what filters one of them means nothing in another."""
        return self._views[self.current_mode]

    @property
    def cockpit_screen(self) -> CockpitScreen | None:
        """The screen that is drawn; dialogs lie above it. None before the first."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, CockpitScreen)), None)

    def on_descendant_focus(self) -> None:
        """Which keys are live depends on it."""
        self.draw()

    def on_cockpit_screen_wanted(self) -> None:
        self.draw()

    def draw(self) -> None:
        screen = self.cockpit_screen
        if screen is None or not screen.is_mounted:
            return
        try:
            screen.draw(self._shown(screen))
        except Exception as error:  # noqa: BLE001 – whatever a snapshot holds, the viewer stays; kept and said once
            words = f"{screen.PLACE}: {type(error).__name__}: {error}"
            if words not in self.failures and len(self.failures) < _FAILURES_KEPT:
                self.failures.append(words)
                self.say(f"This can't be drawn. {words}", bad=True)

    def _shown(self, screen: CockpitScreen) -> ScreenContent:
        scene = self.scene
        return ScreenContent(
            scene=scene,
            view=self.view,
            series=self._series,
            timeline=self.timeline,
            frozen=self._held is not None,
            tab=self.current_mode,
            tab_keys={tab: keys.shown(self._keys[f"tab_{TABS.index(tab) + 1}"]) for tab in self.tabs},
            shortcuts=tuple(self._shortcuts(screen)),
            now_ns=self._clock.monotonic_ns(),
            always=tuple(self._shortcut(keys.BY_ID[name]) for name in _ALWAYS),
        )

    def _shortcuts(self, screen: CockpitScreen) -> Iterator[Shortcut]:
        for key in keys.TABLE:
            if key.words and key.id not in _ALWAYS and screen.PLACE in key.on and self.is_live(key.id):
                yield self._shortcut(key)

    def _shortcut(self, key: keys.Key) -> Shortcut:
        beside = f" {keys.shown(self._keys[key.beside])}" if key.beside else ""
        words = self._words(key)
        return Shortcut(key.id, keys.shown(self._keys[key.id]) + beside, words)

    def _words(self, key: keys.Key) -> str:
        """Of a switch, what it leads to."""
        if key.id == "figures":
            return "run" if self.view.figures == "window" else "window"
        return "go on" if key.id == "freeze" and self._held is not None else key.words

    def see(self, view: View) -> None:
        self._views[self.current_mode] = view
        self.draw()

    def say(self, words: str, *, bad: bool = False) -> None:
        self.notify(printable(words), severity="error" if bad else "information", markup=False)

    def is_live(self, action: str) -> bool:
        """Whether this action can be had now."""
        return True
