"""The known facts about a run, collected from all news."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from telemetry.history.intervals.timeline import Timeline
from telemetry.history.rates import LEAST_NS, RecentSteps, SnapshotWindow
from telemetry.tui.feed.news import (
    CommandOutput,
    CurvesOf,
    GatesOf,
    MembersOf,
    News,
    NewSnapshot,
    RangeFiguresOf,
    StragglersOf,
    TimelineOf,
    Trends,
    Trouble,
    ValuesOf,
)
from telemetry.tui.model.scene import TREND_POINTS, Baseline, Scene, SeriesId, Trend, ValuesOverTime, series_id
from telemetry.wire import requests as words
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_SUFFIXES: Final = (f".{words.INPUT_TOKENS}", f".{words.OUTPUT_TOKENS}")
_CHANGES: Final = {words.ISSUED: 1, words.COMPLETED: -1, words.FAILED: -1, words.EXPIRED: -1}
_REQUESTS: Final = words.INSTRUMENTS[words.ISSUED][1]
_NOT_OF_KIND: Final = (words.FINISH, words.REASON, words.WINDOW)
"""Labels that counters of one kind of request differ in."""
FRESH_S: Final = 2.0
"""Age in seconds from which silence is shown. Snapshots normally arrive ten times a second."""
_INTERVALS_FRESH: Final = 3.0
"""Number of refresh intervals that may pass first if snapshots are rarer."""


class RunKnowledge:
    """A collector that folds news into a Scene. Single-threaded; times are from the monotonic clock."""

    def __init__(self, now_ns: int) -> None:
        self._scene = Scene()
        self._tokens = TokenRates()
        self._steps = RecentSteps()
        self._in_flight = InFlightPeaks()
        self._heard_ns = now_ns
        self._timeline: TimelineOf | None = None
        self._values: ValuesOf | None = None
        self._past = False

    def learn(self, news: News) -> None:
        """Fold one piece of news into the scene. Notes are for the viewer and change nothing."""
        scene = self._scene
        if isinstance(news, NewSnapshot):
            self._heard_ns = news.at_ns
            self._scene = replace(
                scene,
                snapshot=news.snapshot,
                live=news.live,
                tokens_per_s=self._tokens.learn(news.snapshot),
                steps_per_s=self._steps.learn(news.snapshot),
                peaks=self._in_flight.learn(news.snapshot),
            )
        elif isinstance(news, Trouble):
            self._scene = replace(scene, trouble=news.words)
        elif isinstance(news, Trends):
            trends = scene.trends if news.step_s == scene.trend_step_s else {}
            self._scene = replace(scene, trends=_extended(trends, news), trend_step_s=news.step_s)
        elif isinstance(news, StragglersOf):
            self._scene = replace(scene, stragglers=news.found)
        elif isinstance(news, CurvesOf):
            self._scene = replace(scene, curves=news.curves)
        elif isinstance(news, GatesOf):
            self._scene = replace(scene, gates=news.gates, gates_final=news.final)
        elif isinstance(news, CommandOutput):
            self._scene = replace(scene, output=news.lines)
        elif isinstance(news, MembersOf):
            self._scene = replace(scene, members={**scene.members, news.node: news.members})
        elif isinstance(news, TimelineOf):
            self._timeline = news
        elif isinstance(news, ValuesOf):
            self._values = news
        elif isinstance(news, RangeFiguresOf) and self._past:
            self._scene = replace(scene, moment=news.moment)

    def look_back(self) -> None:
        """Accept answers about the past into the scene from now on."""
        self._past = True

    def return_to_now(self) -> None:
        self._past = False
        self._scene = replace(self._scene, moment=None)

    def compare_with(self, baseline: Baseline | None) -> None:
        snapshot = baseline.snapshot if baseline is not None else None
        curves = baseline.curves if baseline is not None else ()
        self._scene = replace(self._scene, baseline=snapshot, baseline_curves=curves)

    def scene(self, now_ns: int) -> Scene:
        silence_s = self._silence_s(now_ns)
        return replace(self._scene, silence_s=silence_s) if silence_s else self._scene

    def timeline(self, series: SeriesId) -> Timeline | None:
        """Return the timeline of this series; None until its history has arrived."""
        latest = self._timeline
        return latest.timeline if latest is not None and latest.series == series else None

    def values(self, series: SeriesId) -> ValuesOverTime | None:
        """Return the history of this counter or gauge; None until it has arrived."""
        latest = self._values
        return latest.values if latest is not None and latest.series == series else None

    @property
    def ended(self) -> bool:
        """True once the run has ended."""
        snapshot = self._scene.snapshot
        return not self._scene.live or (snapshot is not None and snapshot.state in TERMINAL)

    def _silence_s(self, now_ns: int) -> float:
        if self.ended:
            return 0.0
        silence_s = (now_ns - self._heard_ns) / 1e9
        snapshot = self._scene.snapshot
        slow_s = _INTERVALS_FRESH / snapshot.refresh_hz if snapshot and snapshot.refresh_hz else 0.0
        return silence_s if silence_s > max(FRESH_S, slow_s) else 0.0


def _extended(trends: Mapping[SeriesId, Trend], news: Trends) -> Mapping[SeriesId, Trend]:
    """Return the trends with the new steps. A known series has a gap in each step without values."""
    extended = {}
    for series in {**trends, **news.points}:
        more = news.points.get(series, ())
        gap = (None,) * (news.steps - len(more)) if series in trends else ()
        extended[series] = (*trends.get(series, ()), *gap, *more)[-TREND_POINTS:]
    return extended


def _tokens(snapshot: MetricsSnapshot) -> dict[SeriesId, float]:
    """Return the total of each series of input or output tokens."""
    return {
        series_id(stat.name, stat.labels): stat.total for stat in snapshot.series if stat.name.endswith(_SUFFIXES)
    }


class InFlightPeaks:
    """The most requests in flight that a snapshot had, by kind and labels."""

    def __init__(self) -> None:
        self._known: Mapping[SeriesId, float] = {}

    def learn(self, snapshot: MetricsSnapshot) -> Mapping[SeriesId, float]:
        """Return the peaks since watching began. Between two snapshots there may have been more."""
        now: dict[SeriesId, float] = {}
        for stat in snapshot.counters:
            kind, _, word = stat.name.rpartition(".")
            if word in _CHANGES and stat.unit == _REQUESTS:
                labels = {key: value for key, value in stat.labels.items() if key not in _NOT_OF_KIND}
                key = series_id(kind, labels)
                now[key] = now.get(key, 0.0) + _CHANGES[word] * stat.value
        self._known = {key: max(number, self._known.get(key, 0.0)) for key, number in now.items()}
        return self._known


class TokenRates:
    """How fast the totals of tokens grow."""

    def __init__(self) -> None:
        self._window = SnapshotWindow[Mapping[SeriesId, float]]()

    def learn(self, snapshot: MetricsSnapshot) -> Mapping[SeriesId, float]:
        """Return the growth per second of each total, over the window or since the first snapshot.

        Returns an empty map at first.
        """
        totals, now_ns = _tokens(snapshot), round(snapshot.elapsed_s * 1e9)
        start_ns, before = self._window.learn(snapshot, now_ns, totals)
        if now_ns - start_ns < LEAST_NS:
            return {}
        seconds = (now_ns - start_ns) / 1e9
        return {key: max(0.0, total - before.get(key, 0)) / seconds for key, total in totals.items()}
