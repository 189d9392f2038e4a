"""A writer reduced to what a backend sees of it: items in batches, a flush and a checkpoint after each.

    python -m tests.backends.handing KIND[:options] FOLDER STEPS [BATCHES]

With BATCHES it kills itself after it has written so many, before their flush: the next process goes on from the
checkpoint, and everything since comes again.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from telemetry.backends.backend import RunFacts
from telemetry.backends.choice import make, parse
from telemetry.backends.items import (
    Artifact,
    CounterReading,
    GaugeReading,
    Histogram,
    Item,
    Mark,
    Params,
    Reading,
    SeriesReading,
    Step,
    Table,
    Text,
)

STARTED_NS = 1_790_000_000_000_000_000
READINGS = 30
SERIES = 10
SCALARS = 20
BATCH = 500
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)
"""One grey pixel."""


def value(step: int, number: int) -> float:
    return step + number / 8


def items(steps: int, picture: Path) -> Iterator[Item]:
    """A small run of every kind that trackers know: what it holds is a function of its arguments alone."""
    yield Params(
        key="r0", time_ns=STARTED_NS, values={"lr": 0.25, "layers": 4, "opt": "adam", "warm": True, "none": None}
    )
    half = steps // 2
    yield from chain(map(_step, range(half)), _others(picture), map(_reading, range(1, READINGS + 1)))
    yield from map(_step, range(half, steps))
    yield Step(
        key=f"r{steps + 100}",
        time_ns=STARTED_NS,
        axis="eval",
        step=7,
        values={"eval/λ": 0.5, "eval/nan": float("nan")},
    )
    yield Reading(
        key="final", time_ns=STARTED_NS + 10**12, elapsed_s=1000.0, seconds=1000.0, series=_series(1000), final=True
    )


def main(text: str, folder: Path, steps: int, killed_after: int) -> None:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    picture = folder / "picture.png"
    picture.write_bytes(PNG)
    kept = folder / "checkpoint.json"
    checkpoint: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"next": 0, "state": {}}
    gc.disable()  # until it is open, as in a writer
    backend = make(parse(text), folder / "data")
    backend.open(RunFacts("run-1", "bench", STARTED_NS, folder / "bench-1"), checkpoint["state"])
    gc.freeze()
    gc.enable()
    done = 0
    source = items(steps, picture)
    for number, batch in enumerate(iter(lambda: list(islice(source, BATCH)), [])):
        if number < checkpoint["next"]:
            continue
        backend.write(batch)
        done += 1
        if done == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)
        backend.flush()
        kept.write_text(json.dumps({"next": number + 1, "state": backend.state()}))
    backend.close(final=True)
    print(backend.where())


def _step(number: int) -> Step:
    values = {f"train/v{index}": value(number, index) for index in range(SCALARS)}
    return Step(key=f"r{number + 1}", time_ns=STARTED_NS + number * 10**7, axis="train", step=number, values=values)


def _others(picture: Path) -> Iterator[Item]:
    at: dict[str, Any] = {"time_ns": STARTED_NS + 10**9, "axis": "eval", "step": 3}
    yield Mark(key="m0", time_ns=STARTED_NS + 2 * 10**9, text="warm", labels={"rank": "0"}, producer="p")
    yield Text(key="m1", name="sample", text="# Hello\n\n*there* ü", **at)
    yield Table(key="m2", name="best", columns=["name", "a|b"], rows=[["x|y", 1], [None, 2.5]], **at)
    yield Histogram(key="m3", name="weights", edges=[-1.0, 0.0, 1.0, 4.0], counts=[1, 0, 5], **at)
    yield Artifact(key="m4", name="plot", uri=picture.as_uri(), kind="image", **at)
    yield Artifact(key="m5", name="model", uri="s3://bucket/model 1.bin", kind="model", **at)


def _reading(number: int) -> Reading:
    return Reading(
        key=f"t{number}",
        time_ns=STARTED_NS + number * 10**10,
        elapsed_s=number * 10.0,
        seconds=10.0,
        series=_series(number),
        counters=[CounterReading(name="requests", value=number * 5.0, rate=0.5)],
        gauges=[GaugeReading(name="depth", value=number / 4)],
    )


def _series(number: int) -> list[SeriesReading]:
    return [
        SeriesReading(
            name=f"latency{index}",
            labels={"route": "/a"},
            unit="ms",
            count=8,
            rate=0.75,
            total=28.0,
            min=1.0,
            max=9.5,
            mean=3.5,
            percentiles={"50": 3.0 + index, "99.9": number * 0.5},
            cells=[(1.0, 2.0, 3), (4.0, 5.0, 4), (9.0, 9.75, 1)],
        )
        for index in range(SERIES)
    ]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
