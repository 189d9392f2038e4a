"""A run as lines for people."""

from __future__ import annotations

import math
from pathlib import Path

from tests.unit.backends.doubles import FACTS, mark, step

from telemetry.backends.console import ConsoleBackend, ConsoleOptions
from telemetry.backends.items import (
    Artifact,
    CounterReading,
    GaugeReading,
    Item,
    Mark,
    Params,
    Reading,
    SeriesReading,
    Step,
    Text,
)


class Console:
    def __init__(self, place: Path, options: ConsoleOptions | None = None) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.backend = ConsoleBackend(options or ConsoleOptions(), place, lambda: self.now_s)
        self.backend.say = self.said.append
        self.backend.open(FACTS, {})

    def write(self, *items: Item) -> list[str]:
        before = len(self.said)
        self.backend.write(items)
        self.backend.flush()
        return self.said[before:]


def reading(*, final: bool) -> Reading:
    return Reading(
        key="t",
        time_ns=0,
        elapsed_s=10.0,
        seconds=10.0,
        series=[
            SeriesReading(
                name="lat",
                labels={"r": "/a"},
                unit="ms",
                count=3,
                rate=2.0,
                percentiles={"50": 1, "90": 2, "99": 4},
            ),
            SeriesReading(name="idle"),
        ],
        counters=[CounterReading(name="sent", unit="B", value=2048.0)],
        gauges=[GaugeReading(name="depth", value=4.0)],
        final=final,
    )


def test_each_kind_in_a_line(tmp_path: Path) -> None:
    """Each kind of item is one line, with units, and with no sign that moves the cursor."""
    console = Console(tmp_path)
    said = console.write(
        Step(key="a", time_ns=0, axis="train", step=1_200, values={"loss": 0.125, "x\x1b": math.nan}),
        reading(final=False),
        reading(final=True),
        Params(key="b", time_ns=0, values={"lr": 0.1, "name": "x"}),
        Mark(key="c", time_ns=0, text="here\n"),
        Text(key="d", time_ns=0, name="note", text="words"),
        Artifact(key="e", time_ns=0, name="model", uri="/tmp/m.pt"),
    )
    assert said == [
        "train 1,200: loss 0.125, x\\x1b –",
        "10.0 s: lat{r=/a} p50 1.00 ms p99 4.00 ms 2/s, sent 2.00 KiB, depth 4",
        "result: lat{r=/a} p50 1.00 ms p99 4.00 ms 2/s, sent 2.00 KiB, depth 4",
        "params: lr=0.1, name=x",
        "here\\n",
        "note: words",
        "model: /tmp/m.pt",
    ]


def test_newer_lines_take_the_place_of_those_that_wait(tmp_path: Path) -> None:
    """Something is said every two seconds at most; at the end, what is left."""
    console = Console(tmp_path)
    assert console.write(step(0)) == ["train 0: loss 0"]
    assert console.write(*map(step, range(1, 50))) == []
    console.now_s = 2.0
    assert console.write(step(50)) == ["train 50: loss 50"]
    assert console.write(step(51), mark(52)) == []
    console.backend.close(final=True)
    assert console.said[-2:] == ["train 51: loss 51", "here"]


def test_lines_are_few_and_short(tmp_path: Path) -> None:
    """A thousand marks at once are twenty, and a number; a thousand values in a step are eight."""
    console = Console(tmp_path, ConsoleOptions(values=2))
    said = console.write(*map(mark, range(1_000)))
    assert (len(said), said[0]) == (21, "980 lines are omitted")
    console.now_s = 9.0
    wide = Step(key="a", time_ns=0, axis="a", step=1, values={f"v{at}": 1.0 for at in range(10)})
    assert console.write(wide) == ["a 1: v0 1, v1 1, and 8 more"]
    console.now_s = 20.0
    (long,) = console.write(Text(key="t", time_ns=0, name="t", text="x" * 4_000))
    assert len(long) < 500


def test_it_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    """The console backend has no state and tells where its lines are once it is open."""
    console = Console(tmp_path)
    assert (console.backend.state(), console.backend.where()) == ({}, "stderr")
    assert ConsoleBackend(ConsoleOptions(), tmp_path).where() == ""
