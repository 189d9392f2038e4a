"""`log_number`: it records what `log` would, or has no effect and says so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from telemetry.client import module_level, start
from telemetry.client import run as run_module
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Scalars


@pytest.fixture
def aggregator(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAggregator]:
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as made:
        monkeypatch.setenv(ENDPOINT_VARIABLE, made.endpoint)
        yield made
        run_module._STARTER.run = None
        PROCESS.finish(5.0)
        PROCESS.reopen()


def test_numbers_under_known_names_are_recorded(aggregator: FakeAggregator) -> None:
    """Numbers under known names are recorded as `log` records them."""
    run = start("job")
    module_level.log({"fast/x": 0.0}, step=0, axis="fast")
    for step, value in enumerate((0.5, 3, True, np.float32(0.25), np.array([2.0]), math.nan, math.inf), 1):
        assert module_level.log_number("fast/x", value, step, "fast")
    run.finish()
    [heard] = aggregator.heard.values()
    values = [(one.step, one.values) for one in heard.records if isinstance(one, Scalars)]
    expected = [0.0, 0.5, 3.0, 1.0, 0.25, 2.0, None, None]
    assert values == [(step, {"fast/x": value}) for step, value in enumerate(expected)]


def test_the_rest_is_left_to_log(aggregator: FakeAggregator) -> None:
    """`log_number` returns false and records no value if the case is one for `log`."""
    assert not module_level.log_number("fast/y", 0.5, 0, "fast")
    run = start("job")
    assert not module_level.log_number("fast/y", 0.5, 0, "fast")
    module_level.log({"fast/y": 0.5}, step=0, axis="fast")
    assert not module_level.log_number("fast/y", "text", 1, "fast")
    assert not module_level.log_number("fast/y", [1.0, 2.0], 1, "fast")
    assert not module_level.log_number("fast/y", 0.5, 1, "unknown axis")
    assert not module_level.log_number("fast/y", 0.5, 1 << 70, "fast")
    run.finish()
    assert not module_level.log_number("fast/y", 0.5, 1, "fast")
    [heard] = aggregator.heard.values()
    assert [one.step for one in heard.records if isinstance(one, Scalars)] == [0]
