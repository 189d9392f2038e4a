"""Tests of what is known of a run after some news."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds, loads, trainings

from telemetry.tui.feed.news import (
    CommandOutput,
    CurvesOf,
    GatesOf,
    MembersOf,
    NewSnapshot,
    RangeFiguresOf,
    TimelineOf,
    Trends,
    Trouble,
    ValuesOf,
    ViewerNote,
)
from telemetry.tui.model.scene import TREND_POINTS, RangeFigures, Scene, ValuesOverTime
from telemetry.tui.run_knowledge import RunKnowledge
from telemetry.wire.control import MemberFacts
from telemetry.wire.gates import GateResult

S = feeds.SECOND_NS
SERIES = ("queue_wait", ())


def test_nothing_is_known_at_first() -> None:
    """An empty scene, as long as that is not worth a word."""
    assert RunKnowledge(0).scene(S) == Scene()


def test_news_become_the_scene() -> None:
    """Snapshot, trouble, output: each replaces what was known before."""
    known = RunKnowledge(0)
    snapshot = feeds.play().last
    gates = (GateResult(expression="p99(a) < 1ms", outcome="fail", reason="2 ms"),)
    for news in (
        NewSnapshot(snapshot, S),
        Trouble("gone"),
        CommandOutput(("a", "b")),
        GatesOf(gates),
        ViewerNote("never mind"),
    ):
        known.learn(news)
    assert known.scene(S) == Scene(snapshot=snapshot, trouble="gone", output=("a", "b"), gates=gates)
    known.learn(Trouble(""))
    assert known.scene(S).trouble == ""


def test_producers_of_several_nodes_are_kept() -> None:
    """A newer answer about a node replaces the older one."""
    known, member = RunKnowledge(0), MemberFacts(producer="p", rank=3)
    for news in (MembersOf("a", ()), MembersOf("b", ()), MembersOf("a", (member,))):
        known.learn(news)
    assert known.scene(S).members == {"a": (member,), "b": ()}


def test_tokens_are_watched_from_snapshot_to_snapshot() -> None:
    """A rate of what they have grown by since."""
    known, played = RunKnowledge(0), loads.load().snapshots
    known.learn(NewSnapshot(played[-5], 0))
    assert known.scene(0).tokens_per_s == {}
    known.learn(NewSnapshot(played[-1], 0))
    rates = known.scene(0).tokens_per_s
    assert {dict(labels)["window"]: rate > 500 for (_, labels), rate in rates.items()} == {
        "warm-up": False,
        "measured": True,
    }


def test_trends_grow_at_their_end() -> None:
    """Trends grow at their end, to at most a minute. A series without values in a step has a gap there."""
    known = RunKnowledge(0)
    known.learn(Trends({SERIES: tuple(float(point) for point in range(TREND_POINTS)), ("b", ()): (7.0,)}))
    known.learn(Trends({SERIES: (1_000.0,)}))
    trends = known.scene(0).trends
    assert trends[SERIES][0] == 1.0
    assert trends[SERIES][-1] == 1_000.0
    assert len(trends[SERIES]) == TREND_POINTS
    assert trends[("b", ())] == (7.0, None)
    known.learn(Trends({SERIES: (1.0, 2.0), ("b", ()): (9.0,), ("c", ()): (3.0,)}, steps=2))
    assert known.scene(0).trends[("b", ())] == (7.0, None, None, 9.0)
    assert known.scene(0).trends[("c", ())] == (3.0,)
    known.learn(Trends(steps=20))
    assert known.scene(0).trends[SERIES][-21:] == (2.0, *[None] * 20)


def test_silence_is_told_once_it_is_more_than_two_seconds() -> None:
    """The silence of a live run counts from its last snapshot, or from the start if none has come.

    The scene has it once it is more than two seconds.
    """
    known = RunKnowledge(0)
    assert known.scene(3 * S).silence_s == 3.0
    known.learn(NewSnapshot(feeds.play().last, 10 * S))
    assert known.scene(11 * S).silence_s == 0.0
    assert known.scene(13 * S).silence_s == 3.0


def test_rare_snapshots_are_no_silence() -> None:
    """One every five seconds is late after fifteen."""
    known = RunKnowledge(0)
    known.learn(NewSnapshot(replace(feeds.play().last, refresh_hz=0.2), 0))
    assert known.scene(14 * S).silence_s == 0.0
    assert known.scene(16 * S).silence_s == 16.0


@pytest.mark.parametrize(
    "news",
    [NewSnapshot(feeds.ended(feeds.play().last), 0), NewSnapshot(feeds.play().last, 0, live=False)],
    ids=["over", "disk"],
)
def test_a_run_that_is_over_is_silent_and_that_is_well(news: NewSnapshot) -> None:
    """A run that is over is silent, and that is well, as no more is to be expected of it."""
    known = RunKnowledge(0)
    assert not known.ended
    known.learn(news)
    assert known.ended
    assert known.scene(100 * S).silence_s == 0.0


def test_an_answer_about_the_past_counts_only_while_it_is_looked_at() -> None:
    """One that comes after the viewer has returned to now changes nothing."""
    known, moment = RunKnowledge(0), RangeFigures(start_ns=1, end_ns=2)
    known.learn(RangeFiguresOf(moment))
    assert known.scene(0).moment is None
    known.look_back()
    known.learn(RangeFiguresOf(moment))
    assert known.scene(0).moment == moment
    known.return_to_now()
    assert known.scene(0).moment is None
    known.learn(RangeFiguresOf(moment))
    assert known.scene(0).moment is None


def test_a_timeline_belongs_to_its_series() -> None:
    """A timeline belongs to its series, and that of another one is no answer."""
    known, timeline = RunKnowledge(0), feeds.play().timeline(SERIES)
    known.learn(TimelineOf(SERIES, timeline))
    assert known.timeline(SERIES) is timeline
    assert known.timeline(("prompt", ())) is None


def test_the_baseline_is_part_of_the_scene() -> None:
    """The baseline is part of the scene from when it is chosen."""
    known = RunKnowledge(0)
    known.compare_with(baseline := trainings.earlier())
    assert known.scene(0).baseline is baseline.snapshot
    assert known.scene(0).baseline_curves == baseline.curves
    known.compare_with(None)
    assert (known.scene(0).baseline, known.scene(0).baseline_curves) == (None, ())


def test_curves_and_values_are_kept() -> None:
    """The newest curves; the values of the counter that is open, and of no other."""
    known = RunKnowledge(0)
    assert known.scene(0).curves is None
    known.learn(CurvesOf(trainings.training().curves()))
    assert known.scene(0).curves == trainings.training().curves()
    values = ValuesOverTime("counter", "B", ((0, 1, 2.0),))
    known.learn(ValuesOf(("sent", ()), values))
    assert known.values(("sent", ())) is values
    assert known.values(("other", ())) is None
