"""A cockpit at a played run, what stands on its screen, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.tui import feeds
from textual.pilot import Pilot

from telemetry.config.schema import TuiConfig
from telemetry.testing.clock import FakeClock
from telemetry.tui.app import Cockpit
from telemetry.tui.feed.news import NewsFeed, NewSnapshot
from telemetry.tui.model.scene import Baseline
from telemetry.wire.snapshot import MetricsSnapshot

STOP_WORDS = "Stop `python bench.py`? This sends it SIGTERM."
RUNS = [("earlier", "serve-bench yesterday"), ("other", "something else")]
_DEADLINE_S = 20.0


def cockpit(
    feed: NewsFeed,
    export_dir: Path = Path("nowhere"),
    *,
    clock: FakeClock | None = None,
    baseline: MetricsSnapshot | Baseline | None = None,
    load_baseline: Callable[[str], MetricsSnapshot | Baseline] = lambda spec: feeds.baseline(),
    baselines: Callable[[], list[tuple[str, str]]] = lambda: RUNS,
    beside_command: bool = False,
    title: str = "serve-bench",
    **settings: object,
) -> Cockpit:
    """Return a cockpit whose clock stands still, so that each piece of news waits for one frame."""
    return Cockpit(
        feed,
        title=title,
        settings=TuiConfig(**{"frames_per_s": 30.0, **settings}),  # type: ignore[arg-type]
        stop_words=STOP_WORDS,
        load_baseline=lambda spec: _with_curves(load_baseline(spec)),
        baselines=baselines,
        baseline=_with_curves(baseline) if baseline is not None else None,
        export_dir=export_dir,
        beside_command=beside_command,
        clock=clock or FakeClock(),
    )


def _with_curves(baseline: MetricsSnapshot | Baseline) -> Baseline:
    return baseline if isinstance(baseline, Baseline) else Baseline(baseline)


def live(snapshot: MetricsSnapshot | None = None, *, answers: bool = True) -> feeds.FakeFeed:
    """The played run at its last second, as `FakeClock` has it."""
    fresh = NewSnapshot(snapshot or feeds.play().last, FakeClock().monotonic_ns())
    return feeds.FakeFeed(fresh, feeds.play().trends(), answers=answers)


def lines(app: Cockpit) -> list[str]:
    """Return the lines that stand on the screen, dialogs included."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def text(app: Cockpit) -> str:
    return "\n".join(lines(app))


async def until(pilot: Pilot[None], condition: Callable[[], object], what: str = "the condition") -> None:
    """Waits until it is true."""
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert isinstance(pilot.app, Cockpit)
        assert time.monotonic() < deadline, f"{what} did not come true\n{text(pilot.app)}\n{pilot.app.failures}"
        await pilot.pause(0.01)


async def shows(pilot: Pilot[None], *words: str) -> None:
    """Waits until all these words stand on the screen."""
    app = pilot.app
    assert isinstance(app, Cockpit)
    await until(pilot, lambda: all(each in text(app) for each in words), f"{words} on the screen")


async def lacks(pilot: Pilot[None], *words: str) -> None:
    """Waits until none of these words stands on the screen."""
    app = pilot.app
    assert isinstance(app, Cockpit)
    await until(pilot, lambda: not any(each in text(app) for each in words), f"no {words} on the screen")


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()
