"""Tests of what a viewer hears of a real run: live, with a dead aggregator, and when it is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.history.interval_source import ControlIntervals, DiskIntervals
from telemetry.store.run_directory import RunDirectory
from telemetry.tui.feed.live import LiveFeed
from telemetry.tui.feed.news import News, NewSnapshot, RangeFiguresOf, TimelineOf, Trends, Trouble
from telemetry.tui.feed.open import open_feed
from telemetry.wire.snapshot import MetricsSnapshot

WAIT_S = 60.0
FOREVER = 1 << 62
VALUE = ("value", (("who", "me"),))
PRODUCER = """
import os, time, telemetry
run = telemetry.start("ignored", policy="block")
value, made = run.series("value", unit="ms", who="me"), 0
while not os.path.exists("go"):
    for _ in range(100):
        value.record(made % 1000 + 0.25)
        made += 1
    time.sleep(0.01)
run.finish()
print(made)
"""

Until = Callable[..., Any]


class Viewer:
    """A feed, and what it has told."""

    def __init__(self, feed: Any) -> None:
        self.feed = feed
        self.news: list[News] = []
        feed.start(self.news.append)

    def last(self, kind: type[News]) -> Any:
        return next((news for news in reversed(list(self.news)) if isinstance(news, kind)), None)

    def all(self, kind: type[News]) -> list[Any]:
        return [news for news in list(self.news) if isinstance(news, kind)]

    @property
    def snapshot(self) -> MetricsSnapshot:
        found: MetricsSnapshot = self.last(NewSnapshot).snapshot
        return found

    def followed(self) -> Any:
        """All that is told of the series over the whole run."""
        timeline = self.last(TimelineOf)
        return timeline and timeline.timeline.between(0, FOREVER).figures(["50", "99"])


class Run:
    """An aggregator and a producer that records until it is told to end."""

    def __init__(self, ground: Any) -> None:
        self.ground = ground
        self.aggregator, self.endpoint = ground.serve(
            "--bind", f"ipc://{ground.folder}/ctl", environ={"TELEMETRY_RUN__ORPHAN_GRACE_S": "0"}
        )
        program = ground.program("producer.py", PRODUCER)
        self.producer = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": self.endpoint})

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory.open(Path(self.ground.folder) / "runs" / "latest")

    def end_producer(self) -> int:
        """End the producer, and return how many values it has recorded."""
        (self.ground.folder / "go").touch()
        out, err = self.producer.communicate(timeout=WAIT_S)
        assert self.producer.returncode == 0, err
        return int(out)

    def stop(self) -> None:
        code, _, err = self.ground.run("stop", self.endpoint)
        assert code == 0, err


@pytest.fixture
def live(ground: Any) -> Run:
    return Run(ground)


@pytest.fixture
def view() -> Iterator[Callable[[Any], Viewer]]:
    """`view(feed)` starts it; closed at the end."""
    made: list[Viewer] = []

    def start(feed: Any) -> Viewer:
        made.append(Viewer(feed))
        return made[-1]

    yield start
    for viewer in made:
        viewer.feed.close()


def test_a_run_from_attaching_to_its_result(live: Run, view: Callable[[Any], Viewer], wait_until: Until) -> None:
    """Trends come each second; in the end the history that was followed has every value, as has that of its
    directory, and both ways to read it agree."""
    viewer = view(LiveFeed(live.endpoint))
    wait_until(lambda: viewer.last(NewSnapshot) and viewer.snapshot.series, WAIT_S, "a series")
    viewer.feed.follow(VALUE)
    wait_until(lambda: len(viewer.all(Trends)) >= 3, WAIT_S, "three seconds of trends")
    made = live.end_producer()
    wait_until(lambda: viewer.followed().count == made, WAIT_S, "the whole history")
    past = ControlIntervals(live.endpoint)
    asked = list(past.intervals(0))
    read = list(DiskIntervals(live.directory.history).intervals(0))  # a second may have passed
    assert asked == read[: len(asked)]
    assert past.keys() == DiskIntervals(live.directory.history).keys()
    past.close()

    viewer.feed.stop_run()
    wait_until(lambda: viewer.snapshot.state == "COMPLETE", WAIT_S, "the result")
    result = viewer.snapshot
    assert (result.completeness, result.reason) == ("complete", "stopped from the viewer")
    live.aggregator.communicate(timeout=WAIT_S)
    viewer.feed.look_at(viewer.last(TimelineOf).timeline.end_ns, FOREVER / 1e9)
    moment = wait_until(lambda: viewer.last(RangeFiguresOf), WAIT_S, "the moment").moment
    [exact] = result.series
    assert exact.count == made
    for figures in (viewer.followed(), moment.series[VALUE]):
        assert (figures.count, figures.min, figures.max) == (made, exact.min, exact.max)
        assert figures.percentiles["99"] == pytest.approx(exact.percentiles["99"], rel=1e-3)

    again = view(open_feed("", live.directory, fallback_dirs=[]))
    again.feed.follow(VALUE)
    wait_until(lambda: again.last(TimelineOf) and again.last(Trends), WAIT_S, "the history on disk")
    assert not again.last(NewSnapshot).live
    assert again.snapshot == result
    assert again.followed() == viewer.followed()
    assert not viewer.all(Trouble)


def test_an_aggregator_that_is_killed_and_resumed(
    live: Run, view: Callable[[Any], Viewer], wait_until: Until
) -> None:
    """Is trouble in between. Then it is the same run, whose history goes on."""
    viewer = view(LiveFeed(live.endpoint))
    viewer.feed.follow(VALUE)
    wait_until(lambda: viewer.last(TimelineOf), WAIT_S, "some history")
    epoch = viewer.snapshot.epoch
    live.aggregator.kill()
    wait_until(lambda: viewer.last(Trouble), WAIT_S, "trouble")
    again = live.ground.telemetry("serve", "--resume", str(live.directory.path))
    wait_until(lambda: viewer.snapshot.epoch != epoch, WAIT_S, "the other epoch")
    wait_until(lambda: viewer.last(Trouble).words == "", WAIT_S, "the end of trouble")
    made = live.end_producer()
    wait_until(lambda: viewer.followed().count == made, WAIT_S, "the whole history")
    live.stop()
    wait_until(lambda: viewer.snapshot.state == "COMPLETE", WAIT_S, "the result")
    again.communicate(timeout=WAIT_S)


def test_a_dead_run_that_is_recovered_under_the_eyes_of_a_viewer(
    live: Run, view: Callable[[Any], Viewer], wait_until: Until
) -> None:
    """The viewer of a dead run sees its result from the recovery on."""
    viewer = view(LiveFeed(live.endpoint))
    wait_until(lambda: viewer.last(Trends), WAIT_S, "some history")
    live.aggregator.kill()
    live.producer.kill()
    live.aggregator.communicate(timeout=WAIT_S)
    wait_until(lambda: viewer.last(Trouble), WAIT_S, "trouble")
    code, _, err = live.ground.run("recover", str(live.directory.path))
    assert code == 0, err
    wait_until(lambda: not viewer.last(NewSnapshot).live, WAIT_S, "the result")
    assert viewer.snapshot.state == "INTERRUPTED"
    assert viewer.last(Trouble).words == ""
