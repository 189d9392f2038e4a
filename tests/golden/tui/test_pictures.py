"""Every screen as a picture, in a small terminal and in a large one. After a change that is meant to be seen:
`pytest tests/golden/tui --snapshot-update`, and look at what has changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds, loads, nodes, trainings
from tests.unit.tui.cockpits import cockpit, live, shows, until
from textual.pilot import Pilot

from telemetry.testing.clock import FakeClock
from telemetry.tui.app import Cockpit
from telemetry.tui.feed.news import CommandOutput, MembersOf, NewSnapshot, Trouble
from telemetry.tui.screens.base import FilterLine
from telemetry.wire.snapshot import MetricsSnapshot

SMALL, LARGE = (80, 24), (160, 48)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x48"])
TRUECOLOR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

pytestmark = pytest.mark.slow

Compare = Callable[..., bool]
Before = Callable[[Pilot[None]], Awaitable[None]]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], None]:
    """A terminal with all colours, until a test asks for another one."""

    def become(environment: Mapping[str, str]) -> None:
        for name in ("TERM", "COLORTERM", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    become(TRUECOLOR)
    return become


def after(*keys: str, words: str = "serve-bench") -> Before:
    """Presses keys once the run is on the screen, and waits for the words."""

    async def act(pilot: Pilot[None]) -> None:
        await shows(pilot, "queue_wait")
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await shows(pilot, words)
        assert isinstance(pilot.app, Cockpit)
        assert pilot.app.failures == []

    return act


@SIZES
def test_overview(snap_compare: Compare, size: tuple[int, int]) -> None:
    """A live run with something expected of it, a series that has become slow, and marks."""
    words = "route=/v1/embed}: p99" if size == LARGE else "replica failover"
    assert snap_compare(cockpit(live()), terminal_size=size, run_before=after("down", words=words))


@SIZES
def test_series(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Figures, percentile curve, histogram, and how it went."""
    assert snap_compare(cockpit(live()), terminal_size=size, run_before=after("enter", words="over 75 s"))


@SIZES
def test_series_compared(snap_compare: Compare, size: tuple[int, int]) -> None:
    """The series screen shows the baseline beside the run, by percentile."""
    app = cockpit(live(), baseline=feeds.baseline())
    assert snap_compare(app, terminal_size=size, run_before=after("enter", "v", words="by percentile"))


@SIZES
def test_producers(snap_compare: Compare, size: tuple[int, int]) -> None:
    """One of them slow and with losses."""
    snapshot = feeds.play().last
    slow = replace(snapshot.producers[1], events_per_s=410.0, missing=12, missing_batches=[(7, 7)], lag_s=1.2)
    late = replace(snapshot.producers[2], status="late", last_seen_ns=snapshot.time_ns - 5 * feeds.SECOND_NS)
    producers = [snapshot.producers[0], slow, late]
    accounting = replace(snapshot.accounting, missing=12, emitted=snapshot.accounting.emitted + 12)
    feed = live(replace(snapshot, producers=producers, accounting=accounting))
    assert snap_compare(cockpit(feed), terminal_size=size, run_before=after("2", "down", words="slowest"))


def of_requests(feed: feeds.FakeFeed, *keys: str, words: str = "failed: timeout") -> Before:
    """Return an action that opens the tab of requests. A second snapshot first tells how fast tokens come."""

    async def act(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 Requests", "53 s")
        feed.tell(NewSnapshot(loads.load().last, FakeClock().monotonic_ns()))
        await shows(pilot, "60 s")  # columns are never narrower than what they held a moment ago
        await pilot.press("4")
        await shows(pilot, "failed: timeout 30")
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await shows(pilot, words)
        assert isinstance(pilot.app, Cockpit)
        assert pilot.app.failures == []

    return act


@pytest.mark.parametrize("size", [SMALL, (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"])
def test_requests(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Two kinds, of one a warm-up and the window that is measured, after the server was slow for a while."""
    feed = loads.live(loads.load().snapshots[-8])
    assert snap_compare(cockpit(feed, title="llm-bench"), terminal_size=size, run_before=of_requests(feed, "down"))


def test_requests_of_a_whole_run(snap_compare: Compare) -> None:
    """The tab of requests shows rates by each definition, in a light theme."""
    feed = loads.live(loads.load().snapshots[-8])
    before = of_requests(feed, "w", words="whole run")
    app = cockpit(feed, title="llm-bench", theme="textual-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


def test_requests_in_16_colours(snap_compare: Compare, terminal: Callable[[Mapping[str, str]], None]) -> None:
    """The tab of requests uses the terminal's 16 colours and shows a moment in the past."""
    terminal({"TERM": "xterm"})
    feed = loads.live(loads.load().snapshots[-8])
    before = of_requests(feed, "comma", "comma", words="failed: –")
    assert snap_compare(cockpit(feed, title="llm-bench"), terminal_size=SMALL, run_before=before)


def of_llm(feed: feeds.FakeFeed, key: str) -> Before:
    """Return an action that opens a tab of a model's load. A second snapshot first tells how fast tokens come."""

    async def act(pilot: Pilot[None]) -> None:
        await shows(pilot, "4 Requests", "53 s")
        feed.tell(NewSnapshot(loads.load().last, FakeClock().monotonic_ns()))
        await shows(pilot, "60 s")
        await pilot.press(key)
        await pilot.pause()
        await shows(
            pilot, {"1": "chat.ttft", "2": "1/1 producer reporting", "3": "slow for a while", "4": "SLO met"}[key]
        )
        assert isinstance(pilot.app, Cockpit)
        assert pilot.app.failures == []

    return act


def of_training(*keys: str, words: str) -> Before:
    """Return an action that presses keys once the run is on the screen. The run was watched from its beginning."""

    async def act(pilot: Pilot[None]) -> None:
        await shows(pilot, "from 1.11")
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await shows(pilot, words)
        assert isinstance(pilot.app, Cockpit)
        assert pilot.app.failures == []

    return act


@SIZES
def test_steps(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Curves of three axes, of which one waits for a slow rank; and backends, most of them in trouble."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    assert snap_compare(app, terminal_size=size, run_before=of_training(words="hanging for 29 s"))


@SIZES
def test_steps_as_tables(snap_compare: Compare, size: tuple[int, int]) -> None:
    """The state of each axis, its newest values, and each backend."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    assert snap_compare(app, terminal_size=size, run_before=of_training("v", words="mlflow is not installed"))


@SIZES
def test_steps_compared(snap_compare: Compare, size: tuple[int, int]) -> None:
    """An earlier run behind the curves."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals", baseline=trainings.earlier()))
    assert snap_compare(app, terminal_size=size, run_before=of_training(words="behind: spirals-old"))


@SIZES
def test_curve(snap_compare: Compare, size: tuple[int, int]) -> None:
    """One value on the whole screen, read by the cursor, between its ranks and beside an earlier run."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals", baseline=trainings.earlier()))
    before = of_training("enter", *["left"] * 8, words="by step of train")
    assert snap_compare(app, terminal_size=size, run_before=before)


@SIZES
@pytest.mark.parametrize(
    ("downs", "words"), [(2, "rate over time"), (3, "value over time")], ids=["counter", "gauge"]
)
def test_value(snap_compare: Compare, size: tuple[int, int], downs: int, words: str) -> None:
    """A counter as its rate, a gauge as its value."""
    before = after("shift+tab", *["down"] * downs, "enter", *["left"] * 5, words=words)
    assert snap_compare(cockpit(live()), terminal_size=size, run_before=before)


@SIZES
def test_spans(snap_compare: Compare, size: tuple[int, int]) -> None:
    """The tab of spans shows where the time goes."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    assert snap_compare(app, terminal_size=size, run_before=of_training("6", words="where the time goes"))


@SIZES
@pytest.mark.parametrize(("key", "words"), [("2", "rank"), ("3", "learning rate halved")], ids=["producers", "log"])
def test_training(snap_compare: Compare, size: tuple[int, int], key: str, words: str) -> None:
    """The tabs that every run has, of a training run."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    assert snap_compare(app, terminal_size=size, run_before=of_training(key, words=words))


@SIZES
@pytest.mark.parametrize("key", ["1", "2", "3", "4"], ids=["overview", "producers", "log", "requests"])
def test_llm_load(snap_compare: Compare, size: tuple[int, int], key: str) -> None:
    """Every tab of an LLM load with limits."""
    feed = loads.live(loads.load().snapshots[-8])
    app = cockpit(feed, title="llm-bench")
    assert snap_compare(app, terminal_size=size, run_before=of_llm(feed, key))


@SIZES
def test_nodes(snap_compare: Compare, size: tuple[int, int]) -> None:
    """A root with nodes, of which one is late and one was opened."""
    snapshot = nodes.fleet(feeds.play().last)
    feed = live(snapshot)

    async def before(pilot: Pilot[None]) -> None:
        await shows(pilot, "queue_wait")
        await pilot.press("2")
        await shows(pilot, "silent for 10 s")
        await pilot.press("down", "down", "down", "enter")
        feed.tell(MembersOf(nodes.OPENED, nodes.MEMBERS))
        await shows(pilot, "train")

    assert snap_compare(cockpit(feed, title="fleet"), terminal_size=size, run_before=before)


def test_steps_of_a_whole_run(snap_compare: Compare) -> None:
    """The tab of steps shows a run that all backends have got, in a light theme.

    The cursor is on the run's backends.
    """
    over = feeds.ended(trainings.done(trainings.training().last))
    app = trainings.watched(cockpit(trainings.live(over), title="spirals", theme="textual-light"))
    before = of_training("v", "shift+tab", "shift+tab", words="where: http://collector:4318")
    assert snap_compare(app, terminal_size=SMALL, run_before=before)


@SIZES
def test_backends_on_the_overview(snap_compare: Compare, size: tuple[int, int]) -> None:
    """The overview shows backends in one line, with those in trouble by name."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    assert snap_compare(app, terminal_size=size, run_before=of_training("1", words="22:14:00.000"))


@SIZES
@pytest.mark.parametrize(
    ("state", "words"),
    [(feeds.draining, "DRAINING"), (feeds.ended, "COMPLETE"), (feeds.interrupted, "INTERRUPTED")],
    ids=["draining", "complete", "interrupted"],
)
def test_states(
    snap_compare: Compare, size: tuple[int, int], state: Callable[[MetricsSnapshot], MetricsSnapshot], words: str
) -> None:
    """The screen shows how a run ends."""
    assert snap_compare(cockpit(live(state(feeds.play().last))), terminal_size=size, run_before=after(words=words))


def test_light(snap_compare: Compare) -> None:
    """A light theme, with series in groups and differences from a baseline."""
    app = cockpit(live(), baseline=feeds.baseline(), theme="textual-light")
    assert snap_compare(app, terminal_size=SMALL, run_before=after("g", words="without model"))


@pytest.mark.parametrize(
    "environment", [{"TERM": "xterm"}, {**TRUECOLOR, "NO_COLOR": "1"}], ids=["16 colours", "no colour"]
)
@pytest.mark.parametrize("keys", [(), ("enter",)], ids=["overview", "series"])
def test_terminals(
    snap_compare: Compare,
    terminal: Callable[[Mapping[str, str]], None],
    environment: dict[str, str],
    keys: tuple[str, ...],
) -> None:
    """The screen uses the terminal's own colours if there are few.

    Without colours, bold and underlined words tell the same.
    """
    terminal(environment)
    assert snap_compare(cockpit(live()), terminal_size=SMALL, run_before=after(*keys, words="last 10 s"))


def test_past(snap_compare: Compare) -> None:
    """Half a minute ago."""
    assert snap_compare(
        cockpit(live()), terminal_size=SMALL, run_before=after("comma", "comma", "comma", words="30 s ago")
    )


def test_filter(snap_compare: Compare) -> None:
    """The overview shows a filter while it is typed.

    The cursor rests, because on a busy machine the picture may be taken between two blinks.
    """
    typed = after("slash", *"query", words="2 of 12 series")

    async def before(pilot: Pilot[None]) -> None:
        await typed(pilot)
        pilot.app.screen.query_one(FilterLine).cursor_blink = False
        await pilot.pause()

    assert snap_compare(cockpit(live()), terminal_size=SMALL, run_before=before)


def test_silence(snap_compare: Compare) -> None:
    """The aggregator has not been heard of for a while."""
    feed, clock = live(), FakeClock()

    async def before(pilot: Pilot[None]) -> None:
        await shows(pilot, "queue_wait")
        clock.advance(3.2)
        feed.tell(Trouble("the aggregator does not answer, asking again"))
        await shows(pilot, "last snapshot 3.2 s ago", "asking again")

    assert snap_compare(cockpit(feed, clock=clock), terminal_size=SMALL, run_before=before)


def test_log(snap_compare: Compare) -> None:
    """A warning, marks and output."""
    feed = live(replace(feeds.play().last, warnings=["nobody can tell whether all events came"]))

    async def before(pilot: Pilot[None]) -> None:
        feed.tell(CommandOutput(tuple(f"\x1b[32mINFO\x1b[0m step {step} done" for step in range(8))))
        await pilot.press("3")
        await shows(pilot, "step 7 done")

    assert snap_compare(cockpit(feed), terminal_size=SMALL, run_before=before)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("question_mark", "quit; the run continues"),
        ("ctrl+x", "This sends it SIGTERM"),
        ("b", "yesterday"),
    ],
    ids=["help", "stop", "baseline"],
)
def test_dialogs(snap_compare: Compare, key: str, words: str) -> None:
    """A dialog lies above the screen, which stays in sight."""
    assert snap_compare(cockpit(live()), terminal_size=SMALL, run_before=after(key, words=words))


def test_nothing_yet(snap_compare: Compare) -> None:
    """The screen shows CONNECTING before the first snapshot."""

    async def before(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(pilot.app, Cockpit) and pilot.app.cockpit_screen)
        await shows(pilot, "CONNECTING")

    assert snap_compare(cockpit(feeds.FakeFeed()), terminal_size=SMALL, run_before=before)
