"""A run for tests of backends is what it says it is."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from telemetry.backends.items import Item, Params, Reading, Step
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.source import Position
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.sample import EVERY_S, NOT_FINITE, PARAMS, SampleRun, record_run, value


def items(sample: SampleRun) -> list[Item]:
    source = DiskSource(RunDirectory.open(sample.path), Position(), every_s=EVERY_S)
    found: list[Item] = []
    while not source.over:
        found += [read.item for read in source.read(1_000, 1.0)]
    assert source.notes() == []
    source.close()
    return found


def test_its_items_are_those_it_says(tmp_path: Path) -> None:
    """The items agree with the sample in number and in value. The newest value of a step counts."""
    sample = record_run(tmp_path, steps=50, names=30)
    found = items(sample)
    assert Counter(type(item).__name__.lower() for item in found) == sample.items
    steps: dict[tuple[str, int], dict[str, float]] = {}
    corrected = 0
    for item in found:
        if isinstance(item, Step):
            known = steps.setdefault((item.axis, item.step), {})
            corrected += len(known.keys() & item.values.keys())
            known |= item.values
    axis, step, name = NOT_FINITE
    assert math.isnan(steps[axis, step].pop(name))
    assert (steps, corrected) == (sample.steps, sample.corrected)
    assert sample.values == sum(len(one.values) for one in found if isinstance(one, Step)) - corrected - 1
    assert steps["train", 17]["train/v3"] == value(17, 3)
    assert len(steps["wide", 1]) == 30


def test_it_has_settings_and_a_result(tmp_path: Path) -> None:
    """First and last."""
    first, *_, last = items(record_run(tmp_path, steps=5))
    assert isinstance(first, Params)
    assert first.values == PARAMS
    assert isinstance(last, Reading)
    assert (last.final, last.series[0].count, last.counters[0].value) == (True, 40, 40.0)
