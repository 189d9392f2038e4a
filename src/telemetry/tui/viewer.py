"""The state of the cockpit and its drawing: news in, frames out."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from signal import SIGCONT, SIGHUP, SIGINT, SIGTERM
from threading import Lock
from typing import Final

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message

from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.common.formatting import printable
from telemetry.config.load import closest
from telemetry.config.schema import TuiConfig
from telemetry.errors import ConfigError, error_text
from telemetry.history.intervals.timeline import Timeline
from telemetry.tui import keys, view_changes
from telemetry.tui.feed.news import MembersOf, News, NewsFeed, Trends, ViewerNote
from telemetry.tui.model.request_flow import has_requests
from telemetry.tui.model.scene import TREND_POINTS, Baseline, Opened, Scene, SeriesId, View
from telemetry.tui.run_knowledge import RunKnowledge
from telemetry.tui.screens.bar import Shortcut
from telemetry.tui.screens.base import CockpitScreen, ScreenContent
from telemetry.tui.screens.steps import StepsScreen
from telemetry.tui.tabs import TABS
from telemetry.tui.theme import fitting_theme

WAITING: Final = 1_000
"""Largest number of waiting keys. Users do not type further ahead."""
LOST_S: Final = 1.0
"""Seconds after which a key counts as lost, together with the widget that handled it."""
_TURNS: Final = 2
"""Number of times a marker is sent behind a key.

The first arrives once the key has been handled; the second arrives after the messages that the handler sent.
"""
_NOTES: Final = 20
"""Largest number of unread notes. Users do not read more at once."""
_ALWAYS: Final = ("help", "quit")
"""Actions that always stay in the footer."""
_FAILURES_KEPT: Final = 20
"""Largest number of stored failures; further ones would add little."""
_WATCH_S: Final = 1.0
"""Interval of the check for silence."""


class OrderedKeys(App[None]):
    """An app in which each key goes to the widget that has focus after the previous key was handled.

    So letters typed after the filter key become words of the filter, and a second `enter` opens what the first one
    selected. Plain Textual dispatches keys on arrival, to the widget that has focus while earlier keys are still
    being handled. Here a marker message follows each key through the same queues, and the next key waits for its
    return.
    """

    class Heeded(Message):
        """A marker behind a key."""

        def __init__(self, turns: int) -> None:
            super().__init__()
            self.turns = turns
            """Passes left, including this one, until the effects of the key are complete."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[Key | Paste] = deque()
        self._patience: asyncio.TimerHandle | None = None
        """Timer of the key that is being handled."""

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            await super().on_event(event)
        elif len(self._typed) < WAITING:
            self._typed.append(event)
            if self._patience is None:
                await self._send_next()

    async def on_ordered_keys_heeded(self, message: Heeded) -> None:
        if message.turns > 1:
            self._trail(message.turns - 1)
        else:
            await self._send_next()

    async def _send_next(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._typed and self.screen_stack:
            lost = asyncio.get_running_loop().call_later(LOST_S, self.call_later, self._send_next)
            self._patience = lost
            await super().on_event(self._typed.popleft())
            if self._patience is lost:
                self._trail(_TURNS)

    def _trail(self, turns: int) -> None:
        if self.screen_stack:
            (self.focused or self.screen).post_message(self.Heeded(turns))


class Viewer(OrderedKeys):
    """The state of the cockpit, and its drawing; `Cockpit` changes the state.

    It draws when news arrives, at most `tui.frames_per_s` times a second, and at once after a key.
    """

    class Arrived(Message):
        """A notice that the inbox has news."""

    def __init__(
        self,
        feed: NewsFeed,
        *,
        title: str,
        settings: TuiConfig,
        baseline: Baseline | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare the state. Raises ConfigError for an unknown theme, key or action."""
        # Without colour, Textual turns theme colours into greys but leaves out the terminal's own colours.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        self.title = title
        self._keys = keys.keymap(settings.keys)
        self.set_keymap({name: key for name, key in self._keys.items() if name in settings.keys})
        if settings.theme not in self.available_themes:
            near = closest(settings.theme, self.available_themes)
            hint = f"did you mean {near}?" if near else f"the themes are {', '.join(sorted(self.available_themes))}"
            raise ConfigError(f"tui.theme: unknown theme {settings.theme!r}", hint=hint)
        self.theme = fitting_theme(settings.theme, None if self.no_color else self.console.color_system)
        self._feed = feed
        self._clock = clock
        self._frame_ns = round(1e9 / settings.frames_per_s)
        self._inbox = Inbox(self._wake)
        self._known = RunKnowledge(clock.monotonic_ns())
        self._known.compare_with(baseline)
        self._views = {tab: View(compare=baseline is not None) for tab in TABS}
        self._opened: dict[str, Opened] = {}
        """The open series or curve of each tab."""
        self._stays = False
        """True once a key was pressed, or the first tab was chosen: the tab stays as it is then."""
        self._past: view_changes.PastRange | None = None
        self._held: Scene | None = None
        """Scene when the screen was frozen. `_held_timeline` has the history of the series open at that time."""
        self._held_timeline: tuple[SeriesId, Timeline] | None = None
        self._figures_chosen = False
        self._asked_for: dict[str, int] = {}
        """Number of producers of each node, by leaf, when the feed was last asked to list them."""
        self._framed_ns = 0
        self.failures: list[str] = []
        """Drawing errors: one line per kind."""

    # --- news ------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake the app. May be called from any thread."""
        self.post_message(self.Arrived())

    def on_mount(self) -> None:
        for signal in (SIGTERM, SIGHUP, SIGINT):
            leave = partial(self.exit, return_code=128 + signal)
            with suppress(ValueError, RuntimeError):  # raised outside the main thread
                asyncio.get_running_loop().add_signal_handler(signal, leave)
        if hasattr(self._driver, "_must_signal_resume"):  # a terminal's driver
            with suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(SIGCONT, self._go_on)
        self._feed.start(self._inbox.tell)
        self.set_interval(_WATCH_S, self._watch)

    def _go_on(self) -> None:
        """Resume after SIGCONT.

        Textual treats each SIGCONT as the end of a suspension it knows about. It would start one more thread to
        read the keyboard; of two such threads, one keeps waiting and delays the exit. It would also redraw only
        changes, on an empty screen.
        """
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
        # Draw the first snapshot at once.
        if wait_ns > 0 and self.scene.snapshot is not None:
            self.set_timer(wait_ns / 1e9, self._frame)
        else:
            self._frame()

    def _frame(self) -> None:
        self._framed_ns = self._clock.monotonic_ns()
        for news in self._inbox.take():
            if isinstance(news, ViewerNote):
                self.say(news.words, bad=news.bad)
            else:
                self._known.learn(news)
        if self._known.ended and not self._figures_chosen:
            self._show_whole_run()
        self._ask_for_members()
        self._choose_tab()
        self.draw()

    def _choose_tab(self) -> None:
        """Show the steps of a run that has no requests, unless a key was pressed before."""
        scene = self.scene
        if self._stays or scene.snapshot is None or not scene.snapshot.axes:
            return
        self._stays = True
        if not has_requests(scene):
            self.switch_mode("steps")

    async def on_event(self, event: Event) -> None:
        self._stays = self._stays or isinstance(event, Key)
        await super().on_event(event)

    def _show_whole_run(self) -> None:
        """Show figures of the whole run: the most useful ones after its end."""
        self._figures_chosen = True
        self._views = {tab: replace(view, figures="run") for tab, view in self._views.items()}

    def _ask_for_members(self) -> None:
        """Ask for the producers of an opened node, and again when their number has changed."""
        opened = self._views["producers"].opened_nodes
        snapshot = self._known.scene(self._clock.monotonic_ns()).snapshot
        for stat in snapshot.nodes if opened and snapshot is not None else ():
            if stat.leaf in opened and self._asked_for.get(stat.leaf) != stat.producers:
                self._asked_for[stat.leaf] = stat.producers
                self._feed.list_members(stat.leaf)

    def _watch(self) -> None:
        if self.scene.silence_s:
            self.draw()

    # --- frames ----------------------------------------------------------------------------------

    @property
    def scene(self) -> Scene:
        """The shown scene: the current one, or the frozen one."""
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
            curves=held.curves,
            output=held.output,
        )

    @property
    def tabs(self) -> tuple[str, ...]:
        """The available tabs. The current tab always stays."""
        scene, here = self.scene, self.current_mode
        return tuple(name for name, tab in TABS.items() if name == here or tab.exists(scene))

    @property
    def _open_here(self) -> Opened | None:
        """The open series or curve of the current tab."""
        return self._opened.get(self.current_mode)

    @property
    def _series(self) -> SeriesId | None:
        """The open series of the current tab."""
        opened = self._open_here
        return opened.series if opened is not None and opened.kind == "series" else None

    @property
    def timeline(self) -> Timeline | None:
        """The loaded history of the open series."""
        series, held = self._series, self._held_timeline
        if held is not None and held[0] == series:
            return held[1]
        return self._known.timeline(series) if series else None

    @property
    def view(self) -> View:
        """The view of the current tab. Each tab has its own: a filter of one is useless in another."""
        return self._views[self.current_mode]

    @property
    def cockpit_screen(self) -> CockpitScreen | None:
        """The drawn screen below any dialogs; None before the first."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, CockpitScreen)), None)

    def on_descendant_focus(self) -> None:
        """Redraw: the available keys depend on the focus."""
        self.draw()

    def on_cockpit_screen_wanted(self) -> None:
        self.draw()

    def draw(self) -> None:
        screen = self.cockpit_screen
        if screen is None or not screen.is_mounted:
            return
        try:
            screen.draw(self._shown(screen))
        except Exception as error:  # noqa: BLE001 – no snapshot may end the viewer; reported once
            failure = f"{screen.PLACE}: {error_text(error)}"
            if failure not in self.failures and len(self.failures) < _FAILURES_KEPT:
                self.failures.append(failure)
                self.say(f"This screen failed to draw. {failure}", bad=True)

    def _shown(self, screen: CockpitScreen) -> ScreenContent:
        scene, opened = self.scene, self._open_here
        return ScreenContent(
            scene=scene,
            view=self.view,
            series=self._series,
            timeline=self.timeline,
            opened=opened,
            values=self._known.values(opened.series) if opened is not None else None,
            frozen=self._held is not None,
            tab=self.current_mode,
            tab_keys={
                tab: keys.shown(self._keys[f"tab_{number}"])
                for number, tab in enumerate(TABS, 1)
                if tab in self.tabs
            },
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
        label = self._words(key)
        return Shortcut(key.id, keys.shown(self._keys[key.id]) + beside, label)

    def _words(self, key: keys.Key) -> str:
        """Return the footer text of a key; for a switch, the state it leads to."""
        if key.id == "figures":
            return "run" if self.view.figures == "window" else "window"
        if key.id == "table":
            return "table" if self._shows_curves else "curves"
        if key.id == "pan_left" and self._open_here is not None and self._open_here.kind != "series":
            return "cursor"
        return "go on" if key.id == "freeze" and self._held is not None else key.words

    @property
    def _shows_curves(self) -> bool:
        screen = self.cockpit_screen
        return isinstance(screen, StepsScreen) and screen.shows_curves

    def see(self, view: View) -> None:
        self._views[self.current_mode] = view
        self.draw()

    def say(self, message: str, *, bad: bool = False) -> None:
        self.notify(printable(message), severity="error" if bad else "information", markup=False)

    def is_live(self, action: str) -> bool:
        """Return whether this action is available now."""
        return True


class Inbox:
    """An inbox. Any thread may call `tell`; one thread calls `take`.

    `wake` is called for the first news after each `take`, by the thread that calls `tell`.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._newest: dict[tuple[type[News], str], News] = {}
        """The newest news by kind; producers of nodes also by node."""
        self._trends: deque[News] = deque(maxlen=TREND_POINTS)
        self._notes: deque[News] = deque(maxlen=_NOTES)
        self._awake = False

    def tell(self, news: News) -> None:
        with self._lock:
            if isinstance(news, Trends):
                self._trends.append(news)
            elif isinstance(news, ViewerNote):
                self._notes.append(news)
            else:
                self._newest[type(news), news.node if isinstance(news, MembersOf) else ""] = news
            woken, self._awake = self._awake, True
        if not woken:
            self._wake()

    def take(self) -> list[News]:
        """Return the news since the last call: the newest of each kind, all trends and all notes."""
        with self._lock:
            news = [*self._newest.values(), *self._trends, *self._notes]
            self._newest.clear()
            self._trends.clear()
            self._notes.clear()
            self._awake = False
        return news
